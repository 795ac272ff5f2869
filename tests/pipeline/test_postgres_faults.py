"""What may happen to a PostgreSQL server, to the network and to us: no change is lost and none is seen twice, or the
live query says why it begins anew, and does."""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.client.live import LiveResult
from headwater.model.emission import Diff, Emission, Result, apply
from headwater.model.errors import HeadwaterError
from headwater.model.limits import Limits
from headwater.sources.postgres.catalog.publication import name_for
from headwater.sources.postgres.wire import transaction_assembly
from tests.support.cutting import ROW_BYTES, ROWS, cut_readings
from tests.support.databases import Place, place, rows
from tests.support.postgres import VERSIONS, Postgres, Servers
from tests.support.processes import eventually, served
from tests.support.proxy import Proxy

SQL = "SELECT id, total FROM orders ORDER BY id"
_CREATE = "CREATE TABLE orders (id serial PRIMARY KEY, total int)"
_FILL = "INSERT INTO orders (total) SELECT n FROM generate_series(1, 20) n"
_SMALL = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "2MB", "min_wal_size": "2MB", "wal_keep_size": "0"}
NEWEST = pytest.mark.parametrize("server", VERSIONS[-1:], indirect=True)  # processes of our own take a while to start
_PATIENCE_S = 120.0
_SWEEP_S = 6.0


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Postgres:
    return servers[request.param]


@pytest.fixture
def url(server: Postgres) -> Iterator[str]:
    with server.database() as database:
        with server.connect(database) as db:
            db.execute(_CREATE)
            db.execute(_FILL)
        yield server.url(database)


class Following:
    """A live query and all that it was told: each emission follows from the one before, to the rows it has."""

    def __init__(self, live: LiveResult) -> None:
        self.live = live
        self._state, self._told = live.snapshot, list[Emission | None]()
        self._stop = live.listen(self._told.append)

    def agrees(self, url: str) -> None:
        """With the database, once everything has arrived; and with what was told on the way."""
        with psycopg.connect(url) as db:
            there = [{"id": id, "total": total} for id, total in db.execute(SQL.encode())]
        eventually(lambda: rows(self.live) == there, _PATIENCE_S)
        with self.live._changed:  # rows can be seen a moment before they are told
            self._stop()
        for emission in self._told:
            assert emission is not None
            self._state = apply(self._state, emission)
        assert [dict(row) for row in self._state.rows] == there


