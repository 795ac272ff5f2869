"""A captured table is altered, alone and in one transaction with writes, on both databases. Queries on it end or go on,
those on other tables go on; whoever subscribes then, and after a restart, has the rows of the database."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from tests.support.oracle import same_rows
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually

STRATEGIES = {
    "SELECT id, v FROM {t}": "incremental",
    "SELECT v, count(*) AS n FROM {t} GROUP BY v": "incremental",
    "SELECT id, {quote} AS q FROM {t}": "selective",
    "SELECT id, rank() OVER (ORDER BY v, id) AS r FROM {t}": "requery",
    "SELECT a.id, a.v, p.v AS w FROM {t} a LEFT JOIN partner p ON p.id = a.id": "incremental",
}
_REBUILT = "CREATE TABLE made ({}); INSERT INTO made SELECT {} FROM t; DROP TABLE t; ALTER TABLE made RENAME TO t"
ALTERED = {
    "add": ("ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 7",) * 2,
    "drop": (
        _REBUILT.format("id INTEGER PRIMARY KEY, v INTEGER", "id, v"),
        "ALTER TABLE t DROP COLUMN spare",
    ),
    "rename": ("ALTER TABLE t RENAME COLUMN spare TO kept",) * 2,
    "retype": (
        _REBUILT.format("id INTEGER PRIMARY KEY, v TEXT, spare TEXT", "id, v || '', spare"),
        "ALTER TABLE t ALTER COLUMN v TYPE bigint",
    ),
    "replace": ("DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, spare TEXT)",) * 2,
}
TABLES = ("t", "other", "unseen", "partner")
Connect = Callable[[], Any]


@contextlib.contextmanager
def _sqlite(here: Path, _: Servers) -> Iterator[tuple[str, Connect]]:
    path = here / "there.db"
    yield f"sqlite:///{path}", lambda: sqlite3.connect(path, isolation_level=None, timeout=60)


@contextlib.contextmanager
def _postgres(_: Path, servers: Servers) -> Iterator[tuple[str, Connect]]:
    server = servers[VERSIONS[-1]]
    with server.database() as database:
        yield server.url(database), lambda: psycopg.connect(server.url(database), autocommit=True)


@pytest.mark.slow
@pytest.mark.parametrize("with_writes", [False, True], ids=["alone", "with writes"])
@pytest.mark.parametrize("alter", ALTERED)
@pytest.mark.parametrize("origin", [_sqlite, _postgres], ids=["sqlite", "postgres"])
def test_rows_are_those_of_the_database_after(
    origin: Any, alter: str, with_writes: bool, tmp_path: Path, servers: Servers
) -> None:
    with origin(tmp_path, servers) as (url, connect), closing(connect()) as there:
        quote = _prepared(origin, there)
        opened = partial(headwater.connect, url, runner="inline", data_dir=tmp_path / "data")
        with opened() as db:
            on_it, on_other = ([_live(db, sql, table, quote) for sql in STRATEGIES] for table in ("t", "other"))
            _altered(there, ALTERED[alter][origin is _postgres].split("; "), with_writes)
            if alter != "add":  # they end, or begin anew, in their own time: the rows shown are right before that too
                eventually(lambda: all(live.state == "closed" or live.resyncs for live in on_it))
            _settled(there, on_it, may_end=alter != "add")
            _settled(there, on_other, may_end=False)
            _followed(db, there, quote)
            _settled(there, on_other, may_end=False)
        _written(there, 60)
        with opened() as db:
            _followed(db, there, quote)


@pytest.mark.slow
@pytest.mark.parametrize("alter", ALTERED)
@pytest.mark.parametrize("origin", [_sqlite, _postgres], ids=["sqlite", "postgres"])
def test_rows_are_those_of_the_database_after_it_was_altered_while_we_were_away(
    origin: Any, alter: str, tmp_path: Path, servers: Servers
) -> None:
    """A query that is asked for at once sees the tables as they are, and stays."""
    with origin(tmp_path, servers) as (url, connect), closing(connect()) as there:
        quote = _prepared(origin, there)
        with headwater.connect(url, runner="inline", data_dir=tmp_path / "data") as db:
            for table in ("t", "other"):
                _settled(there, [_live(db, sql, table, quote) for sql in STRATEGIES], may_end=False)
        _altered(there, ALTERED[alter][origin is _postgres].split("; "), with_writes=True)
        with headwater.connect(url, runner="inline", data_dir=tmp_path / "data") as db:
            early = [_live(db, sql, table, quote) for table in TABLES for sql in STRATEGIES]
            _settled(there, early, may_end=False)
            _written(there, 50)
            _settled(there, early, may_end=False)
            _followed(db, there, quote)


def _prepared(origin: Any, there: Any) -> str:
    """The tables, and a function that only the database knows."""
    for table in TABLES:
        there.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, v INTEGER, spare TEXT)")
        there.execute(f"INSERT INTO {table} (id, v) VALUES (1, 10), (2, 20), (3, 20)")
    return "json_quote(v)" if origin is _sqlite else "quote_literal(v)"


def _live(db: headwater.Database, sql: str, table: str, quote: str) -> headwater.LiveResult:
    live = db.query(sql.format(t=table, quote=quote), live=True)
    assert live.strategy == STRATEGIES[sql], f"{live.sql} is {live.strategy}"
    return live


def _altered(there: Any, statements: list[str], with_writes: bool) -> None:
    there.execute("BEGIN")
    if with_writes:
        _written(there, 20)
    for statement in statements:
        there.execute(statement)
    if with_writes:
        _written(there, 30)
    there.execute("COMMIT")


def _written(there: Any, first: int) -> None:
    for table in TABLES:
        there.execute(f"INSERT INTO {table} (id, v) VALUES ({first}, 20), ({first + 1}, {first})")
        there.execute(f"UPDATE {table} SET v = {first} WHERE id = 2")
        there.execute(f"DELETE FROM {table} WHERE id = {first - 9}")


def _followed(db: headwater.Database, there: Any, quote: str) -> None:
    """Whoever subscribes now has the rows of the database, and what is written then."""
    lives = [_live(db, sql, table, quote) for table in TABLES for sql in STRATEGIES]
    _settled(there, lives, may_end=False)
    _written(there, 40)
    _settled(there, lives, may_end=False)
    for table in TABLES:
        there.execute(f"DELETE FROM {table} WHERE id IN (40, 41)")


def _settled(there: Any, lives: list[headwater.LiveResult], *, may_end: bool) -> None:
    for live in lives:
        cursor = there.execute(live.sql)
        names = [column[0] for column in cursor.description]
        expected = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        def is_so(live: headwater.LiveResult = live, expected: list[dict[str, Any]] = expected) -> bool:
            if live.state == "closed":
                assert may_end and live.reason, f"{live.sql} ended: {live.reason}"
                return True
            return live.state == "ready" and same_rows(live.rows, expected, ordered=False)

        eventually(is_so)
