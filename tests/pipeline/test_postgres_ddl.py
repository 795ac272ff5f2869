"""The table of schema changes in docs/postgres.md, row by row, as a subscriber lives through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

import headwater
from tests.docs.pages import page, table_rows
from tests.support.databases import rows
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually

SQL = "SELECT id, total FROM orders ORDER BY id"
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Row:
    """`told` is the row of the table; `reason` a part of what subscribers hear, empty where they go on.

    `again`: whether one may subscribe to the same query afterwards.
    """

    told: str
    statement: str
    reason: str = ""
    again: bool = True


ROWS = (
    Row("`ADD COLUMN`", "ALTER TABLE orders ADD COLUMN extra text DEFAULT 'none'"),
    Row("`ADD COLUMN` with a volatile default", "ALTER TABLE orders ADD COLUMN r float DEFAULT random()", "rewritten"),
    Row("`DROP COLUMN`", "ALTER TABLE orders DROP COLUMN note", "column note"),
    Row("`DROP COLUMN`", "ALTER TABLE orders DROP COLUMN total", "column total", again=False),
    Row("`RENAME COLUMN`", "ALTER TABLE orders RENAME COLUMN total TO sum", "column total", again=False),
    Row("another type", "ALTER TABLE orders ALTER COLUMN total TYPE bigint", "column total"),
    Row("`ALTER COLUMN … TYPE … USING`", "ALTER TABLE orders ALTER COLUMN total TYPE int USING total * 2", "rewritten"),
    Row("`ALTER TYPE … RENAME VALUE`", "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "'sad' of an enum"),
    Row("`ALTER TYPE … ADD VALUE`", "ALTER TYPE mood ADD VALUE 'merry'"),
    Row("`DROP TABLE`", "DROP TABLE orders", "table orders was dropped", again=False),
    Row("`RENAME TO`", "ALTER TABLE orders RENAME TO bills", "renamed to bills", again=False),
    Row("`SET SCHEMA`", "ALTER TABLE orders SET SCHEMA other", "renamed to other.orders", again=False),
    Row(
        "a partition attached", "ALTER TABLE orders ATTACH PARTITION more FOR VALUES FROM (200) TO (300)", "partitions"
    ),
    Row("detached", "ALTER TABLE orders DETACH PARTITION late", "partitions"),
    Row("created", "CREATE TABLE later PARTITION OF orders FOR VALUES FROM (300) TO (400)", "partitions"),
    Row("dropped", "DROP TABLE late", "partitions"),
    Row("the replica identity", "ALTER TABLE orders REPLICA IDENTITY NOTHING", "replica identity", again=False),
    Row("`TRUNCATE`", "TRUNCATE customers CASCADE"),
    Row("indexes", "CREATE INDEX ON orders (total)"),
    Row("constraints", "ALTER TABLE orders ADD CHECK (id > 0)"),
    Row("`VACUUM FULL`", "VACUUM FULL orders"),
    Row("`ANALYZE`", "ANALYZE orders"),
)


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    with servers[request.param].database() as database:
        yield servers[request.param].url(database)


def _made(db: psycopg.Connection[object], row: Row) -> None:
    db.execute("CREATE SCHEMA other")
    db.execute("CREATE TABLE customers (id int PRIMARY KEY)")
    db.execute("INSERT INTO customers VALUES (1)")
    db.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    columns = "id int PRIMARY KEY, customer int DEFAULT 1 REFERENCES customers, total int, note text, mood mood"
    if row.reason == "partitions":
        db.execute(f"CREATE TABLE orders ({columns}) PARTITION BY RANGE (id)".encode())
        db.execute("CREATE TABLE early PARTITION OF orders FOR VALUES FROM (0) TO (100)")
        db.execute("CREATE TABLE late PARTITION OF orders FOR VALUES FROM (100) TO (200)")
        db.execute("CREATE TABLE more (LIKE orders INCLUDING ALL)")
    else:
        db.execute(f"CREATE TABLE orders ({columns})".encode())
    db.execute("INSERT INTO orders (id, total) VALUES (1, 10), (2, 20), (103, 30)")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.statement[:50])
def test_what_a_subscriber_lives_through(url: str, tmp_path: Path, row: Row) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        _made(other, row)
        with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
            live = db.query(SQL, live=True)
            assert len(live.rows) == 3
            other.execute(row.statement.encode())
            if row.reason:
                eventually(lambda: live.state == "closed", _PATIENCE_S)
                assert row.reason in str(live.reason)
                live = db.query(SQL, live=True) if row.again else live
            if row.again:
                other.execute("INSERT INTO customers VALUES (1) ON CONFLICT DO NOTHING")
                other.execute("INSERT INTO orders (id, total) VALUES (50, 7)")
                there = [{"id": id, "total": total} for id, total in other.execute(SQL)]
                eventually(lambda: rows(live) == there, _PATIENCE_S)
                db.verify(live)


def test_every_row_of_the_table_is_lived_through() -> None:
    """Those on taking away the publication, and on faults, are in `test_postgres_faults`."""
    told = " ".join(row[0] for row in table_rows(page("postgres.md").section("Schema changes")))
    for row in ROWS:
        assert row.told in told, row.told
