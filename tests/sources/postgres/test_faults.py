"""Connections cut, servers restarted, slots and publications touched: nothing lost or twice, or it says so."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.sources.postgres.catalog.publication import name_for
from headwater.sources.postgres.row_cache import durable_rows
from headwater.sources.postgres.row_cache.durable_rows import DIRECTORY
from headwater.sources.postgres.server.lsn import parse_lsn
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.source import ChangesLost, Item, SchemaChange
from tests.sources.replica import Replica, drained
from tests.support.cutting import ROW_BYTES, ROWS, cut_readings
from tests.support.postgres import Postgres

Db = psycopg.Connection[Any]
_PATIENCE_S = 120.0


def _started(source: PostgresSource, db: Db) -> Replica:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
    db.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 50) n")
    source.capture("t")
    return Replica(source, "t")


def _patiently(source: PostgresSource, after: int) -> list[Item]:
    """As the capture thread does it: what fails is asked for again."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return drained(source, after)
        except SourceError:
            assert time.monotonic() < until_s
            time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_a_server_that_restarts(
    source: PostgresSource, db: Db, url: str, server: Postgres, how: signal.Signals
) -> None:
    replica = _started(source, db)
    db.execute("UPDATE t SET a = 'before' WHERE id < 10")
    replica.apply(drained(source, replica.position))
    db.execute("UPDATE t SET a = 'just before' WHERE id < 5")
    stopping = threading.Thread(target=server.stop, args=(how,))
    stopping.start()
    taken: list[Item] = []
    with pytest.raises(SourceError):
        while True:
            taken += source.changes(max([replica.position, *(one.position for one in taken)]), 0.05)
            source.forget(max([replica.position, *(one.position for one in taken)]))
    stopping.join()
    replica.apply(taken)
    server.start()
    with psycopg.connect(url, autocommit=True) as again:
        again.execute("UPDATE t SET a = 'after' WHERE id > 45")
    replica.apply(_patiently(source, replica.position))
    replica.holds(source.query("SELECT id, a FROM t").rows)
    counts = [one for one in source.changes(replica.position, 0) if isinstance(one, Transaction) and one.changes]
    assert counts == []


def test_a_connection_cut_in_the_middle_of_a_transaction(source: PostgresSource, db: Db, url: str) -> None:
    replica = _started(source, db)
    with psycopg.connect(url) as large:
        for start in range(1000, 8000, 1000):
            large.execute(
                "INSERT INTO t SELECT n, repeat('x', 60) FROM generate_series(%s::int, %s::int) n", (start, start + 900)
            )
            replica.apply(_patiently_read(source, replica.position))
            _cut(db)
    replica.apply(_patiently(source, replica.position))
    replica.holds(source.query("SELECT id, a FROM t").rows)


def _patiently_read(source: PostgresSource, after: int) -> list[Item]:
    try:
        return [*source.changes(after, 0.02)]
    except SourceError:
        return []


def _cut(db: Db) -> None:
    db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")


def test_only_what_is_durable_is_acknowledged(source: PostgresSource, db: Db, tmp_path: Path) -> None:
    replica = _started(source, db)
    start = replica.position
    db.execute("DELETE FROM t WHERE id = 1")
    items = drained(source, replica.position)
    for _ in range(5):
        source.changes(items[-1].position, 0.01)
    (deleted,) = [item.position for item in items if isinstance(item, Transaction) and item.changes]
    assert _confirmed(db, tmp_path) < deleted
    source.forget(items[-1].position)
    _wait(lambda: bool(source.changes(items[-1].position, 0.05)) or _confirmed(db, tmp_path) >= items[-1].position)
    with pytest.raises(SourceError, match="are gone"):
        source.changes(start, 0)


