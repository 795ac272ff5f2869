"""Tables that are held by key: of a large table only the rows that subscribers ask for are read, held and followed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.model.emission import Emission, Result
from headwater.model.limits import DEFAULT
from headwater.sources.postgres.source import PostgresSource
from tests.support.by_key import BY_KEY, state_rows
from tests.support.databases import Place, place, rows
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually

COUNT = 200
ONE = "SELECT note FROM orders WHERE id = {}"


@pytest.fixture(params=["memory", "sqlite", *(f"postgres {version}" for version in VERSIONS)])
def url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shop.db'}"
    else:
        server = servers[request.param.split()[1]]
        with server.database() as database:
            yield server.url(database)


@pytest.fixture
def shop(url: str, tmp_path: Path) -> Iterator[Place]:
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
        fill(here)
        yield here


def fill(here: Place) -> None:
    here.write("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, note TEXT)")
    here.write_together(*(f"INSERT INTO orders VALUES ({n}, {n % 10}, 'n{n}')" for n in range(COUNT)))


def questions(here: Place) -> int:
    return here.server.pipeline.keys.questions


def cached(here: Place) -> int | None:
    """How many rows PostgreSQL's capture keeps; None on SQLite, where it keeps none."""
    source = here.server.pipeline.source
    if not isinstance(source, PostgresSource):
        return None
    cache = source._slot.row_cache
    assert cache is not None
    return sum(1 for capture in cache.captures.values() for _ in cache.all(capture))


def held_keys(here: Place, let_go: Callable[[], None] = lambda: None) -> int:
    let_go()
    return sum(len(one.keys) for one in here.server.pipeline._held.demands("orders"))


def is_by_key(here: Place) -> bool:
    return "orders" in here.server.pipeline._catalog.by_key


