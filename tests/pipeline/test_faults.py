"""Law 7: `kill -9` of the server, and of a Spark worker alone, at random moments under load. Clients resume, nothing is
lost, nothing is applied twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.model.emission import Emission, Fields, Result
from headwater.plan.planner import effective_sql, plan
from headwater.sources import open_source
from tests.support import shop
from tests.support.oracle import same_rows
from tests.support.processes import Served, eventually, served, spawn_writer

KILLS = int(os.environ.get("HEADWATER_KILLS", "5"))
WATCHED = [0, 1, 3, 5, 8, 9, 12, 14, 18]


class Chain:
    """Every emission a subscription applied, checked as it comes."""

    def __init__(self, live: headwater.LiveResult) -> None:
        self.live, self.seqs, self.results = live, [live.seq], 0
        self.broken: list[str] = []
        live.listen(self._take)

    def _take(self, emission: Emission | None) -> None:
        if emission is None:
            self.broken.append(f"closed: {self.live.reason}")
            return
        if isinstance(emission, Result):
            self.results += 1
        elif emission.prev != self.seqs[-1]:
            self.broken.append(f"{emission.prev} does not follow {self.seqs[-1]}")
        if emission.seq in self.seqs:
            self.broken.append(f"{emission.seq} applied twice")
        self.seqs.append(emission.seq)


class Load:
    """Writers that go on while things break."""

    def __init__(self, path: Path) -> None:
        self._writers = [spawn_writer(path, writer, 100_000, 5, 0.01) for writer in (11, 12)]

    def stop(self) -> None:
        for writer in self._writers:
            writer.terminate()
        for writer in self._writers:
            writer.wait()


def kill_server(server: Served) -> None:
    server.kill()
    server.start()


def kill_worker(server: Served) -> None:
    before = server.status()["cells"][0]
    with contextlib.suppress(ProcessLookupError):
        os.kill(before["pid"], signal.SIGKILL)
    eventually(lambda: server.status()["cells"][0]["pid"] != before["pid"])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("runner", "kill", "kills"),
    [
        pytest.param("inline", kill_server, KILLS, id="server-inline"),
        pytest.param("spark", kill_worker, KILLS, id="worker-spark", marks=pytest.mark.spark),
        pytest.param("spark", kill_server, max(1, KILLS // 5), id="server-spark", marks=pytest.mark.spark),
    ],
)
def test_after_a_kill_clients_resume_and_miss_nothing(runner: str, kill: Any, kills: int, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    shop.create(path)
    moments = random.Random(7)
    with served(path, tmp_path / "data", runner=runner) as server:
        with headwater.connect(server.url) as db:
            lives = [db.query(*_asked(n), live=True) for n in WATCHED]
            chains = [Chain(live) for live in lives]
            load = Load(path)
            try:
                for _ in range(kills):
                    time.sleep(moments.uniform(0.2, 1.5))
                    kill(server)
                eventually(lambda: sum(len(chain.seqs) for chain in chains) > 50 * len(chains))
            finally:
                load.stop()
            position = open_position(path)
            eventually(lambda: all(live.state == "ready" and live.position >= position for live in lives))
            for n, live, chain in zip(WATCHED, lives, chains, strict=True):
                assert not chain.broken, f"query {n}: {chain.broken[:3]}"
                assert chain.results == 0, f"query {n} was sent {chain.results} fresh results instead of what it missed"
                expected, ordered = from_scratch(path, n)
                told = f"query {n} at {live.position}: {unlike(live.rows, expected)}"
                assert same_rows(live.rows, expected, ordered), told


def unlike(found: Sequence[Fields], expected: Sequence[Fields]) -> str:
    left, right = Counter(map(repr, found)), Counter(map(repr, expected))
    return f"too many {list((left - right).elements())[:5]}, missing {list((right - left).elements())[:5]}"


def _asked(n: int) -> tuple[Any, ...]:
    sql, params = shop.QUERIES[n]
    return (sql, *params)


def open_position(path: Path) -> int:
    source = open_source(f"sqlite:///{path}")
    try:
        return source.position()
    finally:
        source.close()


def from_scratch(path: Path, n: int) -> tuple[list[dict[str, Any]], bool]:
    source = open_source(f"sqlite:///{path}")
    tables = source.tables()
    source.close()
    sql, params = shop.QUERIES[n]
    planned = plan(sql, tables, params[0] if params and isinstance(params[0], dict) else params)
    with sqlite3.connect(path) as db:
        rows = db.execute(effective_sql(planned.template, planned.instance)).fetchall()
    db.close()
    names = [output.name for output in planned.template.outputs]
    return [dict(zip(names, row, strict=True)) for row in rows], planned.template.ordered


def test_two_servers_cannot_share_a_data_directory(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    shop.create(path)
    with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data"):
        with pytest.raises(headwater.HeadwaterError, match=r"the data directory .* is in use by process"):
            headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data")
