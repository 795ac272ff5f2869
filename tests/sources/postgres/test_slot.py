"""Slots: what they wait for is named, none stays that nobody needs, and none holds up a server that shuts down."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.model.errors import SourceError
from headwater.sources.postgres import slot
from headwater.sources.postgres.source import PostgresSource
from tests.sources.replica import Replica, drained
from tests.support.postgres import VERSIONS, Postgres
from tests.support.processes import eventually

Db = psycopg.Connection[Any]
_TABLES = ("CREATE TABLE t (id int PRIMARY KEY, a text)", "CREATE TABLE u (id int PRIMARY KEY)")
_OURS = (
    "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database() "
    "UNION ALL SELECT pubname FROM pg_publication"
)


@pytest.fixture
def db(db: Db) -> Db:
    for statement in _TABLES:
        db.execute(statement.encode())
    return db


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "WRITERS_S_MAX", 0.2)


@pytest.fixture
def elsewhere(server: Postgres) -> Iterator[Db]:
    """A connection to another database of the same server."""
    with server.database() as name, psycopg.connect(server.url(name)) as other:
        yield other


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_transaction_open_in_any_database_is_named(
    source: PostgresSource, db: Db, elsewhere: Db, ephemeral: bool
) -> None:
    source.ephemeral = ephemeral
    elsewhere.execute("SELECT pg_current_xact_id()")
    pid = elsewhere.info.backend_pid
    with pytest.raises(SourceError, match=rf"waits for transactions that began before: pid {pid} of user") as refused:
        source.capture("t")
    assert f"SELECT pg_terminate_backend({pid})" in (refused.value.hint or "")
    assert db.execute(_OURS).fetchall() == []
    elsewhere.rollback()
    _captured_at_last(source)


@pytest.mark.usefixtures("impatient")
def test_a_writer_of_the_table_is_named_and_nothing_stays(source: PostgresSource, db: Db, url: str) -> None:
    with psycopg.connect(url) as writer:
        writer.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        with pytest.raises(SourceError, match=f"start capturing table t within .* pid {writer.info.backend_pid} "):
            source.capture("t")
        assert db.execute(_OURS).fetchall() == []
    _captured_at_last(source)


@pytest.mark.usefixtures("impatient")
def test_a_prepared_transaction_that_wrote_to_the_table_is_named(source: PostgresSource, db: Db) -> None:
    """It has no process. The table was read without its rows, and its commit was never told: they were missing."""
    _captured_at_last(source)
    db.execute("BEGIN; INSERT INTO u VALUES (1); PREPARE TRANSACTION 'later'")
    try:
        with pytest.raises(SourceError, match=r"start capturing table u .* prepared transaction 'later'") as refused:
            source.capture("u")
    finally:
        db.execute("COMMIT PREPARED 'later'")
    assert "ROLLBACK PREPARED 'later'" in (refused.value.hint or "")
    eventually(lambda: _is_captured(source, "u"))
    Replica(source, "u").holds(source.query("SELECT id FROM u").rows)


def test_who_waits_for_writers_of_a_table_holds_up_nobody_who_captures_another(
    source: PostgresSource, db: Db, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client that asked for a table with a long transaction on it kept all others from tables that were new."""
    monkeypatch.setattr(slot, "WRITERS_S_MAX", 60.0)
    source.capture("t")
    db.execute("CREATE TABLE other (id int PRIMARY KEY)")
    with psycopg.connect(url) as writer:
        writer.execute("INSERT INTO u VALUES (1)")
        waiting = threading.Thread(target=source.capture, args=("u",))
        waiting.start()
        eventually(lambda: db.execute("SELECT count(*) FROM pg_publication_rel").fetchone() == (2,))
        assert source.capture("other").name == "other"
        assert waiting.is_alive(), "it waits for the writer still"
    waiting.join()
    replica = Replica(source, "u")
    replica.holds([(1,)])
    db.execute("UPDATE u SET id = 2")
    replica.apply(drained(source, replica.position))
    replica.holds([(2,)])


def test_changes_that_are_read_again_while_writers_are_waited_for_are_not_missed(
    source: PostgresSource, db: Db, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "WRITERS_S_MAX", 60.0)
    source.capture("t")
    after = source.position()
    db.execute("INSERT INTO t VALUES (1, 'x')")
    drained(source, after)
    with psycopg.connect(url) as writer:
        writer.execute("INSERT INTO u VALUES (1)")
        waiting = threading.Thread(target=source.capture, args=("u",))
        waiting.start()
        eventually(lambda: db.execute("SELECT count(*) FROM pg_publication_rel").fetchone() == (2,))
        db.execute("INSERT INTO u VALUES (2)")
        assert any(getattr(one, "changes", ()) for one in drained(source, after)), "what was told before, again"
        db.execute("INSERT INTO u VALUES (3)")
    waiting.join()
    replica = Replica(source, "u")
    db.execute("UPDATE u SET id = id + 10")
    replica.apply(drained(source, replica.position))
    replica.holds([(11,), (12,), (13,)])


