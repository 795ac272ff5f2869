"""A PostgreSQL with the tables of TPC-H, filled by COPY; its refresh functions RF1 and RF2 as small transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from bench.tpch.rows import TABLES, Population, Row, sparse_keys
from tests.support.postgres import VERSIONS, Postgres

_SCHEMA = Path(__file__).with_name("schema.sql")
_INDEXES = (  # what a careful owner has: the foreign keys
    "CREATE INDEX ON supplier (s_nationkey)",
    "CREATE INDEX ON customer (c_nationkey)",
    "CREATE INDEX ON partsupp (ps_suppkey)",
    "CREATE INDEX ON orders (o_custkey)",
    "CREATE INDEX ON lineitem (l_partkey, l_suppkey)",
)
_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "max_parallel_workers_per_gather": "0"}
_GONE_S = 60.0
_CHANGES = (
    "UPDATE partsupp SET ps_supplycost = ps_supplycost + 0.01, ps_availqty = ps_availqty + 1 WHERE ps_partkey = %s",
    "UPDATE part SET p_size = p_size %% 50 + 1 WHERE p_partkey = %s",
    "UPDATE supplier SET s_acctbal = s_acctbal + 0.01 WHERE s_suppkey = %s",
)


@contextmanager
def loaded(population: Population, told: Callable[[str], object]) -> Iterator[Postgres]:
    """Its queries run in one process each: one core beside one core. `told` hears of the progress."""
    server = Postgres(VERSIONS[-1], _SETTINGS)
    try:
        server.start()
        with server.connect() as db:
            db.execute(_SCHEMA.read_bytes())
            for table in TABLES[:6]:
                told(f"loading {table}: {population.count(table):,} rows …")
                _copy(db, table, getattr(population, table)())
            told(f"loading orders: {population.orders:,}, and about four lines each …")
            _load_orders(db, population)
            told("indexes and statistics …")
            for statement in (*_INDEXES, "VACUUM ANALYZE"):
                db.execute(statement.encode())
        yield server
    finally:
        server.remove()


def _copy(db: psycopg.Connection[Any], table: str, rows: Iterator[Row]) -> None:
    with db.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)


def _load_orders(db: psycopg.Connection[Any], population: Population) -> None:
    lines: list[Row] = []

    def orders() -> Iterator[Row]:
        for order, its in population.loaded_orders():
            lines.extend(its)
            yield order

    _copy(db, "orders", orders())
    _copy(db, "lineitem", iter(lines))


def let_go(server: Postgres) -> None:
    """What a process that was killed left in the database."""
    with server.connect() as db:
        db.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        until_s = time.monotonic() + _GONE_S
        while db.execute("SELECT 1 FROM pg_replication_slots WHERE active").fetchall():
            assert time.monotonic() < until_s, "a replication slot stays in use"
            time.sleep(0.005)
        db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        for (name,) in db.execute("SELECT pubname FROM pg_publication").fetchall():
            db.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(name)))


def refresh(db: psycopg.Connection[Any], population: Population, n: int) -> None:
    """The nth transaction, from 0: RF1 and RF2 in turn, an order with its lines each."""
    with db.transaction():
        if n % 2 == 0:
            order, lines = population.new_order(n // 2)
            _insert(db, "orders", [order])
            _insert(db, "lineitem", lines)
        else:
            key = int(sparse_keys(np.array(n // 2), 0))
            db.execute("DELETE FROM lineitem WHERE l_orderkey = %s", (key,))
            db.execute("DELETE FROM orders WHERE o_orderkey = %s", (key,))


def change_offers(db: psycopg.Connection[Any], population: Population, n: int) -> None:
    """For the queries that read neither orders nor their lines, which TPC-H never changes: the offers of a part, a part
    or a supplier, in turn."""
    most = population.suppliers if n % 3 == 2 else population.parts
    db.execute(_CHANGES[n % 3].encode(), (1 + n * 7919 % most,))


def _insert(db: psycopg.Connection[Any], table: str, rows: list[Row]) -> None:
    marks = ", ".join(["%s"] * len(rows[0]))
    values = ", ".join([f"({marks})"] * len(rows))
    db.execute(f"INSERT INTO {table} VALUES {values}".encode(), [value for row in rows for value in row])
