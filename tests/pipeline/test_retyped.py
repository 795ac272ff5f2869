"""A column that stops keeping to one type while queries of every strategy read it: each stays right in the same
subscription, also after a restart, and whoever asks the same again is right too."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.client.database import Database
from headwater.model.emission import Result
from tests.support.databases import place
from tests.support.processes import eventually

pytestmark = pytest.mark.slow

SCHEMA = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER);
CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER);
CREATE VIEW v AS SELECT sum(a) AS s FROM t;
INSERT INTO t VALUES (1, 1, 1), (2, 2, 1);
INSERT INTO u VALUES (1, 1), (2, 2);
"""
FOLLOWED = ("SELECT id, a FROM t WHERE a >= 0", "SELECT id FROM t WHERE a = 2 ORDER BY a, id LIMIT 3")
RELATIONS = (
    "SELECT a, count(*) AS n FROM t GROUP BY a",
    "SELECT u.id, t.b FROM u JOIN t ON t.a = u.a",
    "SELECT id FROM u WHERE id IN (SELECT a FROM t)",
    "SELECT sum(a) AS s FROM t",
    "SELECT DISTINCT a FROM t ORDER BY a LIMIT 2",
)
SELECTIVE = ("SELECT id, printf('%05d', a) AS x, a || '!' AS y FROM t",)
WHOLE = (
    "SELECT id, rank() OVER (ORDER BY a) AS r FROM t",
    "SELECT * FROM v",
    "SELECT id, row_number() OVER (ORDER BY id) AS n FROM u WHERE id IN (SELECT a FROM t)",
)
QUERIES = (*FOLLOWED, *RELATIONS, *SELECTIVE, *WHOLE)