_WAITS = {
    "for a slot": "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE '%replication_slot%' AND state = 'active' "
    "AND wait_event_type = 'Lock'",
    "for writers": "SELECT count(*) FROM pg_publication_rel",
}


@pytest.mark.parametrize(("what", "ephemeral"), [("for a slot", False), ("for a slot", True), ("for writers", False)])
def test_who_waits_for_transactions_of_others_waits_no_longer_than_the_source(
    source: PostgresSource, db: Db, url: str, monkeypatch: pytest.MonkeyPatch, what: str, ephemeral: bool
) -> None:
    """A server that was told to end took 19 s, while its first subscription waited for a slot."""
    monkeypatch.setattr(slot, "WRITERS_S_MAX", 600.0)
    source.ephemeral = ephemeral
    reasons = list[str]()
    with psycopg.connect(url) as writer:
        if what == "for writers":
            source.capture("u")
        writer.execute("INSERT INTO t VALUES (1, 'x')")

        def capture() -> None:
            try:
                source.capture("t")
            except SourceError as error:
                reasons.append(error.message)

        waiting = threading.Thread(target=capture)
        waiting.start()
        eventually(lambda: db.execute(_WAITS[what].encode()).fetchone() == (2 if what == "for writers" else 1,))
        source.close()
        waiting.join()
        assert reasons == ["the server is shutting down"]


def test_a_watch_that_is_terminated_leaves_nothing(db: Db, url: str) -> None:
    """Its publication stayed, and no command told of it."""
    words = ["watch", "SELECT id FROM t", "--source", url, "--runner", "inline", "--json"]
    with subprocess.Popen([sys.executable, "-m", "headwater.cli", *words], stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline()
        assert db.execute(_OURS).fetchall() != []
        watch.terminate()
        assert watch.wait() == 128 + signal.SIGTERM
    assert db.execute(_OURS).fetchall() == []


def _captured_at_last(source: PostgresSource) -> None:
    eventually(lambda: _is_captured(source, "t"))


def _is_captured(source: PostgresSource, table: str) -> bool:
    try:
        return source.capture(table).name == table
    except SourceError:  # the machine may be slower than we are patient
        return False


@pytest.mark.usefixtures("impatient")
def test_what_was_captured_before_goes_on(source: PostgresSource, db: Db, url: str) -> None:
    _captured_at_last(source)
    after = source.position()
    with psycopg.connect(url) as writer:
        writer.execute("INSERT INTO u VALUES (1)")
        with pytest.raises(SourceError, match="start capturing table u"):
            source.capture("u")
    db.execute("INSERT INTO t VALUES (1, 'x')")
    assert any(getattr(one, "changes", ()) for one in drained(source, after))


def test_nothing_stays_of_what_need_not_survive(url: str, db: Db) -> None:
    with headwater.connect(url, runner="inline", ephemeral=True) as live:
        rows = live.query("SELECT id, a FROM t", live=True)
        assert db.execute("SELECT temporary FROM pg_replication_slots").fetchall() == [(True,)]
        db.execute("INSERT INTO t VALUES (1, 'x')")
        assert rows.wait(live.position())
        live.verify(rows)
    eventually(lambda: db.execute(_OURS).fetchall() == [])


def test_a_temporary_slot_that_is_cut_is_made_again(url: str, db: Db) -> None:
    with headwater.connect(url, runner="inline", ephemeral=True) as live:
        rows = live.query("SELECT id, a FROM t", live=True)
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        db.execute("INSERT INTO t VALUES (1, 'x')")
        eventually(lambda: [dict(row) for row in rows.rows] == [{"id": 1, "a": "x"}])
        eventually(lambda: rows.state == "ready")


def test_the_server_hears_from_us_while_we_are_busy(source: PostgresSource, db: Db) -> None:
    """Nobody reads here: as while a large transaction is worked through."""
    source.capture("t")
    drained(source, source.position())
    heard: set[Any] = set()

    def hear() -> bool:
        heard.update(row for (row,) in db.execute("SELECT reply_time FROM pg_stat_replication").fetchall())
        return len(heard) > 3

    eventually(hear)
    assert db.execute("SELECT count(*) FROM pg_stat_replication").fetchone() == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_shuts_down_need_not_wait_for_us(version: str, tmp_path: Path) -> None:
    """Nothing is ever settled here, and the server has no timeout of its own: it would wait for ever."""
    server = Postgres(version, {"wal_sender_timeout": "0"})
    try:
        server.start()
        with server.connect() as db:
            db.execute(_TABLES[0].encode())
        source = PostgresSource(server.url())
        source.attach(tmp_path)
        source.capture("t")
        with server.connect() as db:
            db.execute("INSERT INTO t VALUES (1, 'x')")
        over = threading.Event()
        taker = threading.Thread(target=_take, args=(source, source.position(), over))
        taker.start()
        try:
            server.stop()
        finally:
            over.set()
            taker.join()
            source.close()
    finally:
        server.remove()


def _take(source: PostgresSource, after: int, over: threading.Event) -> None:
    """As the capture thread does it."""
    while not over.is_set():
        try:
            after = max([after, *(one.position for one in source.changes(after, 0.1))])
        except SourceError:
            over.wait(0.1)
