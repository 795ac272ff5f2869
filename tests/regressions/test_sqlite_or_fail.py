"""INSERT OR FAIL keeps the rows before the failing one, but leaves `sqlite_sequence` behind: it split one."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from headwater.model.change import Transaction
from headwater.sources.sqlite.source import SqliteSource


def test_a_failed_statement_does_not_split_its_transaction(tmp_path: Path) -> None:
    source = SqliteSource(tmp_path / "origin.db")
    source.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
    source.capture("t")
    db = sqlite3.connect(tmp_path / "origin.db", isolation_level=None)
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (1)")
    with suppress(sqlite3.IntegrityError):
        db.execute("INSERT OR FAIL INTO t VALUES (2), (2)")
    db.execute("COMMIT")
    db.execute("INSERT INTO t VALUES (3)")
    items = source.changes(0, 5)
    assert [[change.new for change in item.changes] for item in items if isinstance(item, Transaction)] == [
        [(1,), (2,)],
        [(3,)],
    ]
    db.close()
    source.close()
