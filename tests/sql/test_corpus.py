"""SELECTs of every form in the databases' manuals: each that the database prepares is live and has the database's rows,
or is refused for a reason that is documented; never because our grammar does not know it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from tests.support.followed import database_with
from tests.support.postgres import VERSIONS, Servers

HERE = Path(__file__).parent / "corpus"
REFUSED = "-- refused: "
SQLITE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL, d BLOB, j TEXT);
CREATE INDEX t_a ON t (a);
CREATE TABLE u (id INTEGER PRIMARY KEY, t_id INTEGER, x TEXT);
CREATE TABLE few (a INTEGER);
CREATE TABLE "odd name" ("a b" INTEGER PRIMARY KEY, "select" TEXT);
CREATE TABLE maße (größe INTEGER PRIMARY KEY, "naïve" TEXT);
CREATE VIEW v AS SELECT id, a * 2 AS twice FROM t WHERE a > 1;
INSERT INTO t VALUES (1, 1, 'one', 1.25, x'01', '{"x": 1, "list": [1, 2]}');
INSERT INTO t VALUES (2, 2, 'two', 2.5, x'', '{"x": "y", "list": []}');
INSERT INTO t VALUES (3, 2, 'Two', 3.0, NULL, '{"list": [3]}'), (4, 3, NULL, NULL, x'ff', '{}');
INSERT INTO u VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c'), (5, 9, 'd');
INSERT INTO few VALUES (1), (2);
INSERT INTO "odd name" VALUES (1, 'x');
INSERT INTO maße VALUES (7, 'ü');
"""
MORE = (
    "INSERT INTO t VALUES (7, 2, 'seven', 7.0, x'07', '{\"x\": 7, \"list\": [7]}')",
    "INSERT INTO u VALUES (7, 7, 'g')",
    "INSERT INTO few VALUES (3)",
    "UPDATE t SET a = 5, b = 'five' WHERE id = 1",
    "DELETE FROM u WHERE id = 2",
    "INSERT INTO \"odd name\" VALUES (2, 'y')",
    "UPDATE maße SET \"naïve\" = 'é'",
)


def corpus(name: str) -> Iterator[tuple[str, str | None]]:
    """Each statement, and the words it is refused with, if it is."""
    words = None
    for line in (HERE / name).read_text().splitlines():
        if line.startswith(REFUSED):
            words = line.removeprefix(REFUSED)
        elif line and not line.startswith("-- "):
            yield line, words
            words = None


def opened(db: headwater.Database, name: str) -> dict[str, headwater.LiveResult]:
    """All that may be live. What was refused for another reason than the one that is told, at once."""
    lives: dict[str, headwater.LiveResult] = {}
    wrong: list[str] = []
    for sql, words in corpus(name):
        try:
            lives[sql] = db.query(sql, live=True)
        except headwater.HeadwaterError as refused:
            if words is None or words not in refused.message:
                wrong.append(f"{sql}\n    {refused.message}")
        else:
            if words is not None:
                wrong.append(f"{sql}\n    live, though it is said to be refused: {words}")
    assert not wrong, "\n".join(wrong)
    return lives


def agree(lives: dict[str, headwater.LiveResult], asked: Callable[[str], Iterable[tuple[Any, ...]]]) -> None:
    wrong = [
        f"{sql}\n    {live.strategy}: expected {wanted}\n    found {found}"
        for sql, live in lives.items()
        if (found := sorted(repr(tuple(row.values())) for row in live.rows))
        != (wanted := sorted(map(repr, asked(sql))))
    ]
    assert not wrong, "\n".join(wrong)


def check(
    db: headwater.Database, name: str, asked: Callable[[str], Iterable[tuple[Any, ...]]], more: Iterable[str]
) -> None:
    lives = opened(db, name)
    assert len(lives) >= 150
    agree(lives, asked)
    for sql in more:
        db.execute(sql)
    for live in lives.values():
        assert live.wait(db.position())
    agree(lives, asked)


@pytest.mark.slow
def test_what_sqlite_prepares_is_live_and_has_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with contextlib.closing(sqlite3.connect(path)) as origin:
        origin.executescript("PRAGMA journal_mode = WAL;" + SQLITE)
        with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as db:
            check(db, "sqlite.sql", lambda sql: origin.execute(sql).fetchall(), MORE)


POSTGRES = """
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c float8, d bytea, j jsonb, n numeric(10, 2),
    at timestamptz, day date, tags text[]);
CREATE TABLE u (id int PRIMARY KEY, t_id int, x text);
CREATE TABLE few (a int);
ALTER TABLE few REPLICA IDENTITY FULL;
CREATE TABLE maße (größe int PRIMARY KEY, "naïve" text);
CREATE VIEW v AS SELECT id, a * 2 AS twice FROM t WHERE a > 1;
INSERT INTO t VALUES
    (1, 1, 'one', 1.25, '\\x01', '{"x": 1, "list": [1, 2]}', 1.5, '2024-02-29 12:00+00', '2024-02-29', '{a,b}'),
    (2, 2, 'two', 2.5, '\\x', '{"x": "y", "list": []}', 2.25, '2023-01-01 00:00+02', '2023-01-01', '{}'),
    (3, 2, 'Two', 3.0, NULL, '{"list": [3]}', 0, NULL, NULL, NULL),
    (4, 3, NULL, NULL, '\\xff', '{}', NULL, '1999-12-31 23:59:59.5+00', '1999-12-31', '{c,NULL}');
INSERT INTO u VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c'), (5, 9, 'd');
INSERT INTO few VALUES (1), (2);
INSERT INTO maße VALUES (7, 'ü');
"""
POSTGRES_MORE = (
    "INSERT INTO t VALUES (7, 2, 'seven', 7, '\\x07', '{\"x\": 7, \"list\": [7]}', 7, '2020-01-01 0:00Z', NULL, '{a}')",
    "INSERT INTO u VALUES (7, 7, 'g')",
    "INSERT INTO few VALUES (3)",
    "UPDATE t SET a = 5, b = 'five' WHERE id = 1",
    "DELETE FROM u WHERE id = 2",
    "UPDATE maße SET \"naïve\" = 'é'",
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_postgresql_prepares_is_live_and_has_its_rows(servers: Servers, tmp_path: Path) -> None:
    with (
        database_with(servers[VERSIONS[-1]], [POSTGRES]) as url,
        headwater.connect(url, runner="inline", data_dir=tmp_path) as db,
    ):
        check(db, "postgres.sql", lambda sql: [tuple(row.values()) for row in db.query(sql)], POSTGRES_MORE)
