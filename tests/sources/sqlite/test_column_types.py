"""Which type a column has, and what happens when a value does not keep to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headwater.model.change import Transaction
from headwater.model.value import Type
from headwater.sources.source import SchemaChange
from headwater.sources.sqlite.source import SqliteSource
from tests.sources.replica import Replica, drain


@pytest.mark.parametrize(
    ("declared", "values", "type"),
    [
        ("INTEGER", [], Type.INTEGER),
        ("VARCHAR(10)", [], Type.TEXT),
        ("DOUBLE", [], Type.REAL),
        ("BLOB", [], Type.BLOB),
        ("DATETIME", [], Type.TEXT),
        ("BOOLEAN", [], Type.INTEGER),
        ("DECIMAL(10, 2)", [], Type.ANY),
        ("", [], Type.ANY),
        ("DATETIME", [1700000000], Type.INTEGER),
        ("DATETIME", ["2026-01-01", None], Type.TEXT),
        ("NUMERIC", [1, 2, None], Type.INTEGER),
        ("NUMERIC", [1, 1.5], Type.ANY),
        ("REAL", [1, 2], Type.REAL),
        ("INT", [1, "one"], Type.ANY),
        ("", [b"x"], Type.BLOB),
        ("TEXT", ["a", b"a"], Type.ANY),
        ("TEXT", [None], Type.TEXT),
    ],
)
def test_the_type_is_that_of_all_values(
    source: SqliteSource, db: sqlite3.Connection, declared: str, values: list[object], type: Type
) -> None:
    db.execute(f"CREATE TABLE t(v {declared})")
    db.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    assert source.capture("t").column("v").type is type
    Replica(source, "t").equals(db)


@pytest.mark.parametrize(
    ("declared", "values", "type"),
    [
        ("INT", [1], Type.INTEGER),
        ("INTEGER", ["1"], Type.INTEGER),
        ("REAL", [1], Type.REAL),
        ("TEXT", [1], Type.TEXT),
        ("BLOB", [b"1"], Type.BLOB),
        ("ANY", [1], Type.ANY),
        ("ANY", [1, "1", 1.0, "1.0", b"1", None], Type.ANY),
        ("ANY DEFAULT '1'", [], Type.ANY),
        ("TEXT AS (id || 'x')", None, Type.TEXT),
        ("TEXT AS (CASE id WHEN 1 THEN x'00' ELSE 'a' END)", None, Type.ANY),
        ("ANY AS (CASE id WHEN 1 THEN '1' ELSE 1 END) STORED", None, Type.ANY),
    ],
)
@pytest.mark.parametrize("options", ["STRICT", "STRICT, WITHOUT ROWID"])
def test_in_a_strict_table_any_converts_nothing_and_only_generated_columns_stray(
    source: SqliteSource,
    db: sqlite3.Connection,
    declared: str,
    values: list[object] | None,
    type: Type,
    options: str,
) -> None:
    db.execute(f"CREATE TABLE t(id INTEGER PRIMARY KEY, v {declared}) {options}")
    if values is None:
        db.executemany("INSERT INTO t(id) VALUES (?)", [(1,), (2,)])
    else:
        db.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
    found = source.capture("t")
    replica = Replica(source, "t")
    assert found.column("v").type is type
    assert (found.column("v").declared == "") == declared.startswith("ANY")
    assert found.column("v").default == ("1" if "DEFAULT" in declared else None)
    replica.equals(db)
    db.execute("INSERT INTO t(id) VALUES (7)")
    replica.apply(drain(source, replica.position))
    replica.equals(db)


def test_a_misfit_makes_the_column_mixed_just_before_its_transaction(
    source: SqliteSource, db: sqlite3.Connection
) -> None:
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b TEXT)")
    table = source.capture("t")
    db.execute("INSERT INTO t VALUES (1, 1, 'x')")
    db.execute("INSERT INTO t VALUES (2, 'many', 'x')")
    db.execute("INSERT INTO t VALUES (3, 1.5, x'00')")
    before, first, one, second, two = source.changes(0, 5)
    assert isinstance(before, Transaction)
    assert isinstance(one, Transaction)
    assert isinstance(two, Transaction)
    assert isinstance(first, SchemaChange)
    assert isinstance(second, SchemaChange)
    assert first.before == table
    assert first.after is not None
    assert [column.type for column in first.after.columns] == [Type.INTEGER, Type.ANY, Type.TEXT]
    assert first.after.schema_id > table.schema_id
    assert before.position <= first.position <= one.position
    assert second.before == first.after
    assert second.after is not None
    assert second.after.column("b").type is Type.ANY


def test_schema_ids_are_the_same_after_a_restart_and_after_pruning(
    source: SqliteSource, db: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.base.PRUNE_ROWS_MIN", 1)
    db.execute("CREATE TABLE t(a INT, b INT)")
    source.capture("t")
    db.execute("INSERT INTO t VALUES (1, 'odd')")
    items = source.changes(0, 5)
    db.execute("INSERT INTO t VALUES (1, 1)")
    change = items[0]
    assert isinstance(change, SchemaChange)
    other = SqliteSource(path)
    assert other.changes(0, 5)[: len(items)] == items
    assert other.capture("t") == change.after
    other.close()
    source.forget(1)
    assert db.execute("SELECT min(seq) FROM _headwater_log").fetchone() == (2,)
    third = SqliteSource(path)
    assert third.capture("t") == change.after
    db.execute("INSERT INTO t VALUES (1, 'odd')")
    assert not [item for item in third.changes(1, 5) if isinstance(item, SchemaChange)]
    third.close()


def test_a_snapshot_knows_the_misfits_that_capture_has_not_reported_yet(
    source: SqliteSource, db: sqlite3.Connection
) -> None:
    db.execute("CREATE TABLE t(a INT)")
    source.capture("t")
    db.execute("INSERT INTO t VALUES ('odd')")
    with source.snapshot("t") as snapshot:
        seen = snapshot.table
        assert snapshot.position == 1
        assert sum(batch.num_rows for batch in snapshot) == 1
    change = source.changes(0, 5)[0]
    assert isinstance(change, SchemaChange)
    assert change.after == seen


def test_a_snapshot_of_text_that_is_not_utf8_is_refused(source: SqliteSource, db: sqlite3.Connection) -> None:
    from headwater.model.errors import SourceError

    db.execute("CREATE TABLE t(a TEXT)")
    db.execute("INSERT INTO t VALUES (CAST(x'ff' AS TEXT))")
    source.capture("t")
    with source.snapshot("t") as snapshot, pytest.raises(SourceError, match="UTF-8"):
        list(snapshot)


def test_a_snapshot_does_not_see_what_comes_after_it(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a INT)")
    db.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(100)])
    source.capture("t")
    with source.snapshot("t", rows_max=10) as snapshot:
        batches = iter(snapshot)
        next(batches)
        db.execute("DELETE FROM t")
        assert sum(batch.num_rows for batch in batches) == 90
    assert sum(len(item.changes) for item in drain(source, 0) if isinstance(item, Transaction)) == 100
