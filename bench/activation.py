"""`./dev bench activation`: how long others are kept waiting while a large template comes to life.

One query is busy: another process commits to its table at a steady rate, and each commit is an emission. Meanwhile a
join of 300,000 orders with their customers, grouped, is subscribed to. Told are the gaps between the busy query's
emissions: in a quiet while, with the template built beside the cell, and with it built in the cell's own step.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.gateway.server import Server
from headwater.model.emission import Diff, Emission
from headwater.model.limits import DEFAULT, Limits

_ORDERS, _CUSTOMERS, _REGIONS = 300_000, 30_000, 3_000
_RATE = 200.0
_WARM_S, _SETTLE_S = 2.0, 1.0
_ROUNDS = 5
_QUIET = "nothing activates"
_BUSY = "SELECT id, committing FROM ticks"
_SLOW = """
SELECT c.region, count(*) AS orders, sum(o.amount + {n}) AS total
FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.region
"""
_SETUP = """
PRAGMA journal_mode = WAL;
CREATE TABLE ticks (id INTEGER PRIMARY KEY, committing REAL);
CREATE TABLE customers (id INTEGER PRIMARY KEY, region INTEGER, name TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, note TEXT);
"""
_console = Console()


@dataclass(slots=True)
class Seen:
    """When each emission of the busy query came."""

    at: list[float] = field(default_factory=list)

    def note(self, emission: Emission | None) -> None:
        if isinstance(emission, Diff):
            self.at.append(time.monotonic())


@dataclass(slots=True)
class Measured:
    """Of some spans of time: how long each was, in each the longest gap, and all gaps, in ms."""

    seconds: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    every: list[float] = field(default_factory=list)

    def add(self, seen: Seen, start: float, end: float) -> None:
        at = np.array(seen.at)
        inside = (at >= start) & (at <= end + _SETTLE_S)
        gaps = np.diff(at[inside]) * 1000
        self.seconds.append(end - start)
        self.gaps.append(float(gaps.max()))
        self.every += gaps.tolist()


def run(seconds: float, out: Path) -> None:
    ways = {"built beside": DEFAULT, "built in the cell": replace(DEFAULT, build_bytes_min=1 << 62)}
    measured: dict[str, Measured] = {_QUIET: Measured()}
    for name, limits in ways.items():
        measured[name] = Measured()
        with _console.status(f"{name} …"), _busy(limits) as (db, seen):
            for n in range(_ROUNDS):
                _quiet(measured[_QUIET], seen, seconds / _ROUNDS / 4)
                _activation(measured[name], seen, db, n)
    _print(measured)
    figures = {name: {"gaps_ms": one.gaps, "seconds": one.seconds} for name, one in measured.items()}
    (out / "activation.json").write_text(json.dumps(figures, indent=1))


def _quiet(measured: Measured, seen: Seen, seconds: float) -> None:
    start = time.monotonic()
    time.sleep(max(seconds, 1.0))
    measured.add(seen, start, time.monotonic() - _SETTLE_S)


def _activation(measured: Measured, seen: Seen, db: Database, n: int) -> None:
    start = time.monotonic()
    live = db.query(_SLOW.format(n=n), live=True, timeout=120)
    end = time.monotonic()
    time.sleep(_SETTLE_S)
    measured.add(seen, start, end)
    db.verify(live)
    live.abort(forget=True)


@contextlib.contextmanager
def _busy(limits: Limits) -> Iterator[tuple[Database, Seen]]:
    seen = Seen()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "bench.db"
        _create(path)
        server = Server(f"sqlite:///{path}", runner="inline", data_dir=Path(scratch) / "data", limits=limits).start()
        writer = subprocess.Popen([sys.executable, "-m", "bench.activation", str(path)])
        try:
            with Database(lambda session: Embedded(server, session)) as db:
                live = db.query(_BUSY, live=True)
                live.listen(seen.note)
                while len(seen.at) < _RATE * _WARM_S:
                    time.sleep(0.1)
                yield db, seen
        finally:
            writer.kill()
            writer.wait()


def _create(path: Path) -> None:
    db = sqlite3.connect(path)
    db.executescript(_SETUP)
    with db:
        db.executemany("INSERT INTO ticks VALUES (?, 0)", [(n,) for n in range(1000)])
        db.executemany(
            "INSERT INTO customers VALUES (?, ?, ?)", [(n, n % _REGIONS, f"c{n}") for n in range(_CUSTOMERS)]
        )
        orders = ((n, n * 7919 % _CUSTOMERS, n % 1000, f"order {n}") for n in range(_ORDERS))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
    db.close()


def _write(path: Path) -> None:
    """Until it is killed: each commit touches a tick, each tenth an order too."""
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")
    start, n = time.monotonic(), 0
    while True:
        if (ahead := start + n / _RATE - time.monotonic()) > 0:
            time.sleep(ahead)
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE ticks SET committing = ? WHERE id = ?", (time.monotonic(), n % 1000))
        if n % 10 == 0:
            db.execute("UPDATE orders SET amount = amount + 1 WHERE id = ?", (n * 31 % _ORDERS,))
        db.execute("COMMIT")
        n += 1


def _print(measured: dict[str, Measured]) -> None:
    table = Table(title=f"gaps between emissions at {_RATE:.0f} a second, in ms")
    for heading in ("", "rounds", "ready in", "p50", "p99", "longest: best", "median", "worst"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, one in measured.items():
        took = "" if name == _QUIET else f"{np.median(one.seconds):.1f} s"
        figures = (*np.percentile(one.every, [50, 99]), min(one.gaps), np.median(one.gaps), max(one.gaps))
        table.add_row(name, str(len(one.gaps)), took, *(f"{figure:.1f}" for figure in figures))
    _console.print(table)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
