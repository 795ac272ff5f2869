"""Tables that change their shape, their name, or go away, while they are captured."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headwater.model.change import Change, Transaction
from headwater.model.value import Type
from headwater.sources.source import SchemaChange
from headwater.sources.sqlite.source import SqliteSource
from tests.sources.replica import Replica, drain


def start(source: SqliteSource, db: sqlite3.Connection) -> Replica:
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)")
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    source.capture("t")
    return Replica(source, "t")


@pytest.mark.parametrize("default", ["7", "'seven'", "NULL", "-1.5", "x'00'"])
@pytest.mark.parametrize("noticed", [True, False])
def test_an_added_column_has_its_default(
    source: SqliteSource, db: sqlite3.Connection, default: str, noticed: bool
) -> None:
    replica = start(source, db)
    db.execute(f"ALTER TABLE t ADD COLUMN b DEFAULT {default}")
    if noticed:
        replica.apply(drain(source, replica.position))
        assert replica.table.names == ("id", "a", "b")
    db.execute("INSERT INTO t(id, a) VALUES (3, 'z')")
    db.execute("INSERT INTO t VALUES (4, 'z', 'set')")
    db.execute("UPDATE t SET b = 'changed' WHERE id = 1")
    db.execute("DELETE FROM t WHERE id = 2")
    db.execute("REPLACE INTO t VALUES (3, 'replaced', 1)")
    replica.apply(drain(source, replica.position))
    replica.equals(db)
    db.execute("UPDATE t SET b = 0")
    replica.apply(drain(source, replica.position))
    replica.equals(db)


def test_added_columns_of_all_kinds(source: SqliteSource, db: sqlite3.Connection) -> None:
    replica = start(source, db)
    db.execute("ALTER TABLE t ADD COLUMN g AS (id * 2) VIRTUAL")
    db.execute("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5")
    replica.apply(drain(source, replica.position))
    replica.equals(db)
    assert [column.type for column in replica.table.columns[2:]] == [Type.INTEGER, Type.INTEGER]
    Replica(source, "t").equals(db)


def test_an_added_column_is_told_while_nothing_else_happens(source: SqliteSource, db: sqlite3.Connection) -> None:
    replica = start(source, db)
    source.changes(replica.position, 0)
    db.execute("ALTER TABLE t ADD COLUMN b")
    (change,) = source.changes(replica.position, 5)
    assert isinstance(change, SchemaChange)
    assert change.after is not None
    assert change.after.names == ("id", "a", "b")


def test_columns_added_while_nobody_looked(path: Path, db: sqlite3.Connection, source: SqliteSource) -> None:
    replica = start(source, db)
    source.close()
    db.execute("INSERT INTO t VALUES (3, 'before')")
    db.execute("ALTER TABLE t ADD COLUMN b DEFAULT 1")
    db.execute("INSERT INTO t VALUES (4, 'after', 2)")
    later = SqliteSource(path)
    replica.apply(drain(later, replica.position))
    replica.equals(db)
    later.close()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DROP TABLE t", "dropped"),
        ("ALTER TABLE t RENAME TO u", "renamed to u"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "column a"),
    ],
)
def test_a_table_that_goes_away_says_why(
    source: SqliteSource, db: sqlite3.Connection, statement: str, reason: str
) -> None:
    replica = start(source, db)
    db.execute("INSERT INTO t VALUES (3, 'last')")
    db.execute(statement)
    items = source.changes(replica.position, 5)
    assert isinstance(items[0], Transaction)
    end = items[-1]
    assert isinstance(end, SchemaChange)
    assert end.after is None
    assert reason in end.reason
    assert not db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    assert drain(source, end.position) == []


def test_dropping_a_column_fails_until_detached(source: SqliteSource, db: sqlite3.Connection) -> None:
    start(source, db)
    with pytest.raises(sqlite3.OperationalError, match="_headwater_"):
        db.execute("ALTER TABLE t DROP COLUMN a")
    assert "table _headwater_log" in source.detach()
    db.execute("ALTER TABLE t DROP COLUMN a")


def test_a_table_of_the_same_name_is_captured_afresh(source: SqliteSource, db: sqlite3.Connection) -> None:
    replica = start(source, db)
    db.execute("DROP TABLE t")
    db.execute("CREATE TABLE t(other BLOB)")
    end = source.changes(replica.position, 5)[-1]
    assert isinstance(end, SchemaChange)
    assert end.after is None
    table = source.capture("t")
    assert table.names == ("other",)
    assert table.schema_id > replica.table.schema_id
    db.execute("INSERT INTO t VALUES (x'01')")
    (transaction,) = source.changes(end.position, 5)
    assert isinstance(transaction, Transaction)
    assert transaction.changes == (Change("t", None, (b"\x01",)),)


def test_a_unique_index_added_in_peace_is_watched(source: SqliteSource, db: sqlite3.Connection) -> None:
    replica = start(source, db)
    source.changes(replica.position, 0)
    db.execute("CREATE UNIQUE INDEX i ON t(a)")
    source.changes(replica.position, 0)
    db.execute("REPLACE INTO t VALUES (9, 'x')")
    replica.apply(drain(source, replica.position))
    replica.equals(db)
    assert replica.reason is None


def test_a_unique_index_added_between_writes_ends_the_capture(source: SqliteSource, db: sqlite3.Connection) -> None:
    replica = start(source, db)
    source.changes(replica.position, 0)
    db.execute("CREATE UNIQUE INDEX i ON t(a)")
    db.execute("REPLACE INTO t VALUES (9, 'x')")
    end = source.changes(replica.position, 5)[-1]
    assert isinstance(end, SchemaChange)
    assert end.after is None
    assert "unique index" in end.reason
    source.capture("t")
    Replica(source, "t").equals(db)


def test_a_newer_trigger_does_not_come_before_ours(source: SqliteSource, db: sqlite3.Connection) -> None:
    replica = start(source, db)
    source.changes(replica.position, 0)
    db.execute("CREATE TRIGGER stamp AFTER INSERT ON t BEGIN UPDATE t SET a = 'stamped' WHERE id = NEW.id; END")
    source.changes(replica.position, 0)
    db.execute("INSERT INTO t VALUES (9, 'new')")
    replica.apply(drain(source, replica.position))
    replica.equals(db)


def test_other_tables_may_come_and_go(source: SqliteSource, db: sqlite3.Connection) -> None:
    replica = start(source, db)
    db.execute("CREATE TABLE u(a)")
    db.execute("INSERT INTO t VALUES (3, 'z')")
    db.execute("DROP TABLE u")
    db.execute("VACUUM")
    db.execute("INSERT INTO t VALUES (4, 'z')")
    replica.apply(drain(source, replica.position))
    replica.equals(db)
    assert replica.reason is None
