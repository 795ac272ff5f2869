"""`./dev bench activation`: how long others are kept waiting while a large template comes to life.

One query is busy: another process commits to its table at a steady rate, and each commit is an emission. Meanwhile a
join of 300,000 orders with their customers, grouped, is subscribed to, on SQLite and on PostgreSQL. Told are the gaps
between the busy query's emissions: in a quiet while, with the template built beside the cell, and with it built in the
cell's own step.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import shop
from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.gateway.server import Server
from headwater.model.emission import Diff, Emission
from headwater.model.limits import DEFAULT, Limits

_WARM_S, _SETTLE_S = 2.0, 1.0
_ROUNDS = 5
_QUIET = "nothing activates"
_BUSY = "SELECT id, committing FROM ticks"
_SLOW = """
SELECT c.region, count(*) AS orders, sum(o.amount + {n}) AS total
FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.region
"""
_ORIGINS = {"SQLite": shop.on_sqlite, "PostgreSQL": shop.on_postgres}
_WAYS = {"built beside": DEFAULT, "built in the cell": replace(DEFAULT, build_bytes_min=1 << 62)}
Origin = Callable[[Path], AbstractContextManager[str]]
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
    figures = {}
    for origin, made in _ORIGINS.items():
        measured = _measured(origin, made, seconds)
        _print(origin, measured)
        figures[origin] = {name: {"gaps_ms": one.gaps, "seconds": one.seconds} for name, one in measured.items()}
    (out / "activation.json").write_text(json.dumps(figures, indent=1))


def _measured(origin: str, made: Origin, seconds: float) -> dict[str, Measured]:
    measured = {name: Measured() for name in (_QUIET, *_WAYS)}
    for name, limits in _WAYS.items():
        with _console.status(f"{origin}, {name} …"), _busy(made, limits) as (db, seen):
            for n in range(_ROUNDS):
                _quiet(measured[_QUIET], seen, seconds / _ROUNDS / 4)
                _activation(measured[name], seen, db, n)
    return measured


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
def _busy(made: Origin, limits: Limits) -> Iterator[tuple[Database, Seen]]:
    seen = Seen()
    with tempfile.TemporaryDirectory() as scratch, made(Path(scratch)) as url, shop.written(url):
        server = Server(url, runner="inline", data_dir=Path(scratch) / "data", limits=limits).start()
        with Database(lambda session: Embedded(server, session)) as db:
            live = db.query(_BUSY, live=True)
            live.listen(seen.note)
            while len(seen.at) < shop.RATE * _WARM_S:
                time.sleep(0.1)
            yield db, seen


def _print(origin: str, measured: dict[str, Measured]) -> None:
    table = Table(title=f"{origin}: gaps between emissions at {shop.RATE:.0f} a second, in ms")
    for heading in ("", "rounds", "ready in", "p50", "p99", "longest: best", "median", "worst"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, one in measured.items():
        took = "" if name == _QUIET else f"{np.median(one.seconds):.1f} s"
        figures = (*np.percentile(one.every, [50, 99]), min(one.gaps), np.median(one.gaps), max(one.gaps))
        table.add_row(name, str(len(one.gaps)), took, *(f"{figure:.1f}" for figure in figures))
    _console.print(table)