def _written(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            db.execute(statement.encode())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_a_server_that_restarts(url: str, server: Postgres, tmp_path: Path, how: signal.Signals) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        following = Following(db.query(SQL, live=True))
        _written(url, "UPDATE orders SET total = 0 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
        server.stop(how)
        server.start()
        _written(url, "UPDATE orders SET total = total + 100", "INSERT INTO orders (total) VALUES (7)")
        following.agrees(url)


def test_a_network_that_is_cut_in_the_middle_of_transactions(url: str, server: Postgres, tmp_path: Path) -> None:
    with Proxy(server.port) as proxy:
        through = url.replace(f":{server.port}/", f":{proxy.port}/")
        with headwater.connect(through, runner="inline", data_dir=tmp_path) as db:
            following = Following(db.query(SQL, live=True))
            with psycopg.connect(url) as writer:
                for turn in range(4):
                    writer.execute(
                        "INSERT INTO orders (total) SELECT n FROM generate_series(1, 2000) n WHERE %s >= 0", (turn,)
                    )
                    eventually(proxy.cut)
                    if turn % 2:
                        writer.commit()
                    time.sleep(0.05)
            following.agrees(url)


def test_our_process_is_killed(url: str, tmp_path: Path) -> None:
    with served(url, tmp_path, runner="inline") as ours, headwater.connect(ours.url) as db:
        following = Following(db.query(SQL, live=True))
        writing = threading.Thread(target=_busy, args=(url,))
        writing.start()
        eventually(lambda: rows(following.live)[0]["total"] > 1)
        ours.kill()
        ours.start()
        writing.join()
        following.agrees(url)


def _busy(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        for n in range(100):
            db.execute("UPDATE orders SET total = total + 1 WHERE id = %s", (1 + n % 20,))
            db.execute("INSERT INTO orders (total) VALUES (%s)", (n,))
            time.sleep(0.01)


def test_a_disk_that_is_full(url: str, tmp_path: Path) -> None:
    """No file of our process may grow: it says so. When there is room again, it goes on by itself where it was."""
    with served(url, tmp_path, runner="inline") as ours, headwater.connect(ours.url) as db:
        following = Following(db.query(SQL, live=True))
        room = resource.prlimit(ours.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(ours.pid, resource.RLIMIT_FSIZE, (512, room[1]))
        _written(url, "UPDATE orders SET total = total + 100", "INSERT INTO orders (total) VALUES (7)")
        eventually(lambda: "could not be written" in str(ours.status()["failure"]) or "no more" in str(ours.status()))
        _written(url, "DELETE FROM orders WHERE id = 2")
        time.sleep(_SWEEP_S)  # what is cleared away now and then meets the full disk too
        resource.prlimit(ours.pid, resource.RLIMIT_FSIZE, room)
        _written(url, "UPDATE orders SET total = total + 1 WHERE id = 5")
        following.agrees(url)
        eventually(lambda: ours.status()["failure"] is None)
        db.query("SELECT count(*) AS n FROM orders", live=True)


@dataclass(slots=True)
class Resynced:
    """A live query that is told the reason why it begins anew, and what it was told from then on."""

    live: LiveResult
    reasons: list[str] = field(default_factory=list)
    told: list[Emission | None] = field(default_factory=list)

    @classmethod
    def of(cls, live: LiveResult, monkeypatch: pytest.MonkeyPatch) -> Resynced:
        here, resync = cls(live), live.resync

        def resynced(reason: str) -> None:
            resync(reason)
            here.reasons.append(reason)

        monkeypatch.setattr(live, "resync", resynced)
        live.listen(here.told.append)
        return here

    def once(self, url: str, reason: str) -> None:
        """One reason, then one fresh result; from there on it goes on as before."""
        eventually(lambda: self.reasons and self._is_fresh(), _PATIENCE_S)
        [said] = self.reasons
        assert reason in said
        assert (self.live.resyncs, self.live.reason) == (1, None)
        fresh = len(self.told)
        assert [type(one) for one in self.told if not isinstance(one, Diff)] == [type(self.told[-1])] == [Result]
        Following(self.live).agrees(url)
        following = Following(self.live)
        _written(url, "UPDATE orders SET total = total + 1 WHERE id < 5", "INSERT INTO orders (total) VALUES (1)")
        following.agrees(url)
        assert {type(one) for one in self.told[fresh:]} == {Diff}

    def _is_fresh(self) -> bool:
        return self.live.state == "ready" and any(isinstance(one, Result) for one in self.told)


def _slot_dropped(url: str) -> bool:
    slots = "FROM pg_replication_slots WHERE database = current_database()"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"SELECT pg_terminate_backend(active_pid) {slots}".encode())
        try:
            db.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}".encode())
        except psycopg.errors.ObjectInUse:
            return False
    return True


def _again(db: Any, url: str) -> None:
    following = Following(db.query(SQL, live=True))
    _written(url, "UPDATE orders SET total = total + 1 WHERE id < 5")
    following.agrees(url)


@pytest.mark.parametrize(
    ("way", "sql"),
    [
        ("embedded", SQL),
        ("ws", "SELECT id, max(total) OVER (PARTITION BY id) AS total FROM orders ORDER BY id"),
    ],
    ids=["followed", "answered"],
)
def test_a_slot_that_is_dropped_by_hand(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, sql: str
) -> None:
    """Followed by us or answered by the origin, here or over a WebSocket: the same live query goes on."""
    with place(way, tmp_path, url=url) as here:
        _loses_its_slot(here, url, Resynced.of(here.db.query(sql, live=True), monkeypatch))


@pytest.mark.spark
@NEWEST
def test_through_spark_too_a_slot_that_is_dropped_by_hand(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place("embedded", tmp_path, url=url, runner="spark") as here:
        _loses_its_slot(here, url, Resynced.of(here.db.query(SQL, live=True), monkeypatch))


def _loses_its_slot(here: Place, url: str, resynced: Resynced) -> None:
    with here.server.pipeline.capture.lock:  # nothing begins anew before something was lost
        eventually(lambda: _slot_dropped(url))
        _written(url, "DELETE FROM orders WHERE id = 3")
    resynced.once(url, "slot")


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_slot_that_the_server_takes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Overtaken by `max_slot_wal_keep_size`, for real."""
    server = Postgres(version, _SMALL, segment_mib=1)
    try:
        server.start()
        _written(server.url(), _CREATE, _FILL)
        with place("embedded", tmp_path, url=server.url()) as here:
            resynced = Resynced.of(here.db.query(SQL, live=True), monkeypatch)
            with here.server.pipeline.capture.lock:  # nothing is taken over
                _overtake(server.url())
            resynced.once(server.url(), "invalidated by a limit")
    finally:
        server.remove()


def _overtake(url: str) -> None:
    _written(url, "CREATE TABLE other (n int, filler text)", "DELETE FROM orders WHERE id = 3")
    fill = "INSERT INTO other SELECT n, repeat('x', 500) FROM generate_series(1, 5000) n"
    with psycopg.connect(url, autocommit=True) as db:
        status = "SELECT wal_status FROM pg_replication_slots"
        for _ in range(20):
            if db.execute(status.encode()).fetchall() == [("lost",)]:
                return
            for statement in (fill, "SELECT pg_switch_wal()", "CHECKPOINT"):
                db.execute(statement.encode())
    raise AssertionError("the slot was never lost")


def test_two_queries_whose_origin_cannot_be_reached_for_a_while(
    server: Postgres, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join of two lost tables among them. A table that is gone by then ends its query, and no other."""
    _written(url, "CREATE TABLE notes (id int PRIMARY KEY, note text)", "INSERT INTO notes VALUES (1, 'one')")
    with place("embedded", tmp_path, url=url) as here:
        resynced = Resynced.of(here.db.query(SQL, live=True), monkeypatch)
        joined = here.db.query("SELECT o.id, o.total, n.note FROM orders o JOIN notes n ON n.id = o.id", live=True)
        capture = here.server.pipeline.capture
        with capture.lock:
            eventually(lambda: _slot_dropped(url))
            _written(url, "UPDATE orders SET total = 77 WHERE id = 1")
            server.stop()
        eventually(lambda: capture.failure or resynced.reasons)  # the server is gone, or the slot was before it
        server.start()
        resynced.once(url, "slot")
        eventually(lambda: joined.state == "ready" and rows(joined) == [{"id": 1, "total": 78, "note": "one"}])


def test_a_slot_that_is_dropped_while_we_are_away(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        db.query(SQL, live=True)
    eventually(lambda: _slot_dropped(url))
    _written(url, "DELETE FROM orders WHERE id = 3")
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        _again(db, url)


@NEWEST
def test_a_slot_that_is_dropped_while_we_are_down_and_clients_wait(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come back with the `seq` they had, and nothing follows from it any more."""
    with served(url, tmp_path, runner="inline") as ours, headwater.connect(ours.url) as db:
        live = db.query(SQL, live=True)
        _written(url, "UPDATE orders SET total = 5 WHERE id = 1")
        Following(live).agrees(url)
        ours.kill()
        eventually(lambda: _slot_dropped(url))
        _written(url, "DELETE FROM orders WHERE id = 3")
        ours.start()
        Following(live).agrees(url)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP PUBLICATION {}",
        "ALTER PUBLICATION {} DROP TABLE orders",
        "ALTER PUBLICATION {} SET (publish = 'insert, update')",
        "ALTER PUBLICATION {} SET (publish_via_partition_root = false)",
        "ALTER PUBLICATION {} SET TABLE orders WHERE (id < 3)",
        "ALTER PUBLICATION {} SET TABLE orders (id, total)",
    ],
)
def test_a_publication_that_somebody_else_alters(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    with place("embedded", tmp_path, url=url) as here:
        resynced = Resynced.of(here.db.query(SQL, live=True), monkeypatch)
        with here.server.pipeline.capture.lock:
            _written(url, statement.format(name_for(tmp_path)), "DELETE FROM orders WHERE id = 3")
        resynced.once(url, "publication")


def test_a_slot_that_holds_back_more_than_the_limit(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place("embedded", tmp_path, url=url, limits=Limits(slot_lag_bytes_max=200_000)) as here:
        resynced = Resynced.of(here.db.query(SQL, live=True), monkeypatch)
        pipeline = here.server.pipeline
        pipeline._retention.stop()  # nobody else looks
        with pipeline.capture.lock:  # nothing is taken over
            _written(url, "INSERT INTO orders (total) SELECT n FROM generate_series(1, 5000) n")
            pipeline.watch_lag()
            assert here.db.status()["source_lag_bytes"] > 200_000
        resynced.once(url, "more than 200,000")

        def is_freed() -> bool:
            """What the retention would do: a vacuum of the server's own may have written as much meanwhile."""
            pipeline.source.forget(pipeline.capture.position)
            return pipeline.source.lag_bytes() < 200_000

        eventually(is_freed)
        pipeline.watch_lag()
        assert here.db.status()["source_lag_bytes"] < 200_000


def test_a_transaction_that_is_larger_than_the_limit(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_assembly, "TRANSACTION_BYTES_MAX", 50_000)
    monkeypatch.setattr(transaction_assembly, "HELD_BYTES_MAX", 10_000)
    with place("embedded", tmp_path, url=url) as here:
        resynced = Resynced.of(here.db.query(SQL, live=True), monkeypatch)
        _written(url, "INSERT INTO orders (total) SELECT n FROM generate_series(1, 5000) n")
        resynced.once(url, "larger than the limit of 50,000 bytes")


def test_a_table_that_is_gone_when_it_shall_begin_anew(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path, url=url) as here:
        live = here.db.query(SQL, live=True)
        with here.server.pipeline.capture.lock:
            eventually(lambda: _slot_dropped(url))
            _written(url, "DROP TABLE orders")
        eventually(lambda: live.state == "closed", _PATIENCE_S)
        assert "orders" in str(live.reason)


def test_a_first_read_that_is_interrupted(url: str, tmp_path: Path) -> None:
    """The connection that reads the rows is cut: the subscriber hears of it, and the next one finds all of it right."""
    filled = f"SELECT n, repeat('x', {ROW_BYTES}) FROM generate_series(1, {ROWS}) n"
    _written(url, "ALTER TABLE orders ADD filler text", f"INSERT INTO orders (total, filler) {filled}")
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        with cut_readings(url), pytest.raises(HeadwaterError):
            db.query("SELECT count(*) AS n FROM orders", live=True)
        _written(url, "DELETE FROM orders WHERE id > 25", "UPDATE orders SET total = total + 100")
        _again(db, url)