def test_a_query_for_one_row_copies_one_row(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as shop:
        fill(shop)
        live = shop.db.query(ONE.format(7), live=True)
        assert rows(live) == [{"note": "n7"}]
        assert live.wait(shop.write("UPDATE orders SET note = 'seven' WHERE id = 7"))
        assert rows(live) == [{"note": "seven"}]
        assert live.wait(shop.write("UPDATE orders SET note = 'eight' WHERE id = 8"))
        assert live.wait(shop.write("DELETE FROM orders WHERE id = 7"))
        assert rows(live) == []
        assert live.wait(shop.write("INSERT INTO orders VALUES (7, 1, 'again')"))
        assert rows(live) == [{"note": "again"}]
        shop.db.verify(live)
        assert questions(shop) == 1
        assert cached(shop) in (None, 1)
        assert not list(shop.server.pipeline.layout.hydration.iterdir())
        if url == "memory://":
            return
    assert state_rows(tmp_path / "data") == 1


def test_a_small_table_is_held_whole(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=url, limits=DEFAULT) as shop:
        fill(shop)
        assert rows(shop.db.query(ONE.format(7), live=True)) == [{"note": "n7"}]
        assert not is_by_key(shop)
        assert "held by key" not in shop.db.explain(ONE.format(7))


def test_explain_says_that_a_table_is_held_by_key_and_from_which_size_on(shop: Place) -> None:
    note = "orders is held by key (id)"
    assert note in shop.db.explain(ONE.format(7))
    shop.db.query(ONE.format(7), live=True)
    assert note in shop.db.explain(ONE.format(7))
    assert "tables of 0 rows or more" in shop.db.explain(ONE.format(7))
    assert "held by key" not in shop.db.explain("SELECT note FROM orders")


def test_a_key_is_asked_for_once_whoever_asks(shop: Place) -> None:
    first = shop.db.query("SELECT id FROM orders WHERE customer = 3 ORDER BY id LIMIT 2", live=True)
    other = shop.db.query("SELECT id, note FROM orders WHERE customer = 3 AND id > 100", live=True)
    assert questions(shop) == 1
    position = shop.write("INSERT INTO orders VALUES (-1, 3, 'new')")
    assert first.wait(position) and other.wait(position)
    assert rows(first) == [{"id": -1}, {"id": 3}]
    shop.db.verify(first)
    shop.db.verify(other)


def test_a_row_stays_that_is_asked_for_by_two_columns_when_one_is_left(shop: Place) -> None:
    by_id = shop.db.query(ONE.format(13), live=True)
    by_customer = shop.db.query("SELECT id FROM orders WHERE customer = 3", live=True)
    assert by_id.wait(shop.write("UPDATE orders SET customer = 4 WHERE id = 13"))
    assert rows(by_id) == [{"note": "n13"}]
    assert by_id.wait(shop.write("UPDATE orders SET note = 'moved' WHERE id = 13"))
    assert rows(by_id) == [{"note": "moved"}]
    shop.db.verify(by_customer)


def test_a_list_asks_for_the_rows_of_its_values(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as shop:
        fill(shop)
        few = shop.db.query("SELECT id, note FROM orders WHERE id IN (7, 8, 1000) ORDER BY id", live=True)
        assert rows(few) == [{"id": 7, "note": "n7"}, {"id": 8, "note": "n8"}]
        assert questions(shop) == 1
        assert "orders is held by key (id)" in shop.db.explain("SELECT note FROM orders WHERE id IN (1, 2)")
        shop.db.query(ONE.format(8), live=True)
        assert questions(shop) == 1
        more = shop.db.query("SELECT note FROM orders WHERE id IN (8, 9) AND note > 'a'", live=True)
        assert questions(shop) == 2
        assert few.wait(shop.write("INSERT INTO orders VALUES (1000, 1, 'new')"))
        assert few.wait(shop.write("UPDATE orders SET id = 2000 WHERE id = 7"))
        assert few.wait(shop.write("UPDATE orders SET note = note || '!' WHERE id < 20"))
        assert rows(few) == [{"id": 8, "note": "n8!"}, {"id": 1000, "note": "new"}]
        assert {row["note"] for row in more.rows} == {"n8!", "n9!"}
        shop.db.verify(few)
        shop.db.verify(more)
        assert is_by_key(shop)
        if url == "memory://":
            return
    assert state_rows(tmp_path / "data") == 3


def test_a_list_that_nobody_asks_for_goes_but_for_what_others_ask_for(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=url, limits=replace(BY_KEY, key_idle_ms=0)) as shop:
        fill(shop)
        stays = shop.db.query("SELECT id, note FROM orders WHERE id IN (1, 2) ORDER BY id", live=True)
        shop.db.query("SELECT note FROM orders WHERE id IN (2, 3, 4)", live=True).abort(forget=True)
        eventually(lambda: held_keys(shop, shop.server.pipeline.evict) == 2)
        assert cached(shop) in (None, 2)
        assert stays.wait(shop.write("UPDATE orders SET note = 'x' WHERE id < 5"))
        assert rows(stays) == [{"id": 1, "note": "x"}, {"id": 2, "note": "x"}]


def test_keys_of_several_columns_and_of_any_text(shop: Place) -> None:
    odd = "it''s 100%, \\ and \"so\" on"
    shop.write(f"INSERT INTO orders VALUES (-1, 3, '{odd}')")
    sql = f"SELECT id FROM orders WHERE customer = 3 AND note = '{odd}'"
    live = shop.db.query(sql, live=True)
    assert rows(live) == [{"id": -1}]
    assert live.wait(shop.write(f"UPDATE orders SET note = '{odd}' WHERE id IN (13, 14)"))
    assert {row["id"] for row in live.rows} == {-1, 13}
    assert live.wait(shop.write("UPDATE orders SET note = 'plain' WHERE id = -1"))
    assert rows(live) == [{"id": 13}]
    assert questions(shop) == 1
    shop.db.verify(live)


def test_numbers_are_the_keys_that_the_database_finds_equal(shop: Place) -> None:
    shop.write("CREATE TABLE prices (id INTEGER PRIMARY KEY, price NUMERIC(9, 2))")
    shop.write("INSERT INTO prices VALUES (1, 1.50), (2, 2), (3, 1.5)")
    for price, ids in (("1.5", [1, 3]), ("2.00", [2])):
        live = shop.db.query(f"SELECT id FROM prices WHERE price = {price} ORDER BY id", live=True)
        assert [row["id"] for row in live.rows] == ids
        shop.db.verify(live)
    assert live.wait(shop.write("UPDATE prices SET price = 2 WHERE id = 3"))
    assert [row["id"] for row in live.rows] == [2, 3]


def test_a_table_that_becomes_whole_while_a_key_is_fetched(shop: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.db.query(ONE.format(1), live=True)
    source = shop.server.pipeline.source
    fetch = source.fetch

    def late(*given: Any) -> Any:
        monkeypatch.setattr(source, "fetch", fetch)
        shop.db.query("SELECT count(*) AS n FROM orders", live=True)
        return fetch(*given)

    monkeypatch.setattr(source, "fetch", late)
    live = shop.db.query(ONE.format(2), live=True)
    assert rows(live) == [{"note": "n2"}]
    assert not is_by_key(shop)
    assert live.wait(shop.write("UPDATE orders SET note = 'two' WHERE id = 2"))
    assert rows(live) == [{"note": "two"}]


def test_those_who_come_together_share_a_question(shop: Place) -> None:
    shop.db.query(ONE.format(0), live=True)
    found: dict[int, object] = {}

    def subscribe(n: int) -> None:
        found[n] = rows(shop.db.query(ONE.format(n), live=True))

    threads = [threading.Thread(target=subscribe, args=(n,)) for n in range(1, 31)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [{"note": f"n{n}"}] for n in range(1, 31)}
    assert questions(shop) <= 31
    assert cached(shop) in (None, 31)


OTHERS = {
    "a scan": "SELECT count(*) AS n FROM orders",
    "a join": "SELECT a.id FROM orders a JOIN orders b ON a.id = b.customer",
    "bounds": "SELECT id FROM orders WHERE id > 5 AND id < 9",
    "a re-queried one": "SELECT id, rank() OVER (ORDER BY id) AS place FROM orders WHERE id = 5",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_query_that_needs_every_row_makes_the_table_whole(shop: Place, kind: str) -> None:
    live = shop.db.query(ONE.format(7), live=True)
    told: list[Emission | None] = []
    live.listen(told.append)
    other = shop.db.query(OTHERS[kind], live=True)
    assert not is_by_key(shop)
    eventually(lambda: any(isinstance(one, Result) for one in told))
    position = shop.write("UPDATE orders SET note = 'seven' WHERE id = 7")
    assert live.wait(position) and other.wait(position)
    assert rows(live) == [{"note": "seven"}]
    shop.db.verify(live)
    shop.db.verify(other)
    shop.db.query("SELECT id FROM orders WHERE customer = 3", live=True)
    assert not is_by_key(shop)


def test_a_table_without_a_key_is_held_whole(shop: Place) -> None:
    shop.write("CREATE TABLE bare (n INTEGER, note TEXT)")
    with contextlib.suppress(Exception):  # what SQLite does not know, PostgreSQL asks for
        shop.write("ALTER TABLE bare REPLICA IDENTITY FULL")
    shop.write("INSERT INTO bare VALUES (1, 'one')")
    assert rows(shop.db.query("SELECT note FROM bare WHERE n = 1", live=True)) == [{"note": "one"}]
    assert "bare" not in shop.server.pipeline._catalog.by_key


def test_with_several_query_partitions_a_table_is_held_whole(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY, cells="2x1") as shop:
        fill(shop)
        assert rows(shop.db.query(ONE.format(7), live=True)) == [{"note": "n7"}]
        assert not is_by_key(shop)


def test_a_key_that_nobody_asks_for_goes_and_comes_back(url: str, tmp_path: Path) -> None:
    limits = replace(BY_KEY, key_idle_ms=0)
    with place("embedded", tmp_path / "data", url=url, limits=limits) as shop:
        fill(shop)
        stays = shop.db.query(ONE.format(1), live=True)
        leaves = shop.db.query("SELECT id FROM orders WHERE customer = 3", live=True)
        leaves.abort(forget=True)
        eventually(lambda: held_keys(shop, shop.server.pipeline.evict) == 1)
        assert cached(shop) in (None, 1)
        assert stays.wait(shop.write("UPDATE orders SET note = 'x' WHERE customer = 3"))
        again = shop.db.query("SELECT id, note FROM orders WHERE customer = 3 ORDER BY id", live=True)
        assert rows(again)[0] == {"id": 3, "note": "x"}
        assert again.wait(shop.write("DELETE FROM orders WHERE id = 3"))
        assert rows(again)[0] == {"id": 13, "note": "x"}
        again.abort(forget=True)
        eventually(lambda: held_keys(shop, shop.server.pipeline.evict) == 1)
        if url == "memory://":
            return
    assert state_rows(tmp_path / "data") == 1


def test_over_the_limit_the_keys_that_nobody_asks_for_go_first(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=url, limits=replace(BY_KEY, keys_max=3)) as shop:
        fill(shop)
        lives = [shop.db.query(ONE.format(n), live=True) for n in range(5)]
        assert held_keys(shop, shop.server.pipeline.evict) == 5
        for live in lives[:4]:
            live.abort(forget=True)
        eventually(lambda: held_keys(shop, shop.server.pipeline.evict) == 3)
        assert lives[4].wait(shop.write("UPDATE orders SET note = 'four' WHERE id = 4"))
        assert rows(lives[4]) == [{"note": "four"}]


def test_over_the_limit_of_bytes_the_keys_that_nobody_asks_for_go_first(url: str, tmp_path: Path) -> None:
    """A customer has twenty rows of some twenty bytes each."""
    with place("embedded", tmp_path / "data", url=url, limits=replace(BY_KEY, keys_bytes_max=900)) as shop:
        fill(shop)
        lives = [shop.db.query(f"SELECT id FROM orders WHERE customer = {n}", live=True) for n in range(4)]
        assert held_keys(shop, shop.server.pipeline.evict) == 4
        for live in lives[:3]:
            live.abort(forget=True)
        eventually(lambda: held_keys(shop, shop.server.pipeline.evict) < 3)
        assert held_keys(shop) > 0
        assert lives[3].wait(shop.write("DELETE FROM orders WHERE id = 3"))
        shop.db.verify(lives[3])


def test_a_template_that_nobody_needs_goes_with_its_keys(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=url, limits=replace(BY_KEY, template_idle_ms=0)) as shop:
        fill(shop)
        stays = shop.db.query(ONE.format(1), live=True)
        shop.db.query("SELECT id FROM orders WHERE customer = 3", live=True).abort(forget=True)
        eventually(lambda: held_keys(shop, shop.server.pipeline.release) == 1)
        assert cached(shop) in (None, 1)
        again = shop.db.query("SELECT id FROM orders WHERE customer = 3", live=True)
        assert len(rows(again)) == 20
        assert stays.wait(shop.write("DELETE FROM orders WHERE customer IN (1, 3)"))
        assert rows(stays) == rows(again) == []
