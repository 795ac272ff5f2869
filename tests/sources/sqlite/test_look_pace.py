"""How soon commits are looked for, and what becomes of those that share a look."""

from __future__ import annotations

import sqlite3

import pytest

from headwater.model.change import Transaction
from headwater.sources.look_pace import GATHER_S, LookPace
from headwater.sources.sqlite.log_decoder import LogDecoder
from headwater.sources.sqlite.source import SqliteSource
from tests.sources.replica import drain


def test_single_commits_are_not_waited_for() -> None:
    slept: list[float] = []
    pace = LookPace(slept.append)
    for at in (1.0, 1.0 + 2 * GATHER_S, 1.0 + 4 * GATHER_S):
        pace.found(at)
        pace.gather(at, 0.5)
    assert slept == []


def test_commits_that_follow_one_another_gather() -> None:
    slept: list[float] = []
    pace = LookPace(slept.append)
    pace.found(1.0)
    pace.found(1.0 + GATHER_S / 2)
    pace.gather(1.0 + GATHER_S, 0.5)
    assert slept == pytest.approx([GATHER_S / 2])
    pace.gather(1.0 + 2 * GATHER_S, 0.5)
    assert len(slept) == 1, "it has waited long enough"


def test_who_does_not_wait_is_not_let_wait() -> None:
    slept: list[float] = []
    pace = LookPace(slept.append)
    pace.found(1.0)
    pace.found(1.0)
    pace.gather(1.0, 0.0)
    assert slept == []


def _transactions(source: SqliteSource, db: sqlite3.Connection) -> list[Transaction]:
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
    db.execute("CREATE TABLE u(id INTEGER PRIMARY KEY, above INTEGER REFERENCES u(id) ON UPDATE CASCADE)")
    for table in ("t", "u"):
        source.capture(table)
    after = source.position()
    for n in range(3):
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (?, ?, 'x')", (n, n))
        db.execute("UPDATE t SET b = 'y' WHERE id = ?", (n,))
        db.execute("INSERT INTO u VALUES (?, NULL)", (n,))
        db.execute("COMMIT")
    db.execute("UPDATE t SET a = 'a text' WHERE id = 1")
    db.execute("DELETE FROM t")
    return [item for item in drain(source, after) if isinstance(item, Transaction)]


def test_transactions_that_share_a_look_stay_apart(source: SqliteSource, db: sqlite3.Connection) -> None:
    assert [len(one.changes) for one in _transactions(source, db)] == [3, 3, 3, 1, 3]


def test_plain_transactions_are_decoded_as_all_others_are(
    source: SqliteSource, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _transactions(source, db)
    monkeypatch.setattr(LogDecoder, "_plain_changes", lambda *_: None)
    source._decoding = None
    again = [item for item in drain(source, found[0].position - 3) if isinstance(item, Transaction)]
    assert again == found