def _confirmed(db: Db, directory: Path) -> int:
    row = db.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (name_for(directory),)
    ).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def _wait(done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < until_s


def test_a_first_read_cut_in_the_middle(
    source: PostgresSource, db: Db, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept of the rows by then is gone: it would be old by the time they are read again."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
    db.execute("INSERT INTO t SELECT n, repeat('x', %s) FROM generate_series(1, %s) n", (ROW_BYTES, ROWS))
    monkeypatch.setattr(durable_rows, "SEED_ROWS_MAX", 1)
    kept: list[Path] = []
    with cut_readings(url, lambda: kept.extend((tmp_path / DIRECTORY).glob("*.arrow"))):
        with pytest.raises(SourceError):
            source.capture("t")
    assert kept
    assert [path for path in kept if path.exists()] == []
    db.execute("DELETE FROM t WHERE id > 100")
    db.execute("UPDATE t SET a = 'meanwhile'")
    source.capture("t")
    replica = Replica(source, "t")
    db.execute("UPDATE t SET a = 'after' WHERE id < 50")
    db.execute("INSERT INTO t VALUES (500, 'new')")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT id, a FROM t").rows)


def test_our_process_dies(source: PostgresSource, db: Db, url: str, tmp_path: Path) -> None:
    """Some of what it reported was durable, some was not: all of that comes again, with the same rows before."""
    replica = _started(source, db)
    db.execute("UPDATE t SET a = 'durable'")
    replica.apply(drained(source, replica.position))
    source.forget(replica.position)
    db.execute("UPDATE t SET a = a || ' and more' WHERE id < 20")
    db.execute("DELETE FROM t WHERE id = 7")
    first = [one for one in drained(source, replica.position) if isinstance(one, Transaction) and one.changes]
    _die(source)
    later = PostgresSource(url)
    later.attach(tmp_path)
    second = [one for one in _patiently(later, replica.position) if isinstance(one, Transaction) and one.changes]
    assert first == second
    replica.apply(second)
    db.execute("INSERT INTO t VALUES (7, 'again')")
    replica.apply(drained(later, replica.position))
    replica.holds(later.query("SELECT id, a FROM t").rows)
    later.close()


def _die(source: PostgresSource) -> None:
    """As a process does: without a word."""
    stream = source._slot.stream
    assert stream is not None
    assert stream._replication is not None
    stream._replication._db.close()
    stream._disconnect()


def _ended(source: PostgresSource, after: int) -> SchemaChange:
    """What is told until the table is over; then it can be captured again, and is right again."""
    found: list[Any] = []
    until_s = time.monotonic() + _PATIENCE_S
    while not _ends(found):
        assert time.monotonic() < until_s
        try:
            found += source.changes(max([after, *(item.position for item in found)]), 0.05)
        except SourceError:
            time.sleep(0.02)
    return _ends(found)[0]


def _goes_on(source: PostgresSource, db: Db) -> None:
    source.capture("t")
    replica = Replica(source, "t")
    db.execute("UPDATE t SET a = 'again' WHERE id < 10")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT id, a FROM t").rows)


def test_a_slot_dropped_by_hand(source: PostgresSource, db: Db) -> None:
    """What was committed meanwhile is lost: that is said, and the table may be captured anew."""
    replica = _started(source, db)
    drained(source, replica.position)
    _cut(db)
    _wait(lambda: _dropped(db))
    db.execute("DELETE FROM t WHERE id = 3")
    ended = _ended(source, replica.position)
    assert "the changes since then are lost" in ended.reason
    assert ended.lost
    _goes_on(source, db)


def test_a_slot_dropped_while_we_were_away(source: PostgresSource, db: Db, url: str, tmp_path: Path) -> None:
    replica = _started(source, db)
    replica.apply(drained(source, replica.position))
    source.forget(replica.position)
    source.close()
    _wait(lambda: _dropped(db))
    db.execute("DELETE FROM t WHERE id = 3")
    for _ in range(2):  # what it knows of the table is not forgotten before the end of it is durable
        again = PostgresSource(url)
        again.attach(tmp_path)
        with pytest.raises(ChangesLost, match="was dropped; the changes since then are lost"):
            again.capture("t")
        again.close()
    again = PostgresSource(url)
    again.attach(tmp_path)
    again.changes(again.position(), 0)
    _goes_on(again, db)
    again.close()


def test_a_publication_dropped_by_hand(source: PostgresSource, db: Db, tmp_path: Path) -> None:
    replica = _started(source, db)
    drained(source, replica.position)
    db.execute(f"DROP PUBLICATION {name_for(tmp_path)}".encode())
    db.execute("DELETE FROM t WHERE id = 3")
    assert name_for(tmp_path) in _ended(source, replica.position).reason
    _goes_on(source, db)


def test_a_slot_that_holds_back_too_much_is_let_go_of(source: PostgresSource, db: Db) -> None:
    replica = _started(source, db)
    drained(source, replica.position)
    db.execute("UPDATE t SET a = repeat('x', 1000)")
    assert source.lag_bytes() > 1000
    source.abandon("too much was kept for us")
    assert db.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()").fetchone() == (
        0,
    )
    assert "too much was kept for us" in _ended(source, replica.position).reason
    assert source.lag_bytes() == 0
    _goes_on(source, db)


def test_an_idle_database_holds_back_nothing(source: PostgresSource, db: Db, server: Postgres, tmp_path: Path) -> None:
    """Others write to the same server: what is not ours is acknowledged as it passes, with no commit of ours."""
    replica = _started(source, db)
    after = max([replica.position, *(item.position for item in drained(source, replica.position))])
    source.forget(after)
    with server.connect() as elsewhere:
        elsewhere.execute("CREATE TABLE busy AS SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n")
        elsewhere.execute("DROP TABLE busy")
    written = source.position()
    until_s = time.monotonic() + _PATIENCE_S
    while _confirmed(db, tmp_path) < written:
        assert time.monotonic() < until_s
        after = max([after, *(item.position for item in source.changes(after, 0.1))])


def _dropped(db: Db) -> bool:
    try:
        db.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'headwater%'"
        )
    except psycopg.errors.ObjectInUse:
        return False
    return True


