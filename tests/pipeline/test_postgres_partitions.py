"""Partitions that are truncated, attached, detached and moved between, one by one and below one another: live queries
on the whole table have the rows of the database, or are told why they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from tests.support.oracle import same_rows
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually

QUERIES = {
    "SELECT id, day, v FROM log": "incremental",
    "SELECT count(*) AS n, sum(v) AS s FROM log": "incremental",
    "SELECT id, quote_literal(v) AS q FROM log": "selective",
    "SELECT id, row_number() OVER (ORDER BY id, day) AS r FROM log": "requery",
}
_MADE = (
    "CREATE TABLE log (id int, day int, v int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    "CREATE TABLE jan PARTITION OF log FOR VALUES FROM (1) TO (2)",
    "CREATE TABLE feb PARTITION OF log FOR VALUES FROM (2) TO (3)",
    "CREATE TABLE late PARTITION OF log FOR VALUES FROM (3) TO (9) PARTITION BY LIST (day)",
    "CREATE TABLE mar PARTITION OF late FOR VALUES IN (3)",
    "CREATE TABLE apr PARTITION OF late FOR VALUES IN (4)",
    "CREATE TABLE may (LIKE log INCLUDING ALL)",
    "CREATE TABLE plain (id int PRIMARY KEY, v int)",
    "CREATE TABLE child (id int PRIMARY KEY, parent int, day int, FOREIGN KEY (parent, day) REFERENCES log (id, day))",
    "INSERT INTO log SELECT n, 1 + n % 4, n FROM generate_series(1, 12) n",
    "INSERT INTO may VALUES (50, 5, 50)",
    "INSERT INTO plain VALUES (1, 1)",
)
_AGAIN = "INSERT INTO log SELECT n, 1 + n % 4, n + 100 FROM generate_series(1, 12) n ON CONFLICT DO NOTHING"
GO_ON = (
    "TRUNCATE log CASCADE",
    "TRUNCATE log, plain RESTART IDENTITY CASCADE",
    "UPDATE log SET day = 2 WHERE day = 1",
    "UPDATE log SET day = 4, v = 7 WHERE id = 1",
    "UPDATE log SET day = 1 + day % 4",
)
BEGIN_ANEW = (
    "TRUNCATE jan CASCADE",
    "TRUNCATE late CASCADE",
    "TRUNCATE apr CASCADE",
    "TRUNCATE jan, apr, plain CASCADE",
    f"BEGIN; TRUNCATE jan CASCADE; {_AGAIN}; COMMIT",
    f"BEGIN; TRUNCATE log CASCADE; {_AGAIN}; TRUNCATE jan CASCADE; COMMIT",
    "BEGIN; SAVEPOINT a; TRUNCATE feb CASCADE; RELEASE a; DELETE FROM log WHERE id = 3; COMMIT",
)
END = (
    "ALTER TABLE late ATTACH PARTITION may FOR VALUES IN (5)",
    "ALTER TABLE log DETACH PARTITION jan",
    "ALTER TABLE late DETACH PARTITION apr",
    "DROP TABLE mar",
)


@pytest.fixture(params=VERSIONS[-1:])
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    with servers[request.param].database() as database:
        with servers[request.param].connect(database) as db:
            for statement in _MADE:
                db.execute(statement.encode())
        yield servers[request.param].url(database)


Lives = Sequence[headwater.LiveResult]


def _lives(db: headwater.Database) -> Lives:
    lives = [db.query(sql, live=True) for sql in QUERIES]
    assert {live.sql: live.strategy for live in lives} == QUERIES
    return lives


def _agree(db: headwater.Database, there: psycopg.Connection[Any], lives: Lives) -> None:
    position = db.position()
    for live in lives:
        assert live.wait(position), f"{live.sql}: {live.state}, {live.reason}"
        cursor = there.execute(live.sql.encode())
        names = [column.name for column in cursor.description or ()]
        expected = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        assert same_rows(live.rows, expected, ordered=False), f"{live.sql}: {live.rows}"


def _run(there: psycopg.Connection[Any], statements: str) -> None:
    for statement in statements.split("; "):
        there.execute(statement.encode())


@pytest.mark.parametrize("statements", [*GO_ON, *BEGIN_ANEW])
def test_the_rows_are_those_of_the_database(url: str, tmp_path: Path, statements: str) -> None:
    """At the position just after it, already; and keys that are inserted again are not counted twice."""
    with psycopg.connect(url, autocommit=True) as there:
        with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
            lives, plain = _lives(db), db.query("SELECT id, v FROM plain", live=True)
            _run(there, statements)
            _agree(db, there, [*lives, plain])
            there.execute(_AGAIN)
            _agree(db, there, [*lives, plain])
            assert {live.resyncs > 0 for live in lives} == {statements in BEGIN_ANEW}
            assert plain.resyncs == 0
        for statement in ("DELETE FROM log", _AGAIN, statements, _AGAIN):  # while we are away
            _run(there, statement)
        with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
            _agree(db, there, _lives(db))


@pytest.mark.parametrize("statement", END)
def test_partitions_that_come_and_go_end_queries_on_the_table(url: str, tmp_path: Path, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as there:
        there.execute("ALTER TABLE child DROP CONSTRAINT child_parent_day_fkey")
        with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
            lives, plain = _lives(db), db.query("SELECT id, v FROM plain", live=True)
            there.execute(statement.encode())
            eventually(lambda: all(live.state == "closed" or live.resyncs for live in lives))
            assert all("partitions" in str(live.reason) for live in lives if live.state == "closed")
            again = _lives(db)
            there.execute("UPDATE log SET v = v + 1")
            there.execute("UPDATE plain SET v = v + 1")
            _agree(db, there, [*again, plain])
