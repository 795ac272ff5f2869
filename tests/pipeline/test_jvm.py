"""Spark's JVM is killed, or hangs, while everything else goes on: it is started again, told of meanwhile, and neither
keeps the server from ending nor outlives it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import headwater
from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.gateway.server import Server
from headwater.model.limits import DEFAULT
from tests.support.processes import ROOT, Served, descendants, eventually, jvm_of, parent_of, served

RESTART_S = 600.0  # of a JVM, on a machine that is busy with other things
pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

QUERIES = {
    "incremental": "SELECT id, n FROM t WHERE n > 10",
    "selective": "SELECT id, json_quote(n) AS shown FROM t WHERE json_array(n) <> '[3]'",
    "requery": "SELECT id, n, row_number() OVER (ORDER BY n, id) AS place FROM t",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as db:
        db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        db.executemany("INSERT INTO t VALUES (?, ?)", [(n, n) for n in range(20)])
    db.close()
    return path


def write(path: Path, sql: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(sql)
    db.close()


def expected(path: Path, sql: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    try:
        return sorted(db.execute(sql).fetchall())
    finally:
        db.close()


def follow(db: Database, path: Path) -> None:
    """Every live query comes to the rows that the database has now."""
    for live in db._session.lives.values():
        assert live.wait(db.position()), f"{live.strategy}: {live.state}, {live.reason}"
        assert sorted(tuple(row.values()) for row in live.rows) == expected(path, live.sql)


@pytest.fixture
def server(path: Path, tmp_path: Path) -> Iterator[Served]:
    with served(path, tmp_path / "data", runner="spark") as server:
        yield server


def test_a_jvm_that_is_killed_is_started_again_and_nothing_outlives_the_server(server: Served, path: Path) -> None:
    with headwater.connect(server.url) as db:
        lives = {strategy: db.query(sql, live=True) for strategy, sql in QUERIES.items()}
        assert {strategy: live.strategy for strategy, live in lives.items()} == {one: one for one in QUERIES}
        killed = jvm_of(server.pid)
        os.kill(killed, signal.SIGKILL)
        write(path, "UPDATE t SET n = n + 5 WHERE id < 12")
        failed = eventually(lambda: (said := server.health())["failure"] and said)
        assert not failed["ok"]
        assert "JVM" in failed["failure"]
        eventually(lambda: server.health()["ok"], RESTART_S)
        assert jvm_of(server.pid) != killed
        follow(db, path)
        kill_daemon(server)
        write(path, "UPDATE t SET n = n + 5 WHERE id < 7")
        follow(db, path)
        assert [live.resyncs for live in lives.values()] == [0, 0, 0]
        started = descendants(server.pid)
        os.kill(jvm_of(server.pid), signal.SIGSTOP)
        server.terminate()
    eventually(lambda: not [pid for pid in started if Path(f"/proc/{pid}/exe").exists()])


def kill_daemon(server: Served) -> None:
    """The parent of Spark's Python workers, with them."""
    before = server.status()["cells"][0]["pid"]
    os.kill(parent_of(before), signal.SIGKILL)
    eventually(lambda: server.status()["cells"][0]["pid"] != before)


def test_a_jvm_that_hangs_is_told_of_killed_and_started_again(path: Path, tmp_path: Path) -> None:
    limits = replace(DEFAULT, jvm_silence_ms_max=6_000)
    server = Server(f"sqlite:///{path}", data_dir=tmp_path / "data", limits=limits).start()
    with Database(lambda session: Embedded(server, session)) as db:
        for sql in QUERIES.values():
            db.query(sql, live=True)
        stopped = jvm_of(os.getpid())
        os.kill(stopped, signal.SIGSTOP)
        eventually(lambda: "has not answered" in (db.status()["failure"] or ""))
        eventually(lambda: db.status()["failure"] is None, RESTART_S)
        assert jvm_of(os.getpid()) != stopped
        write(path, "UPDATE t SET n = n + 5 WHERE id < 12")
        follow(db, path)


GIVEN = """
import os, signal, sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
import headwater

session = SparkSession.builder.master("local[4,4]").config("spark.ui.enabled", "false").getOrCreate()
with headwater.connect(sys.argv[1], data_dir=sys.argv[2]) as db:
    live = db.query("SELECT id, n FROM t", live=True)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    try:
        live.wait(timeout=300)
    except headwater.HeadwaterError as error:
        print(live.state, error)
"""


def test_where_the_session_was_given_to_us_live_queries_end_with_the_reason(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", GIVEN, f"sqlite:///{path}", str(tmp_path / "data")]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "closed the live query is closed: the Spark session that Headwater was given has ended" in said
    assert "SIGKILL" in said
