"""Tables that are held by key on PostgreSQL, whose stream tells of an update little more than the new row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.model.emission import Emission, Result
from headwater.sources.postgres.source import PostgresSource
from tests.support.by_key import BY_KEY
from tests.support.databases import Place, place, rows
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually

BY_CUSTOMER = "SELECT id, length(note) AS n FROM orders WHERE customer = 3 ORDER BY id"
LARGE = 5_000


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    server = servers[request.param]
    with server.database() as database:
        url = server.url(database)
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int, note text)")
            db.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
            db.execute(
                f"INSERT INTO orders SELECT n, n, repeat('x', {LARGE} + n) FROM generate_series(1, 9) n".encode()
            )
        yield url


@pytest.fixture
def shop(url: str, tmp_path: Path) -> Iterator[Place]:
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
        yield here


def stream(here: Place) -> Any:
    source = here.server.pipeline.source
    assert isinstance(source, PostgresSource)
    assert source._slot.stream is not None
    return source._slot.stream


def test_a_large_value_that_did_not_change_is_kept(shop: Place) -> None:
    live = shop.db.query(BY_CUSTOMER, live=True)
    assert live.wait(shop.write("UPDATE orders SET id = 33 WHERE id = 3"))
    assert rows(live) == [{"id": 33, "n": LARGE + 3}]


def test_a_row_that_comes_without_a_large_value_is_read_by_its_key(shop: Place) -> None:
    """Nothing has changed it since: the value is that of the transaction."""
    live = shop.db.query(BY_CUSTOMER, live=True)
    assert live.wait(shop.write("UPDATE orders SET customer = 3 WHERE id = 4"))
    assert rows(live) == [{"id": 3, "n": LARGE + 3}, {"id": 4, "n": LARGE + 4}]
    assert live.resyncs == 0
    assert live.wait(shop.write("UPDATE orders SET customer = 4 WHERE id = 4"))
    assert rows(live) == [{"id": 3, "n": LARGE + 3}]
    shop.db.verify(live)


def test_where_the_large_value_cannot_be_known_any_more_the_table_begins_anew(shop: Place, url: str) -> None:
    live = shop.db.query(BY_CUSTOMER, live=True)
    with stream(shop).moved, psycopg.connect(url, autocommit=True) as other:  # nothing is read meanwhile
        other.execute("UPDATE orders SET customer = 3 WHERE id = 4")
        other.execute("UPDATE orders SET note = repeat('y', 6000) WHERE id = 4")
    eventually(lambda: rows(live) == [{"id": 3, "n": LARGE + 3}, {"id": 4, "n": 6000}])
    assert live.resyncs > 0
    assert live.wait(shop.write("DELETE FROM orders WHERE id = 3"))
    shop.db.verify(live)


def test_a_row_that_changes_while_it_is_read_is_right(shop: Place, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot is older than the stream when its rows arrive: what was said meanwhile catches up."""
    shop.db.query("SELECT id FROM orders WHERE customer = 1", live=True)
    source = shop.server.pipeline.source
    assert isinstance(source, PostgresSource)
    taken, changes = (
        source._keys._taken,
        iter(
            [
                "UPDATE orders SET note = 'new' WHERE id = 3",
                "UPDATE orders SET customer = 3 WHERE id IN (5, 1)",
                "UPDATE orders SET customer = 3, note = 'short' WHERE id = 6",
                "INSERT INTO orders VALUES (7, 3, 'in')",
                "DELETE FROM orders WHERE id = 8",
            ]
        ),
    )

    def late(row_cache: Any, stream: Any, *given: Any) -> Any:
        sql = next(changes, None)
        if sql is not None:
            stream.moved.release()
            try:
                source.execute("DELETE FROM orders WHERE id = 7") if "(7" in sql else None
                position = source.execute(sql)
                stream.follow(lambda: stream.position >= position, 60)
            finally:
                stream.moved.acquire()
        return taken(row_cache, stream, *given)

    monkeypatch.setattr(source._keys, "_taken", late)
    for customer in (3, 8):
        live = shop.db.query(f"SELECT id, note FROM orders WHERE customer = {customer}", live=True)
        shop.db.verify(live)
        assert live.wait(shop.write("UPDATE orders SET note = note || '!'"))
        shop.db.verify(live)


def test_an_array_asks_for_the_rows_of_its_values(shop: Place) -> None:
    live = shop.db.query("SELECT id, customer FROM orders WHERE id = ANY ($1) ORDER BY id", "{3,4,100}", live=True)
    assert rows(live) == [{"id": 3, "customer": 3}, {"id": 4, "customer": 4}]
    assert live.wait(shop.write("UPDATE orders SET id = id + 96 WHERE id > 2"))
    assert rows(live) == [{"id": 100, "customer": 4}]
    assert "orders" in shop.server.pipeline._catalog.by_key
    assert shop.server.pipeline.keys.questions == 1


def test_truncate_empties_it(shop: Place) -> None:
    live = shop.db.query(BY_CUSTOMER, live=True)
    assert live.wait(shop.write("TRUNCATE orders"))
    assert rows(live) == []
    assert live.wait(shop.write("INSERT INTO orders VALUES (1, 3, 'ab'), (2, 4, 'abc')"))
    assert rows(live) == [{"id": 1, "n": 2}]


def test_a_column_more_changes_nothing(shop: Place) -> None:
    live = shop.db.query("SELECT * FROM orders WHERE id = 3", live=True)
    shop.write("ALTER TABLE orders ADD COLUMN more int DEFAULT 7")
    assert live.wait(shop.write("UPDATE orders SET note = 'x' WHERE id = 3"))
    assert rows(live) == [{"id": 3, "customer": 3, "note": "x"}]
    other = shop.db.query("SELECT more FROM orders WHERE id = 4", live=True)
    assert rows(other) == [{"more": 7}]
    assert other.wait(shop.write("UPDATE orders SET more = 8 WHERE id = 4"))
    assert rows(other) == [{"more": 8}]
    assert "orders" in shop.server.pipeline._catalog.by_key


@pytest.mark.parametrize("statement", ["DROP TABLE orders", "ALTER TABLE orders RENAME COLUMN note TO remark"])
def test_what_ends_a_table_ends_its_queries(shop: Place, statement: str) -> None:
    live = shop.db.query(BY_CUSTOMER, live=True)
    shop.write(statement)
    eventually(lambda: live.state == "closed")
    assert "orders" in str(live.reason)


def test_a_lost_slot_begins_anew(shop: Place) -> None:
    live = shop.db.query(BY_CUSTOMER, live=True)
    told: list[Emission | None] = []
    live.listen(told.append)
    shop.server.pipeline.source.abandon("it went away")
    eventually(lambda: any(isinstance(one, Result) for one in told))
    assert live.wait(shop.write("UPDATE orders SET note = 'x' WHERE id = 3"))
    assert rows(live) == [{"id": 3, "n": 1}]
    assert "orders" in shop.server.pipeline._catalog.by_key
