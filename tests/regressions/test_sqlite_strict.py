"""ANY means no conversion in a STRICT table, and NUMERIC affinity elsewhere: what a query makes of it is SQLite's."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.client.database import Database

VALUES = (1, "1", 1.0, "1.0", b"1", None, "abc", 2**60, "01", 1.5, "1.5")
MORE = (3, "3", b"3", "1", 1)
TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a ANY, i INT, r REAL, x TEXT, g ANY AS (a) STORED, h TEXT AS (a)) STRICT",
    "CREATE TABLE w (id INTEGER PRIMARY KEY, a ANY) STRICT, WITHOUT ROWID",
    "CREATE TABLE n (id INTEGER PRIMARY KEY, a ANY, b)",
)
EACH = (
    "SELECT id, a FROM {0} WHERE a = '1'",
    "SELECT id, a FROM {0} WHERE a = 1",
    "SELECT id, typeof(a) AS k FROM {0}",
    "SELECT id FROM {0} WHERE a IN ('1', 1.5)",
    "SELECT id FROM {0} WHERE a BETWEEN '0' AND '2'",
    "SELECT id FROM {0} WHERE a < 'b' ORDER BY a, id",
    "SELECT id, CAST(a AS INTEGER) AS c, CAST(a AS ANY) AS d, a + 0 AS m, a || '' AS z FROM {0}",
    "SELECT one.id, two.id AS other FROM {0} one JOIN {0} two ON one.a = two.a",
    "SELECT one.id, two.id AS other FROM {0} one JOIN n two ON one.a = two.b",
    "SELECT one.id, two.id AS other FROM {0} one JOIN n two ON one.a = two.a",
    "SELECT a, count(*) AS n FROM {0} GROUP BY a",
    "SELECT id, rank() OVER (ORDER BY a, id) AS r FROM {0} WHERE a >= '1'",
)
QUERIES = (
    *(sql.format(table) for sql in EACH for table in "twn"),
    *(
        f"SELECT id FROM t WHERE {test}"
        for test in ("i = '1'", "r = '1'", "x = 1", "a = x", "a = i", "a = r", "g = '1'")
    ),
    "SELECT id, typeof(g) AS g, typeof(h) AS h FROM t",
    "SELECT id, a FROM v WHERE a = '1'",
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with headwater.connect(f"sqlite:///{tmp_path}/t.db", runner="inline", data_dir=tmp_path / "data") as db:
        for sql in (*TABLES, "CREATE VIEW v AS SELECT id, a FROM t"):
            db.execute(sql)
        write(db, 0, VALUES)
        yield db


def write(db: Database, first: int, values: tuple[object, ...]) -> int:
    position = 0
    for id, value in enumerate(values, first):
        db.execute("INSERT INTO t (id, a, i, r, x) VALUES (?, ?, 1, 1, '1')", id, value)
        db.execute("INSERT INTO w VALUES (?, ?)", id, value)
        position = db.execute("INSERT INTO n VALUES (?, ?, ?)", id, value, value)
    return position


def agree(live: headwater.LiveResult, path: Path, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as origin:
        wanted = origin.execute(sql).fetchall()
    assert sorted(repr(tuple(row.values())) for row in live.rows) == sorted(map(repr, wanted)), sql


def test_every_query_is_answered_as_sqlite_does_and_stays_so(db: Database, tmp_path: Path) -> None:
    lives = {sql: db.query(sql, live=True) for sql in dict.fromkeys(QUERIES)}
    for sql, live in lives.items():
        agree(live, tmp_path / "t.db", sql)
    position = write(db, 100, MORE)
    for sql, live in lives.items():
        assert live.wait(position)
        agree(live, tmp_path / "t.db", sql)


def test_what_rows_hold_that_are_older_than_an_any_column(db: Database, tmp_path: Path) -> None:
    sql = "SELECT id, more, typeof(more) AS k FROM t WHERE more = '01'"
    first = db.query("SELECT id FROM t", live=True)
    db.execute("ALTER TABLE t ADD COLUMN more ANY DEFAULT '01'")
    assert first.wait(db.execute("INSERT INTO t (id, a, more) VALUES (50, 1, 1)"))
    agree(db.query(sql, live=True), tmp_path / "t.db", sql)
