"""`./dev bench neighbours`: what a quiet subscriber notices while another client asks for much.

The quiet one has a process, a socket and a table of its own; another process writes there 50 times a second. Told is
how long after its commit a change came: p99 before the attack, and while it goes on. Four times a second somebody new
connects and subscribes: told is how long nine in ten of them wait for their first result. Every attack meets a new
gateway.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import attacks, commits
from bench.gateway import gateway
from bench.listeners import audience
from bench.newcomers import Newcomers, Waited
from bench.writer import write_steadily

_RATE, _ORDERS = 50.0, 718
_WARM_S = 3.0
_NEW_S = 0.25
_BAR = 3.0
_BEFORE, _DURING = ("p50 before", "p99 before"), ("p50 during", "p99 during", "worst during")
_COLUMNS = (*_BEFORE, *_DURING, "first before", "first during")
_console = Console()


@dataclass(frozen=True, slots=True)
class Noticed:
    attack: str
    p50_before_ms: float
    p99_before_ms: float
    p50_during_ms: float
    p99_during_ms: float
    worst_during_ms: float
    first_before_ms: float
    first_during_ms: float
    told: dict[str, int]

    @property
    def ratio(self) -> float:
        return self.p99_during_ms / self.p99_before_ms


def run(seconds: float, out: Path) -> None:
    noticed = [_noticed(name, seconds) for name in attacks.ATTACKS]
    _print(noticed)
    (out / "neighbours.json").write_text(json.dumps([asdict(one) for one in noticed], indent=1))


def _noticed(name: str, seconds: float) -> Noticed:
    with _console.status(f"{name} …"), tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "bench.db"
        _create(path)
        with gateway(path, Path(scratch) / "data") as served, audience(served.url, 1, 1) as listening:
            writer = threading.Thread(target=write_steadily, args=(path, _WARM_S + 2 * seconds, _RATE))
            newcomers = Newcomers(served.url, _NEW_S)
            writer.start()
            newcomers.start()
            time.sleep(_WARM_S)
            start = time.monotonic()
            time.sleep(seconds)
            began = time.monotonic()
            process = attacks.spawn(served.url, name, seconds)
            told, _ = process.communicate()
            end = time.monotonic()
            newcomers.stop()
            writer.join()
            time.sleep(1.0)
        heard = np.array(listening.heard)
    spans = (start, began), (began, end)
    before, during = (_late_ms(heard, *span) for span in spans)
    first_before, first_during = (_first_ms(newcomers.waited, *span) for span in spans)
    return Noticed(name, *before[:2], *during, first_before, first_during, json.loads(told))


def _create(path: Path) -> None:
    commits.create(path)
    db = sqlite3.connect(path)
    with db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER)")
        db.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(n, n % 50, n) for n in range(_ORDERS)])
    db.close()


def _late_ms(heard: np.ndarray, start: float, end: float) -> tuple[float, float, float]:
    """p50, p99 and the worst of what was committed within a span of time."""
    at, late = heard[:, 0], heard[:, 1] * 1000
    committed = at - late / 1000
    mine = late[(committed >= start) & (committed < end)]
    return float(np.percentile(mine, 50)), float(np.percentile(mine, 99)), float(mine.max())


def _first_ms(waited: list[Waited], start: float, end: float) -> float:
    """p90 of those who came within a span of time."""
    return float(np.percentile([took * 1000 for began, took in waited if start <= began < end], 90))


def _print(noticed: list[Noticed]) -> None:
    table = Table(title="ms from commit to changed row; of a new subscriber, to its first result")
    table.add_column("another client asks for")
    for name in (*_COLUMNS, "ratio of p99"):
        table.add_column(name, justify="right")
    for one in noticed:
        spans = (getattr(one, f"{name.replace(' ', '_')}_ms") for name in _COLUMNS)
        table.add_row(one.attack, *(f"{ms:.1f}" for ms in spans), f"{one.ratio:.1f}")
    _console.print(table)
    _console.print(f"worst ratio of p99: {max(one.ratio for one in noticed):.1f} (bar: at most {_BAR:.0f})")
