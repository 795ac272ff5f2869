"""The doctor on SQLite files: it creates none, and what it says is so."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headwater.cli import main
from headwater.model.errors import SourceError
from headwater.sources.doctor import DoctorScope, Finding, Severity, apply_fixes
from headwater.sources.sqlite.doctor import SqliteDoctor
from headwater.sources.sqlite.source import SqliteSource


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
    db.close()
    return path


def _examined(path: Path, scope: DoctorScope | None = None) -> dict[str, Finding]:
    doctor = SqliteDoctor(path, scope or DoctorScope())
    try:
        return {finding.subject: finding for finding in doctor.examine()}
    finally:
        doctor.close()


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", f"sqlite:///{tmp_path}/none.db"]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("nothing of the kind, and long enough to be looked at\n" * 100)
    with pytest.raises(SourceError, match="cannot be opened"):
        SqliteDoctor(tmp_path / "text.db")


def test_the_journal_mode_is_mended_when_asked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _examined(path)["journal_mode"]
    assert (before.state, before.fix) == (Severity.NOTE, "PRAGMA journal_mode = WAL")
    assert main(["doctor", f"sqlite:///{path}", "--fix"]) == 0
    assert "done: PRAGMA journal_mode = WAL" in capsys.readouterr().err
    assert _examined(path)["journal_mode"].state is Severity.FINE


def test_what_is_locked_is_refused_in_sqlites_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.doctor._BUSY_MS", 1)
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        doctor = SqliteDoctor(path)
        (applied,) = apply_fixes(doctor)
        doctor.close()
    db.close()
    assert applied.refused is not None
    assert "locked" in applied.refused


def test_triggers_are_told_and_whether_they_fit(path: Path) -> None:
    assert "first live query" in _examined(path)["triggers"].found
    source = SqliteSource(path)
    source.capture("orders")
    source.execute("INSERT INTO orders VALUES (1, 2.5)")
    source.close()
    found = _examined(path)
    assert found["triggers"].found == "on orders"
    assert found["_headwater_log"].state is Severity.FINE
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE orders ADD COLUMN note TEXT")
    db.close()
    assert "behind the schema of orders" in _examined(path)["triggers"].found


def test_a_table_that_cannot_be_captured_matters_where_it_is_asked_about(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE hidden (rowid TEXT, oid TEXT, _rowid_ TEXT)")
    db.close()
    assert _examined(path)["table hidden"].state is Severity.NOTE
    assert _examined(path, DoctorScope(tables=("hidden",)))["table hidden"].state is Severity.BAD
    assert _examined(path, DoctorScope(tables=("nope",)))["table nope"].state is Severity.BAD
    assert main(["doctor", f"sqlite:///{path}", "--table", "hidden"]) == 1


def test_roles_are_not_sqlites(path: Path) -> None:
    assert main(["doctor", f"sqlite:///{path}", "--role", "me"]) == 1


def test_tables_in_memory_need_no_doctor() -> None:
    assert main(["doctor", "memory://"]) == 1
