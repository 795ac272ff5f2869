"""Positions, queries, writes, errors, and letting go: the source as its users see it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from headwater.model.change import Change, Transaction
from headwater.model.errors import SourceError, SqlError
from headwater.model.value import Type
from headwater.sources import open_source
from headwater.sources.sqlite.captures import TableCapture
from headwater.sources.sqlite.column_types import find_types
from headwater.sources.sqlite.source import SqliteSource


def test_positions_follow_commits(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a)")
    db.execute("CREATE TABLE other(a)")
    assert source.position() == 0
    source.capture("t")
    assert source.execute("INSERT INTO t VALUES (?), (?)", (1, 2)) == 2
    assert source.executemany("INSERT INTO t VALUES (?)", [(3,), (4,)]) == 4
    assert source.execute("INSERT INTO other VALUES (1)") == 4
    with source.transaction() as tx:
        tx.execute("DELETE FROM t WHERE a = 1")
        tx.executemany("UPDATE t SET a = a + ?", [(10,)])
    assert tx.position == 8 == source.position()
    assert [item.position for item in source.changes(0, 5)] == [2, 4, 8]
    db.execute("INSERT INTO t VALUES (5)")
    assert source.position() == 9


@pytest.mark.parametrize(("rows_max", "count"), [(1000, 1), (0, 2)])
def test_tables_that_are_captured_together_cost_one_commit_or_two_where_there_are_large_ones(
    source: SqliteSource, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, rows_max: int, count: int
) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.column_types.SETTLED_ROWS_MAX", rows_max)
    for name in "tuv":
        db.execute(f"CREATE TABLE {name}(a)")
        db.execute(f"INSERT INTO {name} VALUES (1)")

    statements = list[str]()
    source._writer.set_trace_callback(statements.append)
    found = source.capture_all(["t", "u", "v"])
    assert [(table.name, table.columns[0].type) for table in found] == [(name, Type.INTEGER) for name in "tuv"]
    assert statements.count("COMMIT") == count
    assert source.capture("u") == found[1]
    db.execute("INSERT INTO v VALUES (2)")
    [item] = source.changes(0, 5)
    assert isinstance(item, Transaction) and item.changes == (Change("v", None, (2,)),)


def test_a_change_is_as_old_as_its_commit(source: SqliteSource, db: sqlite3.Connection, path: Path) -> None:
    """Its age was counted from when we had logged it."""
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    for _ in range(2):
        db.execute("INSERT INTO t VALUES (1)")
    os.utime(f"{path}-wal", (1e9, 1e9))
    first, *_ = source.changes(0, 5)
    assert isinstance(first, Transaction)
    assert (first.position, first.committed_at) == (1, 1e9)


def test_a_transaction_that_raises_is_rolled_back(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    with pytest.raises(ZeroDivisionError), source.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with pytest.raises(SourceError, match="already open"), source.transaction():
        source.execute("INSERT INTO t VALUES (1)")
    assert source.position() == 0


def test_queries_are_answered_at_a_position(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a, b)")
    source.capture("t")
    source.execute("INSERT INTO t VALUES (1, 'x')")
    answer = source.query("SELECT b, a FROM t WHERE a = ?", (1,))
    assert (answer.columns, answer.rows, answer.position) == (("b", "a"), [("x", 1)], 1)
    assert source.query("SELECT :n AS n", {"n": 5}).rows == [(5,)]


@pytest.mark.parametrize("sql", ["SELECT nope FROM t", "SELEC", "SELECT 1; SELECT 2", "DELETE FROM t", ""])
def test_wrong_queries_get_the_words_of_sqlite(source: SqliteSource, db: sqlite3.Connection, sql: str) -> None:
    db.execute("CREATE TABLE t(a)")
    with pytest.raises((SqlError, SourceError)) as error:
        source.query(sql)
    assert str(error.value)


def test_prepare_runs_nothing(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a)")
    source.prepare("SELECT a FROM t WHERE a = ? AND a > :low")
    with pytest.raises(SqlError, match="no such column: nope"):
        source.prepare("SELECT nope FROM t")


def test_what_cannot_be_captured_is_refused(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a)")
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(a)")
    db.execute("CREATE TABLE s(a UNIQUE, b REFERENCES s(a) ON DELETE SET NULL)")
    wide = ", ".join(f"c{number}" for number in range(1200))
    db.execute(f"CREATE TABLE wide({wide})")
    for name, words in (
        ("v", "view"),
        ("s", "NOT NULL"),
        ("f", "virtual"),
        ("nope", "no table"),
        ("wide", "1200 columns"),
    ):
        with pytest.raises(SourceError, match=words):
            source.capture(name)
    with pytest.raises(SourceError, match="not captured"):
        source.snapshot("t")


def test_names_are_found_as_sqlite_finds_them(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE Orders(Id INTEGER PRIMARY KEY)")
    assert source.capture("ORDERS").name == "Orders"
    assert [table.name for table in source.tables()] == ["Orders"]


def test_forgetting_prunes_all_but_the_last_row(
    source: SqliteSource, db: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.base.PRUNE_ROWS_MIN", 10)
    monkeypatch.setattr("headwater.sources.sqlite.base.PRUNE_ROWS_MAX", 7)
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    source.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(50)])
    source.forget(5)
    assert db.execute("SELECT min(seq), max(seq) FROM _headwater_log").fetchone() == (1, 50)
    source.forget(50)
    assert db.execute("SELECT min(seq), max(seq) FROM _headwater_log").fetchone() == (50, 50)
    assert source.execute("DELETE FROM t WHERE a = 1") == 51
    assert [item.position for item in source.changes(50, 5)] == [51]
    with pytest.raises(SourceError, match="gone"):
        source.changes(10, 0)


def test_changes_that_another_server_removed_are_missed_aloud(
    source: SqliteSource, db: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.base.PRUNE_ROWS_MIN", 1)
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
    source.capture("t")
    start = source.position()
    db.execute("INSERT INTO t VALUES (1)")
    (first,) = source.changes(start, 1)
    db.executemany("INSERT INTO t VALUES (?)", [(2,), (3,), (4,)])
    with contextlib.closing(SqliteSource(path)) as another:
        another.forget(another.position())
    with pytest.raises(SourceError, match=f"after position {first.position} are gone"):
        source.changes(first.position, 1)


def test_detaching_leaves_the_database_as_it_was(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a UNIQUE)")
    before = db.execute("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'").fetchall()
    source.capture("t")
    source.execute("INSERT INTO t VALUES (1)")
    removed = source.detach()
    assert "table _headwater_log" in removed
    assert sum(name.startswith("trigger ") for name in removed) == 6
    assert db.execute("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'").fetchall() == before
    with pytest.raises(SourceError, match="detached"):
        source.changes(1, 0)
    assert source.detach() == []


def test_a_file_that_is_replaced_is_an_error(source: SqliteSource, db: sqlite3.Connection, path: Path) -> None:
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    source.changes(0, 0)
    path.rename(path.with_name("moved.db"))
    with pytest.raises(SourceError, match="replaced or removed"):
        source.changes(0, 0)
    sqlite3.connect(path).close()
    path.touch()
    with pytest.raises(SourceError, match="replaced or removed"):
        source.changes(0, 0)


def test_unreadable_addresses_say_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, and long enough to be sure of that " * 20)
    (tmp_path / "directory").mkdir()
    for url, words in (
        (f"sqlite:///{tmp_path}/text.db", "not a database"),
        (f"sqlite:///{tmp_path}/directory", "cannot be opened"),
        (f"sqlite:///{tmp_path}/none/x.db", "no directory"),
        ("oracle://x", "memory://name"),
        ("sqlite:relative.db", "memory://name"),
        ("", "memory://name"),
    ):
        with pytest.raises(SourceError, match=words):
            open_source(url)


def test_a_new_file_is_created_in_wal_mode(tmp_path: Path) -> None:
    source = open_source(f"sqlite:///{tmp_path}/new.db")
    assert source.notes() == ()
    assert source.dialect == "sqlite"
    again = open_source(f"sqlite:///{tmp_path}/new.db")
    assert source.name == again.name
    source.close()
    again.close()


def test_a_closed_source_wakes_who_waits(source: SqliteSource, db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(source.changes(0, 60)))
    thread.start()
    source.close()
    thread.join(60)
    assert found == [[]]
    with pytest.raises(SourceError, match="closed"):
        source.position()


def test_capturing_while_changes_are_waited_for_and_written(source: SqliteSource, db: sqlite3.Connection) -> None:
    for name in "tuv":
        db.execute(f"CREATE TABLE {name}(a)")
    source.capture("t")
    seen: list[Change] = []
    stop = threading.Event()

    def watch() -> None:
        after = 0
        while not stop.is_set() or after < source.position():
            for item in source.changes(after, 0.05):
                after = item.position
                seen.extend(item.changes if isinstance(item, Transaction) else ())

    thread = threading.Thread(target=watch)
    thread.start()
    positions = {}
    for name in "uv":
        source.capture(name)
        for number in range(20):
            positions[name, number] = source.execute(f"INSERT INTO {name} VALUES (?)", (number,))
    stop.set()
    thread.join(60)
    assert [(one.table, one.new[0]) for one in seen if one.new] == list(positions)


def test_others_are_followed_while_the_types_of_a_large_table_are_found(
    source: SqliteSource, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own rows of that time are not told, for who reads it later has them; a change of its columns waits."""
    db.execute("CREATE TABLE busy (id INTEGER PRIMARY KEY)")
    db.execute("CREATE TABLE large (id INTEGER PRIMARY KEY, n TEXT)")
    source.capture("busy")
    position = source.position()
    settling, release = threading.Event(), threading.Event()

    def held(db: sqlite3.Connection, capture: TableCapture) -> tuple[tuple[Type, ...], int]:
        found = find_types(db, capture)
        settling.set()
        assert release.wait(120)
        return found

    monkeypatch.setattr("headwater.sources.sqlite.column_types.SETTLED_ROWS_MAX", -1)
    monkeypatch.setattr("headwater.sources.sqlite.base.find_types", held)
    capturing_ = threading.Thread(target=source.capture, args=("large",))
    capturing_.start()
    assert settling.wait(120)
    db.execute("INSERT INTO large VALUES (1, 'one')")
    db.execute("INSERT INTO busy VALUES (1)")
    [told] = [one for one in source.changes(position, 120) if isinstance(one, Transaction) and one.changes]
    assert told.changes == (Change("busy", None, (1,)),)
    db.execute("ALTER TABLE large ADD COLUMN more")
    release.set()
    capturing_.join(120)
    db.execute("INSERT INTO large VALUES (2, 'two', 'more')")
    assert _told(source, told.position)[-1].new == (2, "two", "more")
    with source.snapshot("large") as snapshot:
        [batch] = snapshot
        assert batch.to_pylist() == [{"id": 1, "n": "one", "more": None}, {"id": 2, "n": "two", "more": "more"}]


def _told(source: SqliteSource, after: int) -> list[Change]:
    """Until nothing more comes for a moment."""
    changes: list[Change] = []
    while items := source.changes(after, 0.3):
        after = items[-1].position
        changes += [change for one in items if isinstance(one, Transaction) for change in one.changes]
    return changes


def test_a_locked_database_says_what_to_do(path: Path, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.source.BUSY_TIMEOUT_MS", 10)
    db.execute("CREATE TABLE t(a)")
    source = SqliteSource(path)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(SourceError, match="locked"):
        source.capture("t")
    db.execute("ROLLBACK")
    source.capture("t")
    source.close()
