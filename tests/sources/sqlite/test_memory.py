"""Tables in memory: the same capture, with ends that are known by construction."""

from __future__ import annotations

import threading

import pytest

from headwater.model.change import Change, Transaction
from headwater.model.errors import SourceError
from headwater.sources import open_source
from headwater.sources.source import SchemaChange, Source
from headwater.sources.sqlite.memory import MemorySource
from tests.sources.replica import Replica, drain


@pytest.fixture
def memory() -> MemorySource:
    source = MemorySource()
    source.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE)")
    source.execute("INSERT INTO t VALUES (1, 'x')")
    return source


def test_transactions_are_kept_apart(memory: MemorySource) -> None:
    memory.capture("t")
    memory.execute("INSERT INTO t VALUES (2, 'y')")
    with memory.transaction() as tx:
        tx.execute("REPLACE INTO t VALUES (2, 'x')")
        tx.execute("DELETE FROM t")
    first, second = memory.changes(0, 5)
    assert isinstance(first, Transaction)
    assert isinstance(second, Transaction)
    assert first == Transaction(1, (Change("t", None, (2, "y")),))
    assert second.position == tx.position == memory.position()
    assert len(second.changes) == 4


def test_a_commit_wakes_who_waits(memory: MemorySource) -> None:
    memory.capture("t")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(memory.changes(0, 60)))
    thread.start()
    position = memory.execute("INSERT INTO t VALUES (2, 'y')")
    thread.join(60)
    assert found == [Transaction(position, (Change("t", None, (2, "y")),))]


def test_schema_changes_follow_at_once(memory: MemorySource) -> None:
    memory.capture("t")
    replica = Replica(memory, "t")
    with memory.transaction() as tx:
        tx.execute("ALTER TABLE t ADD COLUMN b DEFAULT 5")
        tx.execute("UPDATE t SET b = 'new'")
    memory.execute("INSERT INTO t VALUES (3, 'z', 7)")
    replica.apply(drain(memory, replica.position))
    replica.equals(memory._db)
    memory.execute("DROP TABLE t")
    end = memory.changes(replica.position, 5)[-1]
    assert isinstance(end, SchemaChange)
    assert end.after is None


def test_a_failed_transaction_leaves_no_trace(memory: MemorySource) -> None:
    memory.capture("t")
    with pytest.raises(ZeroDivisionError), memory.transaction() as tx:
        tx.execute("DELETE FROM t")
        raise ZeroDivisionError
    assert memory.changes(0, 0) == []
    assert memory.query("SELECT count(*) FROM t").rows == [(1,)]


def test_forget_and_detach(memory: MemorySource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.base.PRUNE_ROWS_MIN", 1)
    memory.capture("t")
    memory.executemany("INSERT INTO t(a) VALUES (?)", [(str(number),) for number in range(10)])
    memory.forget(memory.position())
    with memory._reading() as db:
        assert db.execute("SELECT count(*) FROM _headwater_log").fetchall() == [(1,)]
    assert "table _headwater_log" in memory.detach()


def test_a_name_is_shared_until_the_last_closes() -> None:
    one, two, other = open_source("memory://shop"), open_source("memory://shop"), open_source("memory://")
    one.execute("CREATE TABLE t(a)")
    assert [table.name for table in two.tables()] == ["t"]
    assert other.tables() == ()
    one.close()
    assert two.position() == 0
    two.close()
    with pytest.raises(SourceError, match="closed"):
        two.position()
    fresh = open_source("memory://shop")
    assert fresh.tables() == ()
    fresh.close()
    other.close()


def test_both_kinds_are_sources(memory: MemorySource) -> None:
    source: Source = memory
    assert source.dialect == "sqlite"
    assert source.notes()
    source.close()
