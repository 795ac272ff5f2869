"""`./dev bench audience`: what a commit that concerns one of many subscriptions, or one of many sockets, costs.

Law 10 says: the same. Told is CPU of the gateway's process, without what it spends while nobody commits; beside it when
the change came, what subscribing cost, and the memory with all of them and after all have left.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import commits
from bench.gateway import Gateway, gateway
from bench.listeners import Audience, audience
from bench.writer import write_steadily

_SUBSCRIPTIONS, _SOCKETS_FEW = (100, 1_000, 10_000, 100_000), 10
_SOCKETS = (10, 100, 1_000, 3_000)
_RATE, _ROWS = 50.0, 1_000
_PHASES = 3
_WARM_S, _LEFT_S = 3.0, 15.0  # windows linger for five seconds, and are gone from the cells with the next manifests
_BAR = 1.3
_console = Console()


@dataclass(frozen=True, slots=True)
class Point:
    subscriptions: int
    sockets: int
    commit_ms: float  # of CPU
    idle_ms: float  # of CPU, per second
    p50_ms: float
    p99_ms: float
    subscribe_us: float  # of CPU
    bytes_before: int
    bytes_with: int
    bytes_after: int


def run(seconds: float, out: Path) -> None:
    many = [_point(count, _SOCKETS_FEW, seconds) for count in _SUBSCRIPTIONS]
    wide = [_point(count, count, seconds) for count in _SOCKETS]
    _print("subscriptions, on 10 sockets", many)
    _print("sockets, a subscription each", wide)
    (out / "audience.json").write_text(json.dumps([asdict(point) for point in (*many, *wide)], indent=1))


def _point(subscriptions: int, sockets: int, seconds: float) -> Point:
    with (
        _console.status(f"{subscriptions:,} subscriptions on {sockets:,} sockets …"),
        tempfile.TemporaryDirectory() as scratch,
    ):
        path = Path(scratch) / "bench.db"
        commits.create(path, _ROWS)
        with gateway(path, Path(scratch) / "data") as served:
            return _measured(served, path, subscriptions, sockets, seconds)


def _measured(served: Gateway, path: Path, subscriptions: int, sockets: int, seconds: float) -> Point:
    with audience(served.url, 1, 1):
        pass  # the template is known, and everything was used once
    before, cpu_s = served.resident_bytes(), served.cpu_s()
    with audience(served.url, sockets, subscriptions) as listening:
        subscribe_us = (served.cpu_s() - cpu_s) / subscriptions * 1e6
        time.sleep(_WARM_S)
        held = served.resident_bytes()
        commit_ms, idle_ms = _costs(served, path, seconds / _PHASES)
    late_ms = _late_ms(listening)
    time.sleep(_LEFT_S)
    after = served.resident_bytes()
    return Point(subscriptions, sockets, commit_ms, idle_ms, *late_ms, subscribe_us, before, held, after)


def _costs(served: Gateway, path: Path, seconds: float) -> tuple[float, float]:
    """Of a commit, and of a second without one: the medians of some spans of time, in turn."""
    busy, idle = [], []
    for _ in range(_PHASES):
        idle.append(served.measured(seconds))
        before, made = served.cpu_s(), write_steadily(path, seconds, _RATE)
        busy.append((served.cpu_s() - before - idle[-1]) / made)
    return statistics.median(busy) * 1000, statistics.median(idle) / seconds * 1000


def _late_ms(listening: Audience) -> tuple[float, float]:
    late = np.array([late for _, late in listening.heard]) * 1000
    return float(np.percentile(late, 50)), float(np.percentile(late, 99))


def _print(what: str, points: list[Point]) -> None:
    table = Table(title=f"a commit that concerns one of many {what}")
    for name in (
        "",
        "CPU of a commit",
        "ratio",
        "CPU at rest",
        "p50",
        "p99",
        "to subscribe",
        "memory: before, with, after",
    ):
        table.add_column(name, justify="right")
    for point in points:
        memory = " → ".join(f"{n / 2**20:.0f}" for n in (point.bytes_before, point.bytes_with, point.bytes_after))
        table.add_row(
            f"{point.sockets if point.sockets == point.subscriptions else point.subscriptions:,}",
            f"{point.commit_ms:.2f} ms",
            f"{point.commit_ms / points[0].commit_ms:.2f}",
            f"{point.idle_ms:.0f} ms/s",
            f"{point.p50_ms:.1f} ms",
            f"{point.p99_ms:.1f} ms",
            f"{point.subscribe_us:.0f} µs",
            f"{memory} MiB",
        )
    _console.print(table)
    ratio = points[-1].commit_ms / points[0].commit_ms
    _console.print(f"largest over smallest: {ratio:.2f} (bar: at most {_BAR})")
