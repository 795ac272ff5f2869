"""Law 7 with every strategy live at once: `kill -9` of the server at random moments under load, on both databases.

Every other kill is at a moment that was found the hardest: the log ends with an answer that is older than a transaction
before it. The server is stopped, looked at, and goes on where it is not so."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader
from headwater.model.emission import Emission
from headwater.pipeline.capture import _position_of
from headwater.pipeline.data_dir.layout import Layout
from tests.pipeline.test_faults import Chain, kill_server, unlike
from tests.support.oracle import same_rows
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import Served, eventually, served

KILLS = max(1, int(os.environ.get("HEADWATER_KILLS", "5")) * 2 // 5)
ACCOUNTS, BRANCHES, BALANCE = 100, 5, 100
GROUPS = "SELECT b, sum(bal) AS s FROM acct GROUP BY b"
QUERIES = {
    GROUPS: "incremental",
    "SELECT id, bal FROM acct ORDER BY bal DESC, id LIMIT 20": "incremental",
    "SELECT a.id, a.bal, n.name FROM acct a JOIN branch n ON n.id = a.b": "incremental",
    "SELECT id, {quote} AS q FROM acct": "selective",
    "SELECT a.id, n.name, {quote} AS q FROM acct a LEFT JOIN branch n ON n.id = a.b": "selective",
    "SELECT id, rank() OVER (ORDER BY bal DESC, id) AS r FROM acct": "requery",
    "SELECT id, sum(bal) OVER (PARTITION BY b) AS s FROM acct": "requery",
}
SCHEMA = (
    "CREATE TABLE acct (id INTEGER PRIMARY KEY, b INTEGER, bal INTEGER)",
    "CREATE TABLE branch (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE history (id INTEGER PRIMARY KEY, moved INTEGER)",
)
Connect = Callable[[], Any]


class Load:
    """One writer that moves money between accounts, and renames branches: the total never changes. It begins and ends
    its transactions itself."""

    def __init__(self, connect: Connect) -> None:
        self.connect, self._stop = connect, threading.Event()
        self._random, self._thread = random.Random(5), threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with closing(self.connect()) as db:
            for turn in range(1_000_000_000):
                self._moved(db, turn)
                if self._stop.wait(0.005):
                    return

    def _moved(self, db: Any, turn: int) -> None:
        amount, accounts = self._random.randint(1, 9), [self._random.randint(1, ACCOUNTS) for _ in range(2)]
        db.execute("BEGIN")
        for account, by in zip(accounts, (-amount, amount), strict=True):
            db.execute(f"UPDATE acct SET bal = bal + {by} WHERE id = {account}")
        if turn % 7 == 0:
            db.execute(f"UPDATE branch SET name = 'n{turn}' WHERE id = {turn % BRANCHES}")
        db.execute(f"INSERT INTO history VALUES ({turn}, {amount})")
        db.execute("COMMIT")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def fill(db: Any) -> None:
    for statement in SCHEMA:
        db.execute(statement)
    for account in range(1, ACCOUNTS + 1):
        db.execute(f"INSERT INTO acct VALUES ({account}, {account % BRANCHES}, {BALANCE})")
    for branch in range(BRANCHES):
        db.execute(f"INSERT INTO branch VALUES ({branch}, 'n')")


@contextlib.contextmanager
def _sqlite(here: Path, _: Servers) -> Iterator[tuple[str, Connect, str]]:
    path = here / "bank.db"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None, timeout=60)

    with closing(connect()) as db:
        db.execute("PRAGMA journal_mode = WAL")
    yield f"sqlite:///{path}", connect, "json_quote(bal)"


@contextlib.contextmanager
def _postgres(_: Path, servers: Servers) -> Iterator[tuple[str, Connect, str]]:
    server = servers[VERSIONS[-1]]
    with server.database() as database:
        yield server.url(database), lambda: psycopg.connect(server.url(database), autocommit=True), "to_hex(bal)"


DATABASES = {"sqlite": _sqlite, "postgres": _postgres}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", DATABASES)
def test_after_kills_every_strategy_has_the_rows_of_the_database(kind: str, tmp_path: Path, servers: Servers) -> None:
    moments = random.Random(3)
    with DATABASES[kind](tmp_path, servers) as (url, connect, quote):
        with closing(connect()) as db:
            fill(db)
        with served(url, tmp_path / "data", runner="inline") as server, headwater.connect(server.url) as ours:
            lives = {sql.format(quote=quote): strategy for sql, strategy in QUERIES.items()}
            watched = {sql: Watched(ours.query(sql, live=True), strategy) for sql, strategy in lives.items()}
            load = Load(connect)
            try:
                for kill in range(KILLS):
                    until_all_move(watched)
                    time.sleep(moments.uniform(0.0, 0.5))
                    if kill % 2 == 0:
                        _stop_at_an_old_answer(server, Layout(tmp_path / "data").log, moments)
                    kill_server(server)
                until_all_move(watched)
            finally:
                load.stop()
            check_all(watched, ours.position(), connect)


class Enduring(Load):
    """Goes on with a new connection when the database went away; the transaction it was in may have been committed."""

    def _run(self) -> None:
        turns = itertools.count()
        while not self._stop.wait(0.005):
            with contextlib.suppress(psycopg.OperationalError), closing(self.connect()) as db:
                while not self._stop.wait(0.005):
                    self._moved(db, next(turns))


@pytest.mark.timeout(900)
def test_after_crashes_of_the_database_every_strategy_has_its_rows(tmp_path: Path, servers: Servers) -> None:
    moments, database = random.Random(4), servers[VERSIONS[-1]]
    with _postgres(tmp_path, servers) as (url, connect, quote):
        with closing(connect()) as db:
            fill(db)
        with headwater.connect(url, runner="inline", data_dir=tmp_path / "data") as ours:
            lives = {sql.format(quote=quote): strategy for sql, strategy in QUERIES.items()}
            watched = {sql: Watched(ours.query(sql, live=True), strategy) for sql, strategy in lives.items()}
            load = Enduring(connect)
            try:
                for _ in range(KILLS):
                    until_all_move(watched)
                    time.sleep(moments.uniform(0.0, 0.5))
                    database.stop(signal.SIGQUIT)
                    eventually(lambda: all(one.live.state == "stale" for one in watched.values()))
                    database.start()
                until_all_move(watched)
            finally:
                load.stop()
            check_all(watched, eventually(lambda: _position(ours)), connect)
            eventually(lambda: all(one.live.state == "ready" for one in watched.values()))


def _position(db: headwater.Database) -> int | None:
    """None over a connection that the crash has cut."""
    with contextlib.suppress(headwater.SourceError):
        return db.position()
    return None


class Watched:
    def __init__(self, live: headwater.LiveResult, strategy: str) -> None:
        assert live.strategy == strategy, f"{live.sql} is {live.strategy}"
        self.live, self.strategy, self.chain, self.emissions = live, strategy, Chain(live), 0
        self.totals: set[int] = set()
        live.listen(self._take)

    def _take(self, emission: Emission | None) -> None:
        self.emissions += 1
        if self.live.sql == GROUPS:
            self.totals.add(sum(int(str(row["s"])) for row in self.live.rows))

    def check(self, connect: Connect, sql: str) -> None:
        assert not self.chain.broken, f"{sql}: {self.chain.broken[:3]}"
        assert self.totals <= {ACCOUNTS * BALANCE}, f"half of a transaction was shown: {self.totals}"
        with closing(connect()) as db:
            cursor = db.execute(sql)
            names = [column[0] for column in cursor.description]
            expected = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        assert same_rows(self.live.rows, expected, "LIMIT" in sql), f"{sql}: {unlike(self.live.rows, expected)}"


def check_all(watched: dict[str, Watched], position: int, connect: Connect) -> None:
    for one in watched.values():
        assert one.live.wait(position), f"{one.live.sql}: {one.live.state}, {one.live.reason}"
    for sql, one in watched.items():
        one.check(connect, sql)


def _stop_at_an_old_answer(server: Served, log: Path, moments: random.Random) -> None:
    with closing(SegmentReader(log)) as reader:
        reached = 0

        def stopped() -> bool:
            nonlocal reached
            os.kill(server.pid, signal.SIGSTOP)
            told = -1
            while records := reader.poll():
                positions = [_position_of(record) for record in records]
                reached = max(reached, *(one for one in positions if one is not None), 0)
                told = positions[-1] if positions[-1] is not None and records[-1].kind is Kind.ANSWER else -1
            if 0 < told < reached:
                return True
            os.kill(server.pid, signal.SIGCONT)
            time.sleep(moments.uniform(0.0, 0.03))
            return False

        eventually(stopped)


def until_all_move(watched: dict[str, Watched]) -> None:
    """A kill tells something only where every query was being followed."""
    before = {sql: one.emissions for sql, one in watched.items()}
    eventually(lambda: all(one.emissions > before[sql] + 3 for sql, one in watched.items()))
