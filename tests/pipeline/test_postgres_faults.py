"""What may happen to a PostgreSQL server, to the network and to us: no change is lost and none is seen twice, or the
live query ends with the reason and may be subscribed anew."""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.client.live import LiveResult
from headwater.model.emission import Emission, apply
from headwater.model.errors import HeadwaterError
from headwater.model.limits import Limits
from headwater.sources.postgres.publishing import name_for
from tests.support.databases import place, rows
from tests.support.postgres import VERSIONS, Postgres, Servers
from tests.support.processes import eventually, served
from tests.support.proxy import Proxy

SQL = "SELECT id, total FROM orders ORDER BY id"
NEWEST = pytest.mark.parametrize("server", VERSIONS[-1:], indirect=True)  # processes of our own take a while to start
_PATIENCE_S = 30.0


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Postgres:
    return servers[request.param]


@pytest.fixture
def url(server: Postgres) -> Iterator[str]:
    with server.database() as database:
        with server.connect(database) as db:
            db.execute("CREATE TABLE orders (id serial PRIMARY KEY, total int)")
            db.execute("INSERT INTO orders (total) SELECT n FROM generate_series(1, 20) n")
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


@NEWEST
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


@NEWEST
def test_a_disk_that_is_full(url: str, tmp_path: Path) -> None:
    """No file of our process may grow: it says so. Started again when there is room, it goes on where it was."""
    with served(url, tmp_path, runner="inline") as ours, headwater.connect(ours.url) as db:
        following = Following(db.query(SQL, live=True))
        resource.prlimit(ours.pid, resource.RLIMIT_FSIZE, (512, 512))
        _written(url, "UPDATE orders SET total = total + 100", "INSERT INTO orders (total) VALUES (7)")
        eventually(lambda: "could not be written" in str(ours.status()["failure"]) or "no more" in str(ours.status()))
        _written(url, "DELETE FROM orders WHERE id = 2")
        ours.kill()
        ours.start()
        following.agrees(url)
        assert ours.status()["failure"] is None


def _closed(live: LiveResult) -> str:
    eventually(lambda: live.state == "closed", _PATIENCE_S)
    assert live.reason is not None
    return live.reason


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


def test_a_slot_that_is_dropped_by_hand(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        live = db.query(SQL, live=True)
        eventually(lambda: _slot_dropped(url))
        _written(url, "DELETE FROM orders WHERE id = 3")
        assert "slot" in _closed(live)
        _again(db, url)


def test_a_slot_that_is_dropped_while_we_are_away(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        db.query(SQL, live=True)
    eventually(lambda: _slot_dropped(url))
    _written(url, "DELETE FROM orders WHERE id = 3")
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        _again(db, url)


@pytest.mark.parametrize("statement", ["DROP PUBLICATION {}", "ALTER PUBLICATION {} DROP TABLE orders"])
def test_a_publication_that_somebody_else_alters(url: str, tmp_path: Path, statement: str) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        live = db.query(SQL, live=True)
        _written(url, statement.format(name_for(tmp_path)), "DELETE FROM orders WHERE id = 3")
        assert "publication" in _closed(live)
        _again(db, url)


def test_a_slot_that_holds_back_more_than_the_limit(url: str, tmp_path: Path) -> None:
    with place("embedded", tmp_path, url=url, limits=Limits(slot_lag_bytes_max=200_000)) as here:
        live = here.db.query(SQL, live=True)
        pipeline = here.server.pipeline
        with pipeline.capture.lock:  # nothing is taken over
            _written(url, "INSERT INTO orders (total) SELECT n FROM generate_series(1, 5000) n")
            pipeline.watch_lag()
            assert here.db.status()["source_lag_bytes"] > 200_000
        assert "more than 200,000" in _closed(live)
        assert "subscribe again" in str(live.reason)
        _again(here.db, url)
        pipeline.watch_lag()
        assert here.db.status()["source_lag_bytes"] < 200_000


def test_a_first_read_that_is_interrupted(url: str, tmp_path: Path) -> None:
    """The connection that reads the rows is cut: the subscriber hears of it, and the next one finds all of it right."""
    _written(url, "INSERT INTO orders (total) SELECT n FROM generate_series(1, 300000) n")
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        cutting = threading.Thread(target=_until_cut, args=(url,))
        cutting.start()
        with pytest.raises(HeadwaterError):
            db.query("SELECT count(*) AS n FROM orders", live=True)
        cutting.join()
        _written(url, "DELETE FROM orders WHERE id > 25")
        _again(db, url)


def _until_cut(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%' AND state = 'active'"
        _soon(lambda: db.execute(cut.encode()).fetchone() is not None)


def _soon(done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < until_s
