"""The shop of `./dev bench activation`, on SQLite and on PostgreSQL: its rows, and a process that keeps writing.

Each commit touches a tick, each tenth an order too.
"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.support.postgres import VERSIONS, Postgres

RATE = 200.0
_ORDERS, _CUSTOMERS, _REGIONS, _TICKS = 300_000, 30_000, 3_000, 1_000
_TABLES = """
CREATE TABLE ticks (id INTEGER PRIMARY KEY, committing DOUBLE PRECISION);
CREATE TABLE customers (id INTEGER PRIMARY KEY, region INTEGER, name TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, note TEXT);
"""
_NUMBERS = "WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {last}) "
_ROWS = (
    f"INSERT INTO ticks {_NUMBERS.format(last=_TICKS - 1)} SELECT n, 0 FROM s",
    f"INSERT INTO customers {_NUMBERS.format(last=_CUSTOMERS - 1)} SELECT n, n % {_REGIONS}, 'c' || n FROM s",
    f"INSERT INTO orders {_NUMBERS.format(last=_ORDERS - 1)} "
    f"SELECT n, n % {_CUSTOMERS} * 7919 % {_CUSTOMERS}, n % 1000, 'order ' || n FROM s",
)


@contextlib.contextmanager
def on_sqlite(scratch: Path) -> Iterator[str]:
    path = scratch / "bench.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(f"PRAGMA journal_mode = WAL; {_TABLES} BEGIN; {'; '.join(_ROWS)}; COMMIT")
    db.close()
    yield f"sqlite:///{path}"


@contextlib.contextmanager
def on_postgres(_: Path) -> Iterator[str]:
    server = Postgres(VERSIONS[-1])
    try:
        server.start()
        with server.connect() as db:
            for statement in (_TABLES, *_ROWS, "ANALYZE"):
                db.execute(statement.encode())
        yield server.url()
    finally:
        server.remove()


@contextlib.contextmanager
def written(url: str) -> Iterator[None]:
    """While the block lasts, another process writes."""
    writer = subprocess.Popen([sys.executable, "-m", "bench.shop", url])
    try:
        yield
    finally:
        writer.kill()
        writer.wait()


def _write(execute: Callable[[str], Any]) -> None:
    """Until it is killed."""
    start, n = time.monotonic(), 0
    while True:
        if (ahead := start + n / RATE - time.monotonic()) > 0:
            time.sleep(ahead)
        execute("BEGIN")
        execute(f"UPDATE ticks SET committing = {time.monotonic()!r} WHERE id = {n % _TICKS}")
        if n % 10 == 0:
            execute(f"UPDATE orders SET amount = amount + 1 WHERE id = {n * 31 % _ORDERS}")
        execute("COMMIT")
        n += 1


def main(url: str) -> None:
    if url.startswith("sqlite"):
        db = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
        db.execute("PRAGMA synchronous = NORMAL")
        _write(db.execute)
    else:
        with psycopg.connect(url, autocommit=True) as server:
            _write(lambda sql: server.execute(sql.encode()))


if __name__ == "__main__":
    main(sys.argv[1])
