"""Queries that come while others write to an SQLite database without a WAL, where transactions merge and readers keep
writers waiting: each has the rows of the database in the end, and nobody waits for ever."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

import headwater
from tests.support.oracle import same_rows
from tests.support.processes import eventually

TABLES = [f"t{number}" for number in range(4)]
QUERIES = {
    "SELECT id, n FROM {t}": "incremental",
    "SELECT n, count(*) AS c FROM {t} GROUP BY n": "incremental",
    "SELECT id, json_quote(n) AS q FROM {t}": "selective",
    "SELECT id, rank() OVER (ORDER BY n, id) AS r FROM {t}": "requery",
}


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=120)


def _write(path: Path, number: int, stop: threading.Event) -> None:
    """Every table in each transaction, on rows of its own."""
    db = _connect(path)
    turn = 0
    while not stop.wait(0.05):
        turn += 1
        id = 100 * number + turn % 7
        db.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            db.execute(f"INSERT INTO {table} VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET n = n + 1", (id, turn))
            db.execute(f"DELETE FROM {table} WHERE id = ?", (100 * number + (turn + 3) % 7,))
        db.execute("COMMIT")
    db.close()


@pytest.mark.slow
def test_queries_that_come_while_others_write_have_the_rows_of_the_database(tmp_path: Path) -> None:
    path = tmp_path / "origin.db"
    there = _connect(path)
    for table in TABLES:
        there.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, n INTEGER)")
    stop = threading.Event()
    writers = [threading.Thread(target=_write, args=(path, number, stop)) for number in (1, 2)]
    with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as db:
        try:
            for writer in writers:
                writer.start()
            lives = [db.query(sql.format(t=table), live=True) for table in TABLES for sql in QUERIES]
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        assert [live.strategy for live in lives] == list(QUERIES.values()) * len(TABLES)
        end = db.position()
        for live in lives:
            assert live.wait(end, timeout=120), live.sql
            assert same_rows(live.rows, _rows(there, live.sql), ordered=False), live.sql
        eventually(lambda: db.status()["failure"] is None)
    there.close()


def _rows(there: sqlite3.Connection, sql: str) -> list[dict[str, Any]]:
    cursor = there.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