def test_a_table_taken_out_of_the_publication(source: PostgresSource, db: Db, tmp_path: Path) -> None:
    replica = _started(source, db)
    db.execute(f"ALTER PUBLICATION {name_for(tmp_path)} DROP TABLE t".encode())
    ended = _ended(source, replica.position)
    assert "publication" in ended.reason
    assert ended.lost
    source.capture("t")
    replica = Replica(source, "t")
    db.execute("DELETE FROM t WHERE id < 10")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT id, a FROM t").rows)


def _ends(items: list[Any]) -> list[SchemaChange]:
    return [item for item in items if isinstance(item, SchemaChange) and item.after is None]


def test_a_slot_left_over_from_a_lost_directory_goes(source: PostgresSource, db: Db, url: str, tmp_path: Path) -> None:
    _started(source, db)
    source.close()
    shutil.rmtree(tmp_path / DIRECTORY)
    fresh = PostgresSource(url)
    fresh.attach(tmp_path)
    assert db.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()").fetchone() == (
        0,
    )
    fresh.close()


def test_detaching_takes_slots_and_publications(source: PostgresSource, db: Db, tmp_path: Path) -> None:
    _started(source, db)
    name = name_for(tmp_path)
    removed = [f"replication slot {name}", f"publication {name}", "event trigger headwater_ddl", "schema headwater"]
    assert source.detach() == removed
    for catalog in ("pg_publication", "pg_event_trigger"):
        assert db.execute(f"SELECT count(*) FROM {catalog}".encode()).fetchone() == (0,)


def test_detaching_while_somebody_reads_says_so(source: PostgresSource, db: Db, url: str, tmp_path: Path) -> None:
    _started(source, db)
    other = PostgresSource(url)
    with pytest.raises(SourceError, match=name_for(tmp_path)):
        other.detach()
    other.close()
    assert f"replication slot {name_for(tmp_path)}" in source.detach()


def test_a_server_that_cannot_be_reached() -> None:
    with pytest.raises(SourceError, match="could not be reached"):
        PostgresSource("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(SourceError, match="cannot be parsed"):
        PostgresSource("postgresql://[half")
