"""Positions around DDL: which of them are held back until the catalog was looked at, for how long, and at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.model.change import Transaction
from headwater.sources.postgres import ddl_poll, item_queue
from headwater.sources.postgres import stream as streams
from headwater.sources.postgres.catalog.event_trigger import TAGS, TRIGGER
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.source import Item, SchemaChange
from tests.sources.replica import Replica, drained

Db = psycopg.Connection[Any]
_TRIGGER = f"SELECT evttags, evtenabled::text FROM pg_event_trigger WHERE evtname = '{TRIGGER}'"


@pytest.fixture
def replica(source: PostgresSource, db: Db) -> Replica:
    """Of a table that is captured beside another one, where all is settled."""
    for table in ("t", "other"):
        db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, a text)".encode())
        source.capture(table)
    db.execute("INSERT INTO t VALUES (1, 'x')")
    replica = Replica(source, "t")
    _settle(source, replica)
    return replica


def _settle(source: PostgresSource, replica: Replica) -> None:
    """Until all was looked at that happened so far, and taken."""
    while source.schema_position():
        replica.apply(drained(source, replica.position))
    replica.apply(drained(source, replica.position))


def _ended(items: list[Item]) -> list[str]:
    return [item.before.name for item in items if isinstance(item, SchemaChange) and item.after is None]


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was asked of the catalog: a fingerprint, or all there is."""
    asked: list[str] = []
    for name in ("read_fingerprint", "read_shapes"):
        ask = getattr(ddl_poll, name)

        def counted(*given: Any, _name: str = name, _ask: Any = ask) -> Any:
            asked.append(_name)
            return _ask(*given)

        monkeypatch.setattr(ddl_poll, name, counted)
    monkeypatch.setattr(ddl_poll, "LOOK_S", 600.0)
    yield asked


def test_where_ddl_is_told_in_the_stream_nothing_is_asked_for_a_position(
    source: PostgresSource, db: Db, replica: Replica, questions: list[str]
) -> None:
    _settle(source, replica)
    questions.clear()
    for number in range(20):
        source.execute(f"INSERT INTO t VALUES ({number + 10}, 'y')")
        source.position()
    replica.apply(drained(source, replica.position))
    for _ in range(20):
        assert source.schema_position() == 0
    assert questions.count("read_shapes") == 0
    assert questions.count("read_fingerprint") < 20  # only while the log is further than we have read it


def test_ddl_that_concerns_nothing_of_ours_costs_one_question(
    source: PostgresSource, db: Db, replica: Replica, questions: list[str]
) -> None:
    _settle(source, replica)
    questions.clear()
    db.execute("CREATE TABLE third (id int)")
    db.execute("INSERT INTO t VALUES (2, 'y')")
    db.execute("DROP TABLE third")
    replica.apply(drained(source, replica.position))
    replica.holds(db.execute("SELECT id, a FROM t").fetchall())
    assert 1 <= questions.count("read_fingerprint") <= 3 and "read_shapes" not in questions


@pytest.mark.parametrize("state", ["DISABLE", "ENABLE REPLICA"])
def test_a_trigger_that_is_disabled_stays_so_and_positions_wait_all_the_same(
    url: str, db: Db, source: PostgresSource, replica: Replica, tmp_path: Path, state: str
) -> None:
    db.execute(f"ALTER EVENT TRIGGER {TRIGGER} {state}".encode())
    another = PostgresSource(url)
    another.attach(tmp_path / "another")
    try:
        another.capture("t")
        follower = Replica(another, "t")
        _settle(another, follower)
        db.execute("ALTER TABLE t RENAME COLUMN a TO b")
        assert _ended(drained(another, follower.position)) == ["t"]
        assert db.execute(_TRIGGER).fetchall()[0][1] == {"DISABLE": "D", "ENABLE REPLICA": "R"}[state]
    finally:
        another.close()


def test_a_trigger_of_an_older_version_is_replaced_when_we_come_back(
    url: str, db: Db, source: PostgresSource, replica: Replica, tmp_path: Path
) -> None:
    source.forget(replica.position)
    source.close()
    db.execute(f"DROP EVENT TRIGGER {TRIGGER}".encode())
    db.execute(
        f"CREATE EVENT TRIGGER {TRIGGER} ON ddl_command_end WHEN TAG IN ('ALTER TABLE') "
        "EXECUTE FUNCTION headwater.tell_ddl()".encode()
    )
    again = PostgresSource(url)
    again.attach(tmp_path)
    again.close()
    assert [set(tags) for tags, _ in db.execute(_TRIGGER)] == [set(TAGS)]


def test_the_end_of_a_table_passes_what_is_held_and_nothing_is_passed_over(
    source: PostgresSource, db: Db, replica: Replica
) -> None:
    """The end stood before a transaction that was not held, and was held itself: the transaction was lost."""
    db.execute("INSERT INTO t VALUES (2, 'y')")
    first = source.query("SELECT id FROM t").position
    db.execute("INSERT INTO t VALUES (3, 'z')")
    last = source.query("SELECT id FROM t").position
    stream = source._slot.stream
    assert stream is not None and first < last <= stream.position
    with stream.moved:
        assert stream.hold(first + 1)
        ended = next(one for one in stream.decoder.row_cache.captures.values() if one.table.name == "other")
        stream.give_first([SchemaChange(0, ended.table, None, "for a test", lost=True)])
        items = stream.take(replica.position, 100)
    assert [type(item) for item in items] == [SchemaChange, Transaction]
    replica.apply(items)
    replica.apply(drained(source, replica.position))
    replica.holds(db.execute("SELECT id, a FROM t").fetchall())


@pytest.mark.parametrize("altered", ["t", "other"])
def test_no_more_is_held_back_than_fits(
    source: PostgresSource, db: Db, replica: Replica, altered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So much was committed after the DDL that not all of it can wait until the stream is where the catalog is: a table
    that was altered begins anew, and everything else is told as it was made."""
    monkeypatch.setattr(item_queue, "ROWS_MAX", 100)
    waiting: list[int] = []
    take = streams.Stream.take

    def counted(self: streams.Stream, after: int, rows_max: int) -> list[Item]:
        waiting.append(self._queue._rows)
        return take(self, after, rows_max)

    monkeypatch.setattr(streams.Stream, "take", counted)
    db.execute(f"ALTER TABLE {altered} ADD COLUMN b int DEFAULT 7".encode())
    for number in range(800):
        rows = f"generate_series({number * 50 + 10}, {number * 50 + 59}) n"
        db.execute(f"INSERT INTO t SELECT n, repeat('x', 500) FROM {rows}".encode())
    items = drained(source, replica.position)
    assert max(waiting) < 20_000, "half of it was held back"
    assert _ended(items) == ["other"] * (altered == "other")  # of the other's shape the stream tells itself
    replica.apply(items)
    replica.holds(db.execute("SELECT * FROM t").fetchall())
    source.capture("other")
    assert len(Replica(source, "other").table.names) == 2 + (altered == "other")
