"""Smallest cases of replaced rows that were once missed, told twice, or told wrongly."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

import pytest

from headwater.model.change import Transaction
from headwater.sources.sqlite.memory import MemorySource

CASES = {
    "a watched row that loses its key": (
        "CREATE TABLE t(a INT UNIQUE, b)",
        ["INSERT INTO t VALUES (1, 1)", "INSERT OR IGNORE INTO t VALUES (1, 2)", "UPDATE t SET a = NULL"],
        "INSERT INTO t VALUES (3, 3)",
    ),
    "a watched row that is deleted with its children": (
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b REFERENCES t ON DELETE CASCADE)",
        ["INSERT INTO t VALUES (1, NULL), (2, 1)", "INSERT OR IGNORE INTO t VALUES (1, 2)"],
        "DELETE FROM t WHERE a = 1",
    ),
    "an ignored update, then an upsert": (
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE, c)",
        [
            "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 1)",
            "INSERT OR IGNORE INTO t VALUES (2, NULL, 1)",
            "UPDATE OR IGNORE t SET b = 'x' WHERE a = 2",
            "INSERT INTO t VALUES (2, NULL, 1) ON CONFLICT DO UPDATE SET c = 5",
        ],
        "UPDATE OR REPLACE t SET b = 'y' WHERE a = 1",
    ),
    "a row that refers to itself gets another key": (
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE, c REFERENCES t ON UPDATE SET NULL)",
        ["INSERT INTO t VALUES (1, 'x', 1)", "INSERT OR IGNORE INTO t VALUES (1, 'x', 1)", "UPDATE t SET a = 2"],
        "REPLACE INTO t VALUES (2, 'y', NULL)",
    ),
    "a row replaces its own parent": (
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b REFERENCES t ON DELETE SET NULL)",
        ["INSERT INTO t VALUES (1, NULL), (2, 1), (3, 1)"],
        "UPDATE OR REPLACE t SET a = 1 WHERE a = 2",
    ),
    "a row takes the place of one that looked like it": (
        "CREATE TABLE t(a INTEGER NOT NULL UNIQUE, b, c REFERENCES t(a) ON UPDATE SET NULL)",
        ["INSERT INTO t VALUES (1, 'x', NULL), (2, 'x', NULL)"],
        "UPDATE OR REPLACE t SET a = 0, b = 'y', c = 2",
    ),
    "back and forth in a table that refers to itself": (
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b REFERENCES t ON UPDATE CASCADE)",
        ["INSERT INTO t VALUES (1, NULL), (2, NULL)", "UPDATE t SET b = 1 WHERE a = 2", "UPDATE t SET b = b"],
        "UPDATE t SET b = NULL",
    ),
    "a row watched long ago": (
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)",
        [
            *(f"INSERT INTO t VALUES ({number}, 'b{number}')" for number in range(30)),
            *(f"INSERT OR IGNORE INTO t VALUES ({number}, NULL)" for number in range(16)),
        ],
        "REPLACE INTO t VALUES (20, 'b0')",
    ),
}


@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("case", CASES)
def test_changes_add_up_to_the_table(case: str, recursive: str) -> None:
    create, before, last = CASES[case]
    source = MemorySource()
    source._db.execute("PRAGMA foreign_keys = ON")
    source._db.execute(f"PRAGMA recursive_triggers = {recursive}")
    source.execute(create)
    source.capture("t")
    with source.transaction() as tx:
        for statement in [*before, last]:
            with suppress(sqlite3.IntegrityError):
                tx.execute(statement)
    rows: list[object] = []
    for item in source.changes(0, 5):
        for change in item.changes if isinstance(item, Transaction) else ():
            if change.old is not None:
                rows.remove(change.old)
            if change.new is not None:
                rows.append(change.new)
    assert sorted(map(repr, rows)) == sorted(map(repr, source.query("SELECT * FROM t").rows))
    source.close()
