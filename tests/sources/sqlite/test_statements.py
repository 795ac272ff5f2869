"""Every kind of statement, on every kind of table: the replica of the captured changes equals the table."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.model.change import Change, Transaction
from headwater.sources.source import SchemaChange
from headwater.sources.sqlite.source import SqliteSource
from tests.sources.replica import Replica, drain, drained

TABLES = {
    "alias": "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b INT, c)",
    "without rowid": "CREATE TABLE t(id INT, a TEXT, b INT, c, PRIMARY KEY (id), UNIQUE (a)) WITHOUT ROWID",
    "composite": "CREATE TABLE t(id INT NOT NULL, a TEXT NOT NULL, b INT, c, PRIMARY KEY (a, id))",
    "text key": "CREATE TABLE t(id INT UNIQUE, a TEXT PRIMARY KEY, b INT, c)",
    "no key": "CREATE TABLE t(id INT, a TEXT, b INT, c)",
    "strict": "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b INT, c ANY) STRICT",
    "nocase": "CREATE TABLE t(id INT, a TEXT COLLATE NOCASE PRIMARY KEY, b INT, c, UNIQUE (id)) WITHOUT ROWID",
    "replacing": "CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT REPLACE, a UNIQUE ON CONFLICT REPLACE, b INT, c)",
    "defaults": "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'y' UNIQUE, b INT, c)",
    "generated": "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b INT, c, g AS (a || b) UNIQUE, s AS (id % 7) STORED)",
    "rowid taken": "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b INT, c, rowid TEXT)",
}
STATEMENTS = [
    "INSERT OR REPLACE INTO t(id, a, b, c) VALUES (1, 'y', 5, NULL)",
    "INSERT OR IGNORE INTO t(id, a, b, c) VALUES (1, 'new', 5, NULL), (8, 'x', 1, 1), (9, 'q', 1, 1)",
    "REPLACE INTO t(id, a, b, c) VALUES (3, 'z', 1, 1)",
    "REPLACE INTO t(id, a, b, c) VALUES (3, 'X', 1, 1)",
    "REPLACE INTO t(id, a, b, c) VALUES (4, 'x', 1, 1), (2, 'y', 2, 2), (5, 'y', 3, 3)",
    "REPLACE INTO t(id, a, b) VALUES (NULL, 'y', 7)",
    "REPLACE INTO t(id, a, b) VALUES (12, NULL, 7)",
    "UPDATE OR REPLACE t SET id = 1, a = 'y' WHERE id = 3",
    "UPDATE OR REPLACE t SET a = 'x'",
    "UPDATE OR REPLACE t SET id = 2 WHERE a = 'z'",
    "UPDATE OR IGNORE t SET id = 2",
    "UPDATE OR FAIL t SET id = id + 1",
    "UPDATE t SET id = id + 10, b = b + 1 WHERE a >= 'y'",
    "UPDATE t SET b = b",
    "INSERT OR FAIL INTO t(id, a, b, c) VALUES (21, 'f', 1, 1), (21, 'f', 2, 2), (22, 'g', 1, 1)",
    "INSERT OR ROLLBACK INTO t(id, a, b, c) VALUES (21, 'f', 1, 1), (1, 'x', 2, 2)",
    "DELETE FROM t",
    "DELETE FROM t WHERE id = 2",
]
UPSERTS = [
    "INSERT INTO t(id, a, b, c) VALUES (1, 'n', 1, 1) ON CONFLICT DO UPDATE SET b = b + 100, c = 'up'",
    "INSERT INTO t(id, a, b, c) VALUES (7, 'y', 1, 1), (8, 'x', 1, 1) ON CONFLICT DO UPDATE SET a = a || id",
    "INSERT INTO t(id, a, b, c) VALUES (1, 'x', 1, 1) ON CONFLICT DO NOTHING",
]


def run(db: sqlite3.Connection, statement: str) -> None:
    with suppress(sqlite3.IntegrityError):
        db.execute(statement)


@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("create", TABLES.values(), ids=TABLES.keys())
def test_every_statement_gives_its_changes(
    source: SqliteSource, db: sqlite3.Connection, create: str, recursive: str
) -> None:
    db.execute(create)
    db.execute(f"PRAGMA recursive_triggers = {recursive}")
    source.capture("t")
    replica = Replica(source, "t")
    for statement in STATEMENTS + UPSERTS:
        db.execute("DELETE FROM t")
        db.execute("INSERT INTO t(id, a, b, c) VALUES (1, 'x', 10, 1.5), (2, 'y', 20, 'c'), (3, 'z', 30, NULL)")
        run(db, statement)
        replica.apply(drain(source, replica.position))
        replica.equals(db)


@pytest.mark.parametrize(
    "index",
    [
        "CREATE UNIQUE INDEX i ON t(a) WHERE b > 15",
        "CREATE UNIQUE INDEX i ON t(lower(a) DESC, b / 100)",
        "CREATE UNIQUE INDEX i ON t((a || ', (') COLLATE NOCASE /* it's */) WHERE a <> ' WHERE ' AND id > 0",
        "CREATE UNIQUE INDEX i ON t(a COLLATE NOCASE)",
        "CREATE UNIQUE INDEX i ON t(b, a)",
    ],
)
@pytest.mark.parametrize("create", [TABLES["no key"], "CREATE TABLE t(id INT PRIMARY KEY, a, b, c) WITHOUT ROWID"])
def test_partial_and_expression_indexes_are_unique_keys_too(
    source: SqliteSource, db: sqlite3.Connection, create: str, index: str
) -> None:
    db.execute(create)
    db.execute(index)
    source.capture("t")
    replica = Replica(source, "t")
    for statement in STATEMENTS:
        db.execute("DELETE FROM t")
        db.execute("INSERT INTO t(id, a, b, c) VALUES (1, 'x', 10, 1.5), (2, 'y', 20, 'c'), (3, 'z', 30, NULL)")
        run(db, statement)
        replica.apply(drain(source, replica.position))
        replica.equals(db)


def test_ignored_and_failed_statements_report_nothing(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute(TABLES["alias"])
    db.execute("INSERT INTO t VALUES (1, 'x', 1, 1)")
    source.capture("t")
    for statement in (
        "INSERT OR IGNORE INTO t VALUES (1, 'y', 1, 1)",
        "INSERT INTO t VALUES (1, 'y', 1, 1)",
        "INSERT INTO t VALUES (2, 'x', 1, 1) ON CONFLICT DO NOTHING",
        "UPDATE OR IGNORE t SET id = NULL",
    ):
        run(db, statement)
    assert source.changes(0, 0) == []


def test_replace_gives_deletes_before_the_insert(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute(TABLES["alias"])
    db.execute("INSERT INTO t VALUES (1, 'x', 1, 1), (2, 'y', 2, 2)")
    source.capture("t")
    db.execute("REPLACE INTO t VALUES (1, 'y', 3, 3)")
    (transaction,) = source.changes(0, 5)
    assert isinstance(transaction, Transaction)
    assert transaction.changes == (
        Change("t", (1, "x", 1, 1), None),
        Change("t", (2, "y", 2, 2), None),
        Change("t", None, (1, "y", 3, 3)),
    )


def test_watched_rows_survive_vacuum_without_being_taken_for_replaced(
    source: SqliteSource, db: sqlite3.Connection
) -> None:
    db.execute("CREATE TABLE t(a TEXT UNIQUE, b)")
    db.executemany("INSERT INTO t VALUES (?, ?)", [(str(number), number) for number in range(20)])
    source.capture("t")
    replica = Replica(source, "t")
    db.execute("DELETE FROM t WHERE b < 10")
    db.execute("INSERT OR IGNORE INTO t VALUES ('15', 0), ('12', 0), ('19', 0)")
    db.execute("VACUUM")
    db.execute("INSERT INTO t VALUES ('new', 0)")
    db.execute("REPLACE INTO t VALUES ('12', 'replaced')")
    replica.apply(drain(source, replica.position))
    replica.equals(db)


def test_ignoring_much_leaves_little_behind(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute(TABLES["alias"])
    db.executemany("INSERT INTO t(id, a) VALUES (?, ?)", [(number, str(number)) for number in range(200)])
    source.capture("t")
    db.executemany("INSERT OR IGNORE INTO t(id) VALUES (?)", [(number,) for number in range(200)])
    assert db.execute("SELECT count(*) FROM _headwater_replaced").fetchone()[0] <= 16


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
@pytest.mark.parametrize("recursive", ["OFF", "ON"])
def test_foreign_key_actions_are_changes(
    source: SqliteSource, db: sqlite3.Connection, action: str, recursive: str
) -> None:
    db.execute("CREATE TABLE parent(id INTEGER PRIMARY KEY, name UNIQUE)")
    db.execute(
        "CREATE TABLE child(id INTEGER PRIMARY KEY, p INT DEFAULT 9, "
        f"FOREIGN KEY (p) REFERENCES parent ON DELETE {action} ON UPDATE {action})"
    )
    db.execute(f"PRAGMA recursive_triggers = {recursive}")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c'), (9, 'z')")
    db.execute("INSERT INTO child VALUES (1, 1), (2, 1), (3, 2), (4, 3), (5, NULL)")
    replicas = []
    for table in ("parent", "child"):
        source.capture(table)
        replicas.append(Replica(source, table))
    for statement in (
        "DELETE FROM parent WHERE id = 1",
        "UPDATE parent SET id = 20 WHERE id = 2",
        "REPLACE INTO parent VALUES (3, 'b')",
        "DELETE FROM parent WHERE id <> 9",
    ):
        db.execute(statement)
        items = drain(source, replicas[0].position)
        for replica in replicas:
            replica.apply(items)
            replica.equals(db)


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_rows_that_refer_to_themselves(source: SqliteSource, db: sqlite3.Connection, action: str) -> None:
    db.execute(
        f"CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES t ON DELETE {action} ON UPDATE {action}, n UNIQUE)"
    )
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 4, 'd'), (5, 4, 'e')")
    source.capture("t")
    replica = Replica(source, "t")
    for statement in (
        "UPDATE t SET id = 10 WHERE id = 1",
        "REPLACE INTO t VALUES (4, 4, 'b')",
        "UPDATE t SET id = id + 100",
        "DELETE FROM t",
    ):
        db.execute(statement)
        replica.apply(drain(source, replica.position))
        replica.equals(db)


def test_triggers_of_the_user_that_write_the_same_table(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute(TABLES["alias"])
    db.execute("CREATE TRIGGER stamp AFTER INSERT ON t BEGIN UPDATE t SET c = 'stamped' WHERE id = NEW.id; END")
    db.execute("CREATE TRIGGER room BEFORE INSERT ON t BEGIN DELETE FROM t WHERE b = NEW.b; END")
    source.capture("t")
    replica = Replica(source, "t")
    for _ in range(2):
        db.execute("INSERT INTO t VALUES (NULL, 'p', 1, 0), (NULL, 'q', 1, 0)")
        db.execute("REPLACE INTO t VALUES (2, 'p', 2, 0), (2, 'q', 3, 0), (3, 'q', 2, 0)")
        replica.apply(drain(source, replica.position))
        replica.equals(db)
        db.execute("DELETE FROM t")


def test_savepoints_and_rollbacks(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute(TABLES["alias"])
    source.capture("t")
    db.execute("BEGIN")
    db.execute("INSERT INTO t(id) VALUES (1)")
    db.execute("SAVEPOINT s")
    db.execute("INSERT INTO t(id) VALUES (2)")
    db.execute("ROLLBACK TO s")
    db.execute("INSERT INTO t(id) VALUES (3)")
    db.execute("COMMIT")
    db.execute("BEGIN")
    db.execute("INSERT INTO t(id) VALUES (4)")
    db.execute("ROLLBACK")
    (transaction,) = source.changes(0, 5)
    assert isinstance(transaction, Transaction)
    assert [change.new and change.new[0] for change in transaction.changes] == [1, 3]
    assert transaction.position == source.position() == 2


def test_deleting_all_rows_is_deletes(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a)")
    db.execute("INSERT INTO t VALUES (1), (1), (NULL)")
    source.capture("t")
    db.execute("DELETE FROM t")
    (transaction,) = source.changes(0, 5)
    assert isinstance(transaction, Transaction)
    assert transaction.changes == (Change("t", (1,), None), Change("t", (1,), None), Change("t", (None,), None))


def test_values_arrive_bit_for_bit(source: SqliteSource, db: sqlite3.Connection) -> None:
    floats = [5e-324, -0.0, 1.7976931348623157e308, float("inf"), 0.1, struct.unpack("<d", b"\x01" * 8)[0]]
    values = [None, b"", b"\x00\xff", 2**63 - 1, -(2**63), "", "a\x00b", "🦊 ∂", "\ufeff", *floats]
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v, typed REAL)")
    source.capture("t")
    replica = Replica(source, "t")
    db.executemany("INSERT INTO t(v) VALUES (?)", [(value,) for value in values])
    db.executemany("UPDATE t SET typed = ? WHERE id = ?", [(value, at) for at, value in enumerate(floats, 1)])
    replica.apply(drain(source, replica.position))
    replica.equals(db)
    again = Replica(source, "t")
    again.equals(db)


def test_odd_names(source: SqliteSource, db: sqlite3.Connection) -> None:
    name = 'sel"ect "from" 🦊'
    quoted = '"' + name.replace('"', '""') + '"'
    db.execute(f'CREATE TABLE {quoted}("order" INTEGER PRIMARY KEY, "a b" UNIQUE, [o0], "n""1", `t`, "NEW")')
    table = source.capture(name)
    assert table.names == ("order", "a b", "o0", 'n"1', "t", "NEW")
    replica = Replica(source, name)
    db.execute(f"INSERT INTO {quoted} VALUES (1, 2, 3, 4, 5, 6), (2, 3, 4, 5, 6, 7)")
    db.execute(f"REPLACE INTO {quoted} VALUES (1, 3, 0, 0, 0, 0)")
    replica.apply(drain(source, replica.position))
    replica.equals(db)


@pytest.mark.parametrize(
    ("create", "key"),
    [
        ("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", ("a",)),
        ("CREATE TABLE t(a INT, b, PRIMARY KEY (b, a)) WITHOUT ROWID", ("b", "a")),
        ("CREATE TABLE t(a TEXT PRIMARY KEY, b)", ()),
        ("CREATE TABLE t(a TEXT NOT NULL PRIMARY KEY, b)", ("a",)),
        ("CREATE TABLE t(a TEXT PRIMARY KEY, b INT) STRICT", ("a",)),
        ("CREATE TABLE t(a INTEGER PRIMARY KEY DESC, b)", ()),
        ("CREATE TABLE t(a, b UNIQUE)", ()),
    ],
)
def test_a_key_that_may_hold_null_is_none(
    source: SqliteSource, db: sqlite3.Connection, create: str, key: tuple[str, ...]
) -> None:
    db.execute(create)
    assert source.tables()[0].key == key
    assert source.capture("t").key == key


def test_text_that_is_not_utf8_ends_the_table_and_no_other(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a TEXT)")
    db.execute("CREATE TABLE u(a TEXT)")
    source.capture("t")
    source.capture("u")
    db.execute("INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
    db.execute("INSERT INTO u VALUES ('fine')")
    items = source.changes(0, 5)
    assert isinstance(items[0], SchemaChange)
    assert items[0].after is None
    assert "UTF-8" in items[0].reason
    assert items[-1] == Transaction(2, (Change("u", None, ("fine",)),))
    db.execute("INSERT INTO t VALUES ('not reported')")
    db.execute("INSERT INTO u VALUES ('still fine')")
    later = drained(source, 2)
    assert [item.changes for item in later if isinstance(item, Transaction) and item.changes] == [
        (Change("u", None, ("still fine",)),)
    ]
    assert not db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 't'").fetchall()


def test_changes_are_seen_across_processes_and_restarts(path: Path, db: sqlite3.Connection) -> None:
    db.execute(TABLES["alias"])
    first = SqliteSource(path)
    table = first.capture("t")
    first.close()
    db.execute("INSERT INTO t VALUES (1, 'x', 1, 1)")
    second = SqliteSource(path)
    assert second.capture("t") == table
    assert len(second.changes(0, 5)) == 1
    second.close()
