"""Transactions that PostgreSQL sends while they are still under way."""

from __future__ import annotations

from typing import Any

import psycopg

from headwater.model.change import Transaction
from headwater.sources.postgres.source import PostgresSource
from tests.sources.replica import Replica, drained
from tests.support.processes import eventually

Db = psycopg.Connection[Any]


def test_a_large_transaction_is_whole_and_what_it_undid_is_left_out(source: PostgresSource, db: Db, url: str) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
    source.capture("t")
    replica = Replica(source, "t")
    start = replica.position
    with psycopg.connect(url) as large:
        _fill(large, 0, 3000)
        large.execute("SAVEPOINT kept")
        _fill(large, 10_000, 12_000)
        large.execute("SAVEPOINT undone")
        _fill(large, 20_000, 24_000)
        large.execute("SAVEPOINT inside")
        large.execute("DELETE FROM t WHERE id < 2000")
        large.execute("ROLLBACK TO SAVEPOINT undone")
        db.execute("INSERT INTO t VALUES (-1, 'meanwhile')")
        _fill(large, 30_000, 31_000)
        large.execute("UPDATE t SET a = 'changed' WHERE id < 100 AND id >= 0")
    with psycopg.connect(url) as large:
        _fill(large, 40_000, 44_000)
        large.rollback()
    items = [item for item in drained(source, start) if isinstance(item, Transaction) and item.changes]
    assert [len(item.changes) for item in items] == [1, 3000 + 2000 + 1000 + 100]
    replica.apply(items)
    replica.holds(source.query("SELECT id, a FROM t").rows)
    eventually(lambda: _streamed(db) >= 1)  # the server counts a little later


def test_two_large_transactions_at_once(source: PostgresSource, db: Db, url: str) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
    source.capture("t")
    replica = Replica(source, "t")
    with psycopg.connect(url) as one, psycopg.connect(url) as two:
        for step in range(4):
            _fill(one, 10_000 + step * 1000, 10_900 + step * 1000)
            _fill(two, 50_000 + step * 1000, 50_900 + step * 1000)
            source.changes(replica.position, 0)
    items = [item for item in drained(source, replica.position) if isinstance(item, Transaction) and item.changes]
    assert [len({str(one.new[0])[0] for one in item.changes if one.new} & {"5"}) for item in items] == [1, 0]
    replica.apply(items)
    replica.holds(source.query("SELECT id, a FROM t").rows)


def _fill(db: Db, start: int, stop: int) -> None:
    db.execute("INSERT INTO t SELECT n, repeat('x', 50) FROM generate_series(%s::int, %s::int - 1) n", (start, stop))


def _streamed(db: Db) -> int:
    row = db.execute("SELECT max(stream_txns) FROM pg_stat_replication_slots").fetchone()
    return int(row[0] or 0) if row is not None else 0
