"""Tables that change their shape, in the ways that only PostgreSQL has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.model.change import Change, Transaction
from headwater.model.errors import SourceError
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.source import SchemaChange
from tests.sources.replica import Replica, drained

Db = psycopg.Connection[Any]


def _started(source: PostgresSource, db: Db, *statements: str) -> Replica:
    for statement in statements or ("CREATE TABLE t (id int PRIMARY KEY, a text, b int)",):
        db.execute(statement.encode())
    db.execute("INSERT INTO t (id, a) VALUES (1, 'x'), (2, 'y')")
    source.capture("t")
    return Replica(source, "t")


def _told(source: PostgresSource, after: int) -> list[Any]:
    items: list[Any] = []
    until_s = time.monotonic() + 120
    while not any(isinstance(item, SchemaChange) for item in items):
        assert time.monotonic() < until_s
        items += source.changes(after, 0.5)
        after = max([after, *(item.position for item in items)])
    return items


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER TABLE t DROP COLUMN b", "column b of table t"),
        ("ALTER TABLE t ALTER COLUMN b TYPE bigint", "column b of table t"),
        ("ALTER TABLE t ALTER COLUMN a TYPE int USING 1", "column a of table t"),
        ("ALTER TABLE t SET SCHEMA other", "renamed to other.t"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", "no longer has a replica identity"),
        ("ALTER TABLE t REPLICA IDENTITY NOTHING", "no longer has a replica identity"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (a)", "the primary key of table t was changed"),
        ("ALTER TABLE t REPLICA IDENTITY FULL, DROP CONSTRAINT t_pkey", "the primary key of table t was changed"),
        ("ALTER TABLE t ADD COLUMN c float DEFAULT random()", "rewritten"),
        ("ALTER TABLE t ALTER COLUMN b TYPE int USING b + 1", "rewritten"),
        ("ALTER TABLE t ADD COLUMN c int, ALTER COLUMN b TYPE int USING b + 1", "rewritten"),
        ("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN b int DEFAULT 7", "column b of table t was recreated"),
        ('ALTER TABLE t ALTER COLUMN a TYPE text COLLATE "POSIX"', "another collation"),
    ],
)
@pytest.mark.parametrize("written", [True, False])
def test_what_ends_a_table(source: PostgresSource, db: Db, statement: str, reason: str, written: bool) -> None:
    replica = _started(source, db)
    db.execute("CREATE SCHEMA other")
    db.execute(statement.encode())
    if written and "identity" not in reason:
        name = "other.t" if "other.t" in reason else "t"
        filled = "INSERT INTO {} SELECT 3" if "column a" in reason else "INSERT INTO {} SELECT 3, 'z'"
        db.execute(filled.format(name).encode())
    (end,) = [item for item in _told(source, replica.position) if isinstance(item, SchemaChange)]
    assert end.after is None
    assert reason in end.reason


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ALTER COLUMN b SET NOT NULL",
        "CREATE INDEX ON t (b)",
        "VACUUM FULL t",
        "ALTER TABLE t ADD CHECK (id > 0)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "ANALYZE t",
    ],
)
def test_what_leaves_a_table_as_it_was(source: PostgresSource, db: Db, statement: str) -> None:
    replica = _started(source, db, "CREATE TABLE t (id int PRIMARY KEY, a text, b int DEFAULT 5)")
    db.execute(statement.encode())
    db.execute("UPDATE t SET a = 'z' WHERE id = 1")
    db.execute("UPDATE t SET id = 9 WHERE id = 2")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT id, a, b FROM t").rows)
    assert replica.reason is None


@pytest.mark.parametrize("default", ["7", "NULL", "'a' || 'b'", "now()"])
def test_added_columns_hold_their_default_in_older_rows(source: PostgresSource, db: Db, default: str) -> None:
    replica = _started(source, db)
    type = "timestamptz" if default == "now()" else "text"
    db.execute(f"ALTER TABLE t ADD COLUMN c {type} DEFAULT {default}".encode())
    db.execute("INSERT INTO t (id) VALUES (3)")
    db.execute("UPDATE t SET a = 'changed' WHERE id = 1")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT id, a, b, c FROM t").rows)
    Replica(source, "t").holds(source.query("SELECT id, a, b, c FROM t").rows)


def test_a_column_added_to_a_table_without_a_key(source: PostgresSource, db: Db) -> None:
    create = "CREATE TABLE t (id int, a text)", "ALTER TABLE t REPLICA IDENTITY FULL"
    replica = _started(source, db, *create)
    db.execute("INSERT INTO t VALUES (1, 'x')")
    db.execute("ALTER TABLE t ADD COLUMN b int DEFAULT 3")
    db.execute("DELETE FROM t WHERE ctid IN (SELECT ctid FROM t WHERE id = 1 LIMIT 1)")
    db.execute("UPDATE t SET b = 4")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT id, a, b FROM t").rows)


def test_a_column_added_in_the_transaction_that_fills_it(source: PostgresSource, db: Db) -> None:
    replica = _started(source, db)
    with db.transaction():
        db.execute("INSERT INTO t (id) VALUES (3)")
        db.execute("ALTER TABLE t ADD COLUMN c int")
        db.execute("UPDATE t SET c = id")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT id, a, b, c FROM t").rows)


@pytest.mark.parametrize("statement", ["ALTER TABLE t DETACH PARTITION t2", "DROP TABLE t2"])
def test_a_partition_that_goes_ends_its_table(source: PostgresSource, db: Db, statement: str) -> None:
    replica = _started(
        source,
        db,
        "CREATE TABLE t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (2)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (2) TO (4)",
    )
    db.execute("UPDATE t SET id = 3 WHERE id = 1")
    told = [item for item in drained(source, replica.position) if isinstance(item, Transaction)]
    (moved,) = [item.changes for item in told if item.changes]  # another may only tell how far the log is
    assert moved == (Change("t", (1, "x"), None), Change("t", None, (3, "x")))
    db.execute(statement.encode())
    (end,) = [item for item in _told(source, replica.position) if isinstance(item, SchemaChange)]
    assert end.after is None
    assert "partitions" in end.reason


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "the value 'sad' of an enum"),
        ("ALTER TYPE point2 ADD ATTRIBUTE z int", "a composite type"),
        ("ALTER TYPE point2 DROP ATTRIBUTE y", "a composite type"),
        ("ALTER TABLE t ALTER COLUMN n TYPE numeric(9, 1)", "rewritten"),
        ("ALTER TABLE t ALTER COLUMN n TYPE numeric(12, 2)", ""),
        ("ALTER TYPE mood ADD VALUE 'merry'", ""),
        ("ALTER TYPE mood RENAME TO temper", ""),
        ("ALTER TYPE point2 RENAME ATTRIBUTE y TO z", ""),
        ("ALTER DOMAIN cheer ADD CHECK (VALUE <> 'sad') NOT VALID", ""),
    ],
)
def test_what_values_are_made_of(source: PostgresSource, db: Db, statement: str, reason: str) -> None:
    """Inside domains, arrays and composites too. What reads otherwise from then on ends the table."""
    replica = _started(
        source,
        db,
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN cheer AS mood",
        "CREATE TYPE point2 AS (x int, y cheer)",
        "CREATE TABLE t (id int PRIMARY KEY, a text, n numeric(9, 2) DEFAULT 1, p point2[] DEFAULT '{\"(1,ok)\"}')",
    )
    db.execute(statement.encode())
    if reason:
        (end,) = [item for item in _told(source, replica.position) if isinstance(item, SchemaChange)]
        assert end.after is None
        assert reason in end.reason
    else:
        source._ddl_poll._look_at_s = 0.0
        db.execute("UPDATE t SET a = 'z' WHERE id = 1")
        replica.apply(drained(source, replica.position))
        replica.holds(source.query("SELECT id, a, n, p FROM t").rows)
        assert replica.reason is None


@pytest.mark.parametrize("back", [True, False])
def test_another_replica_identity_ends_a_table_and_no_other(source: PostgresSource, db: Db, back: bool) -> None:
    """Its old images name rows otherwise than we do: we looked for them in vain, and no table was told of any more."""
    replica = _started(source, db, "CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL UNIQUE)")
    db.execute("CREATE TABLE other (id int PRIMARY KEY)")
    source.capture("other")
    db.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_a_key")
    db.execute("UPDATE t SET id = 9 WHERE id = 2")
    db.execute("DELETE FROM t WHERE id = 1")
    if back:
        db.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    items = _told(source, replica.position)
    (end,) = [item for item in items if isinstance(item, SchemaChange)]
    assert end.reason == "the replica identity of table t was changed"
    db.execute("INSERT INTO other VALUES (1)")
    (change,) = [
        one for item in drained(source, items[-1].position) if isinstance(item, Transaction) for one in item.changes
    ]
    assert change == Change("other", None, (1,))


def test_a_partitioned_table_that_is_rewritten(source: PostgresSource, db: Db) -> None:
    """It has no file of its own: those of its partitions tell."""
    replica = _started(
        source,
        db,
        "CREATE TABLE t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (4)",
    )
    db.execute("ALTER TABLE t ADD COLUMN c float DEFAULT random()")
    (end,) = [item for item in _told(source, replica.position) if isinstance(item, SchemaChange)]
    assert end.after is None
    assert "rewritten" in end.reason


def test_rows_between_two_changes_of_the_catalog_have_the_shape_that_was_told(source: PostgresSource, db: Db) -> None:
    """One look finds both changes, and tells them before what was held since the first."""
    replica = _started(source, db)
    db.execute("CREATE TABLE other (id int PRIMARY KEY)")
    source.capture("other")
    drained(source, replica.position)
    db.execute("ALTER TABLE other ADD COLUMN x int")
    db.execute("INSERT INTO t VALUES (3, 'z', 1)")
    db.execute("UPDATE t SET b = 2 WHERE id = 1")
    db.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 7")
    items = drained(source, replica.position)
    table = next(item.after for item in items if isinstance(item, SchemaChange) and item.before.name == "t")
    told = items[[isinstance(item, SchemaChange) and item.after == table for item in items].index(True) :]
    rows = [one.new for item in told if isinstance(item, Transaction) for one in item.changes if one.table == "t"]
    assert rows == [(3, "z", 1, 7), (1, "x", 2, 7)]
    replica.apply(items)
    replica.holds(source.query("SELECT id, a, b, c FROM t").rows)


def test_ddl_is_heard_at_once_where_an_event_trigger_may_be(
    source: PostgresSource, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no look at the catalog but those that the trigger asks for."""
    replica = _started(source, db)
    drained(source, replica.position)
    monkeypatch.setattr("headwater.sources.postgres.ddl_poll.LOOK_S", 1e6)
    source._ddl_poll._look_at_s = time.monotonic() + 1e6
    source._ddl_poll._found = None
    db.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 1")
    (told,) = [item for item in _told(source, replica.position) if isinstance(item, SchemaChange)]
    assert told.after is not None
    db.execute("DROP TABLE t")
    (end,) = [item for item in _told(source, told.position) if isinstance(item, SchemaChange)]
    assert end.reason == "table t was dropped"


