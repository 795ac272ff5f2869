"""Live queries on PostgreSQL, as a user has them: answered by the origin, right at every position they claim."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.model.emission import Emission, apply
from headwater.model.errors import HeadwaterError, SqlError, UnsupportedQuery
from headwater.sources.cancellation import Cancellation
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.source import Answer, Params
from tests.sources.replica import Replica, drained
from tests.support.databases import place, rows
from tests.support.postgres import VERSIONS, Servers

JOIN = """
SELECT c.name, count(*) AS orders, sum(o.total) AS total
FROM customers c JOIN orders o ON o.customer = c.id
GROUP BY c.name ORDER BY total DESC, c.name LIMIT 3
"""
_PATIENCE_S = 120.0
_PAUSE_S = 0.01


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    server = servers[request.param]
    with server.database() as database:
        url = server.url(database)
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE TABLE customers (id int PRIMARY KEY, name text)")
            db.execute("CREATE TABLE orders (id serial PRIMARY KEY, customer int, total numeric(9,2), note text)")
            db.execute("INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(1, 5) n")
            db.execute("INSERT INTO orders (customer, total) SELECT 1 + n %% 5, n FROM generate_series(1, 20) n", ())
        yield url


def _until(done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_a_join_with_groups_follows_what_others_write(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        live = db.query(JOIN, live=True)
        assert rows(live)[0] == {"name": "customer 1", "orders": 4, "total": Decimal("50.00")}
        with psycopg.connect(url) as other:
            other.execute("INSERT INTO orders (customer, total) VALUES (3, 1000)")
            other.execute("UPDATE customers SET name = 'Three' WHERE id = 3")
        assert live.wait(db.position(), timeout=_PATIENCE_S)
        assert rows(live)[0] == {"name": "Three", "orders": 5, "total": Decimal("1038.00")}
        db.verify(live)


@pytest.mark.parametrize("way", ["embedded", "ws"])
def test_what_is_written_through_is_waited_for(url: str, tmp_path: Path, way: str) -> None:
    with place(way, tmp_path, url=url) as here:
        sql = "SELECT id, total FROM orders WHERE customer = $1 ORDER BY id"
        live = here.db.query(sql, 2, live=True)
        before = len(live.rows)
        position = here.write("INSERT INTO orders (customer, total) VALUES ($1, $2)", 2, "7.50")
        assert live.wait(position, timeout=_PATIENCE_S)
        assert len(live.rows) == before + 1
        assert live.rows[-1]["total"] == Decimal("7.50")
        position = here.write_together("DELETE FROM orders WHERE customer = 2", "INSERT INTO customers VALUES (9, 'x')")
        assert live.wait(position, timeout=_PATIENCE_S)
        assert rows(live) == []


def test_every_answer_is_right_at_its_position_while_several_write(url: str, tmp_path: Path) -> None:
    """Beside the pipeline another source follows the same table: what it had at a position is what was answered."""
    witness = PostgresSource(url)
    witness.attach(tmp_path / "witness")
    witness.capture("orders")
    replica = Replica(witness, "orders")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data") as db:
        live = db.query("SELECT customer, count(*) AS n, sum(total) AS total FROM orders GROUP BY customer", live=True)
        state, told = live.snapshot, list[Emission | None]()
        stop = live.listen(told.append)
        threads = [threading.Thread(target=_trade, args=(url, seed, lambda: len(told) > 5)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert live.wait(db.position(), timeout=_PATIENCE_S)
        stop()
        db.verify(live)
    items = drained(witness, replica.position)
    witness.close()
    emissions = [emission for emission in told if emission is not None]
    assert len(emissions) > 5
    for emission in emissions:
        state = apply(state, emission)
        replica.apply([item for item in items if replica.position < item.position <= emission.position])
        assert sorted(tuple(row.values()) for row in state.rows) == _grouped(replica)


def _grouped(replica: Replica) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[Decimal]] = defaultdict(list)
    for row, count in (+replica.rows).items():
        groups[row[1][1]] += [Decimal(row[2][1])] * count
    return sorted((customer, len(totals), sum(totals)) for customer, totals in groups.items())


def _trade(url: str, seed: int, is_enough: Callable[[], bool]) -> None:
    """Transactions of several statements, some of which are rolled back; at least so many, and until it was answered
    often enough in between: on a busy machine one answer covers many of them."""
    chance = random.Random(seed)
    until_s = time.monotonic() + _PATIENCE_S
    with psycopg.connect(url) as db:
        for count in itertools.count():
            if count >= 40 and (is_enough() or time.monotonic() > until_s):
                return
            db.execute(
                "INSERT INTO orders (customer, total) VALUES (%s, %s)", (chance.randrange(1, 6), chance.randrange(99))
            )
            db.execute("DELETE FROM orders WHERE id = %s", (chance.randrange(100),))
            if chance.random() < 0.2:
                db.rollback()
            else:
                db.commit()
            time.sleep(_PAUSE_S)


def test_it_goes_on_after_a_restart(url: str, tmp_path: Path) -> None:
    sql = "SELECT count(*) AS n FROM orders"
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        assert rows(db.query(sql, live=True)) == [{"n": 20}]
    with psycopg.connect(url) as other:
        other.execute("DELETE FROM orders WHERE id <= 5")
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        live = db.query(sql, live=True)
        _until(lambda: rows(live) == [{"n": 15}])
        assert live.wait(db.execute("DELETE FROM orders WHERE id <= 6"), timeout=_PATIENCE_S)
        assert rows(live) == [{"n": 14}]


def test_a_change_that_does_not_matter_asks_nothing(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place("embedded", tmp_path, url=url) as here:
        live = here.db.query("SELECT id, total, rank() OVER (ORDER BY id) AS place FROM orders WHERE id = 1", live=True)
        assert live.strategy == "requery"
        asked: list[str] = []
        source = here.server.pipeline.source
        query = source.query

        def noted(sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
            asked.append(sql)
            return query(sql, params, cancellation)

        monkeypatch.setattr(source, "query", noted)
        position = here.write("UPDATE orders SET note = 'irrelevant'")
        assert live.wait(position, timeout=_PATIENCE_S)
        assert asked == []
        position = here.write("UPDATE orders SET total = 3 WHERE id = 1")
        assert live.wait(position, timeout=_PATIENCE_S)
        assert rows(live) == [{"id": 1, "total": Decimal("3.00"), "place": 1}]
        assert asked


def test_a_dropped_table_ends_its_queries(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        live = db.query("SELECT id FROM orders", live=True)
        with psycopg.connect(url) as other:
            other.execute("DROP TABLE orders")
        _until(lambda: live.state == "closed")
        assert live.reason is not None
        assert "orders" in live.reason


def test_refusals_teach(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        with pytest.raises(UnsupportedQuery, match="now changes"):
            db.query("SELECT id FROM orders WHERE now() > '2000-01-01'", live=True)
        with pytest.raises(SqlError, match="nope"):
            db.query("SELECT nope FROM orders", live=True)
        with psycopg.connect(url) as other:
            other.execute("CREATE TABLE bare (n int)")
        with pytest.raises(HeadwaterError, match="REPLICA IDENTITY FULL"):
            db.query("SELECT n FROM bare", live=True)
        text = db.explain("SELECT id, rank() OVER (ORDER BY total) AS place FROM orders")
        assert "requery" in text
        assert "orders" in text