class File:
    """The origin, and what it answers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("PRAGMA journal_mode = WAL;" + SCHEMA)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def write(self, statements: str) -> None:
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db:
            db.executescript(statements)

    def rows(self, sql: str) -> list[str]:
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            cursor = db.execute(sql)
            names = [column[0] for column in cursor.description]
            return listed(dict(zip(names, row, strict=True)) for row in cursor)

    def agree(self, lives: dict[str, headwater.LiveResult]) -> None:
        """Right and ready, whatever their strategy."""
        for sql, live in lives.items():
            wanted = self.rows(sql)
            eventually(lambda live=live, wanted=wanted: live.state == "ready" and listed(live.rows) == wanted)


def listed(rows: Any) -> list[str]:
    return sorted(repr(dict(row)) for row in rows)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "origin.db")


@contextlib.contextmanager
def opened(file: File, way: str, runner: str = "inline") -> Iterator[Database]:
    with place(way, file.path.with_name("data"), url=file.url, runner=runner, cells="2x1") as here:
        yield here.db


def lives(db: Database, queries: tuple[str, ...] = QUERIES) -> dict[str, headwater.LiveResult]:
    return {sql: db.query(sql, live=True) for sql in queries}


@pytest.mark.parametrize("way", ["embedded", "ws"])
def test_every_strategy_goes_on_in_the_same_subscription(file: File, way: str) -> None:
    with opened(file, way) as db:
        early = lives(db)
        strategies = {early[sql].strategy for sql in WHOLE} | {early[sql].strategy for sql in RELATIONS}
        assert strategies == {"requery", "incremental"}
        file.write("INSERT INTO t VALUES (3, 'text', 1)")
        file.agree(early)
        assert early[RELATIONS[0]].resyncs == 1 and early[RELATIONS[0]].strategy == "requery"
        assert all(early[sql].resyncs == 0 for sql in (*FOLLOWED, *SELECTIVE, *WHOLE))
        file.write("INSERT INTO t VALUES (4, 4, 2); UPDATE t SET a = 1.5 WHERE id = 1; INSERT INTO u VALUES (4, 4)")
        late = lives(db)
        file.agree(early)
        file.agree(late)
        file.write("DELETE FROM t WHERE id = 3")
        file.agree(early)
        file.agree(late)


def test_rows_stay_until_the_result_that_replaces_them_and_the_reason_is_told(file: File) -> None:
    with opened(file, "embedded") as db:
        live = db.query(RELATIONS[0], live=True)
        reasons: list[str] = []
        before, resync = live.rows, live.resync

        def noted(reason: str) -> None:
            resync(reason)
            reasons.append(reason)
            assert live.rows == before and live.state == "stale"

        live.resync = noted  # type: ignore[method-assign]
        told: list[Any] = []
        live.listen(told.append)
        assert live.wait(db.execute("INSERT INTO t VALUES (3, x'00', 1)"))
        assert reasons == ["table t holds values of another type than before, in a"]
        assert listed(live.rows) == file.rows(RELATIONS[0])
        assert isinstance(told[0], Result) and told[0].gen == live.gen and None not in told


def test_a_position_is_not_told_before_the_database_has_answered_it(file: File) -> None:
    """A query that was followed and is asked again now is right for what was answered, not for what was read."""
    with opened(file, "embedded") as db:
        live = db.query(RELATIONS[0], live=True)
        assert live.wait(db.execute("INSERT INTO t VALUES (100, 'text', 1)"))
        for n in range(101, 120):
            assert live.wait(db.execute("INSERT INTO t VALUES (?, ?, 1)", n, n))
            assert {"a": n, "n": 1} in live.rows


@pytest.mark.parametrize("when", ["while it runs", "while it is down"])
def test_after_a_restart_everything_is_right(file: File, when: str) -> None:
    with opened(file, "embedded") as db:
        early = lives(db)
        if when == "while it runs":
            file.write("INSERT INTO t VALUES (3, 'text', 1)")
            file.agree(early)
    file.write("INSERT INTO t VALUES (4, 'more', 1); INSERT INTO t VALUES (5, 5, 1)")
    with opened(file, "embedded") as db:
        late = lives(db)
        file.agree(late)
        file.write("INSERT INTO t VALUES (6, 1, 1); INSERT INTO u VALUES (5, 'text')")
        file.agree(late)


@pytest.mark.parametrize("way", ["embedded", "ws"])
@pytest.mark.parametrize("sql", RELATIONS)
def test_a_column_that_is_mixed_before_anybody_asks(file: File, way: str, sql: str) -> None:
    """Its declaration says otherwise; that is found out when the table is captured."""
    file.write("INSERT INTO t VALUES (3, 'text', 1); INSERT INTO u VALUES (3, 'text')")
    with opened(file, way) as db:
        first = lives(db, (sql,))
        file.agree(first)
        file.write("INSERT INTO t VALUES (4, 2, 1)")
        file.agree(first)


@pytest.mark.parametrize(
    "first", ["ALTER TABLE t ADD COLUMN c TEXT DEFAULT 'none'", "INSERT INTO t VALUES (9, 'x', 1)"]
)
def test_columns_that_are_added_and_columns_that_are_mixed_in_any_order(file: File, first: str) -> None:
    """Who asked for every column gets those there are now, once the query has to begin again."""
    star = ("SELECT t.*, u.a AS other FROM t JOIN u ON u.id = t.id",)
    with opened(file, "embedded") as db:
        early = {**lives(db), **lives(db, star)}
        file.write(first)
        file.write("INSERT INTO t (id, a, b) VALUES (3, 7, 1)")
        file.write(
            "INSERT INTO t (id, a, b) VALUES (4, 'text', 1)" if "ALTER" in first else "ALTER TABLE t ADD COLUMN c"
        )
        file.write("INSERT INTO t (id, a, b) VALUES (5, 'more', 5); INSERT INTO u VALUES (5, 5)")
        file.agree({sql: live for sql, live in early.items() if sql not in star})
        live = early[star[0]]
        eventually(lambda: live.state == "ready" and [row["a"] for row in live.rows if row["id"] == 5] == ["more"])
        file.agree(lives(db, (*QUERIES, *star)))


@pytest.mark.timeout(300)
@pytest.mark.spark
def test_through_spark_too(file: File) -> None:
    with opened(file, "ws", "spark") as db:
        early = lives(db)
        file.write("INSERT INTO t VALUES (3, 'text', 1)")
        file.agree(early)
        file.write("INSERT INTO t VALUES (4, 4, 2); INSERT INTO u VALUES (4, 4)")
        file.agree(early)
        file.agree(lives(db))