def test_ddl_is_noticed_by_those_who_may_create_no_event_trigger(url: str, db: Db, tmp_path: Path) -> None:
    db.execute("DROP ROLE IF EXISTS plain")
    db.execute("CREATE ROLE plain LOGIN REPLICATION")
    db.execute("GRANT ALL ON SCHEMA public TO plain")
    db.execute(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO plain".encode())
    own = PostgresSource(url.replace("postgres@", "plain@"))
    own.attach(tmp_path / "plain")
    try:
        own.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
        own.execute("INSERT INTO t VALUES (1, 'x')")
        own.capture("t")
        start = own.position()
        own.execute("UPDATE t SET a = 'y'")
        own.execute("DROP TABLE t")
        items = _told(own, start)
        assert [item.changes for item in items if isinstance(item, Transaction) and item.changes] == [
            (Change("t", (1, "x"), (1, "y")),)
        ]
        assert db.execute("SELECT count(*) FROM pg_event_trigger").fetchone() == (0,)
    finally:
        own.close()
        db.execute("DROP OWNED BY plain")
        db.execute("DROP ROLE plain")


def test_a_table_that_was_replaced_while_we_were_away_is_not_taken_for_the_one_of_before(
    url: str, source: PostgresSource, db: Db, tmp_path: Path
) -> None:
    """Both were captured under one name, and changes of the new one were told as the old one's."""
    replica = _started(source, db)
    source.forget(replica.position)
    source.close()
    db.execute("DROP TABLE t")
    db.execute("CREATE TABLE t (a text PRIMARY KEY)")
    again = PostgresSource(url)
    again.attach(tmp_path)
    try:
        with pytest.raises(SourceError, match="table t was replaced by another one"):
            again.capture("t")
        db.execute("INSERT INTO t VALUES ('early')")
        items = drained(again, replica.position)
        assert [item for item in items if isinstance(item, Transaction) and item.changes] == []
        assert [item.after for item in items if isinstance(item, SchemaChange)] == [None]
        assert again.capture("t").names == ("a",)
        follower = Replica(again, "t")
        db.execute("INSERT INTO t VALUES ('late')")
        follower.apply(drained(again, follower.position))
        follower.holds([("early",), ("late",)])
    finally:
        again.close()
