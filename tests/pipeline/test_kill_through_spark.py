"""Law 7 through Spark, with every strategy live at once, on both databases: server, JVM and worker are killed at random
moments under load, in a random order. Clients resume, nothing is lost, nothing is applied twice, and nothing outlives
the server."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

import headwater
from tests.pipeline.test_faults import kill_server, kill_worker
from tests.pipeline.test_kill_all_strategies import DATABASES, QUERIES, Load, Watched, check_all, fill, until_all_move
from tests.support.postgres import Servers
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
@pytest.mark.parametrize("kind", DATABASES)
def test_after_kills_of_any_part_every_strategy_has_the_rows_of_the_database(
    kind: str, tmp_path: Path, servers: Servers
) -> None:
    with DATABASES[kind](tmp_path, servers) as (url, connect, quote):
        with closing(connect()) as db:
            fill(db)
        with served(url, tmp_path / "data", runner="spark") as server, headwater.connect(server.url) as ours:
            lives = {sql.format(quote=quote): strategy for sql, strategy in QUERIES.items()}
            watched = {sql: Watched(ours.query(sql, live=True), strategy) for sql, strategy in lives.items()}
            load = Load(connect)
            try:
                kill_each(server, watched)
            finally:
                load.stop()
            check_all(watched, ours.position(), connect)
            started = descendants(server.pid)
            os.kill(jvm_of(server.pid), signal.SIGKILL)
            server.terminate()
    eventually(lambda: not [pid for pid in started if Path(f"/proc/{pid}/exe").exists()])


def kill_each(server: Served, watched: dict[str, Watched]) -> None:
    moments = random.Random(11)
    for _ in range(ROUNDS):
        for kill in moments.sample([kill_worker, kill_jvm, kill_server], 3):
            until_all_move(watched)
            time.sleep(moments.uniform(0.0, 0.5))
            kill(server)
    until_all_move(watched)
