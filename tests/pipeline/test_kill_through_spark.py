"""Law 7 through Spark, with every strategy live at once: server, JVM and worker are killed at random moments under
load, in a random order. Clients resume, nothing is lost, nothing is applied twice, and nothing outlives the server."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import headwater
from tests.pipeline.test_faults import kill_server, kill_worker
from tests.pipeline.test_kill_all_strategies import QUERIES, Load, Watched, check_all, fill, until_all_move
from tests.support.processes import Served, descendants, eventually, jvm_of, served

ROUNDS = max(1, int(os.environ.get("HEADWATER_KILLS", "5")) // 5)
RESTART_S = 600.0  # of a JVM, on a machine that is busy with other things


def kill_jvm(server: Served) -> None:
    killed = jvm_of(server.pid)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: not server.health()["ok"])
    eventually(lambda: server.health()["ok"], RESTART_S)
    assert jvm_of(server.pid) != killed


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_after_kills_of_any_part_every_strategy_has_the_rows_of_the_database(tmp_path: Path) -> None:
    moments = random.Random(11)
    path = tmp_path / "bank.db"
    connect = partial(sqlite3.connect, path, isolation_level=None, timeout=60)
    with closing(connect()) as db:
        db.execute("PRAGMA journal_mode = WAL")
        fill(db)
    with served(path, tmp_path / "data", runner="spark") as server, headwater.connect(server.url) as ours:
        lives = {sql.format(quote="json_quote(bal)"): strategy for sql, strategy in QUERIES.items()}
        watched = {sql: Watched(ours.query(sql, live=True), strategy) for sql, strategy in lives.items()}
        load = Load(connect)
        try:
            for _ in range(ROUNDS):
                for kill in moments.sample([kill_worker, kill_jvm, kill_server], 3):
                    until_all_move(watched)
                    time.sleep(moments.uniform(0.0, 0.5))
                    kill(server)
            until_all_move(watched)
        finally:
            load.stop()
        check_all(watched, ours.position(), connect)
        started = descendants(server.pid)
        os.kill(jvm_of(server.pid), signal.SIGKILL)
        server.terminate()
    eventually(lambda: not [pid for pid in started if Path(f"/proc/{pid}/exe").exists()])
