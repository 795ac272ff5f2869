"""`./dev bench load`: what the server spends on a transaction, and how many rows per second it sustains.

The server, a client over a WebSocket and the writer are a process each. Told is CPU of the whole server, from /proc: at
a few rates of transactions that change one row of one subscriber, without what it spends at rest; and at full speed,
with ten mixed queries and transactions of 100 rows, written as fast as the client follows.
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

from bench import commits, mixed
from bench.gateway import Gateway, gateway
from bench.listeners import audience
from bench.writer import write_steadily

_BARS_MS = {20.0: 2.0, 100.0: 2.0, 400.0: 1.0}  # by transactions per second
_BAR_ROWS_PER_S = 40_000
_PHASES = 3
_WARM_S = 2.0
_console = Console()


@dataclass(frozen=True, slots=True)
class Single:
    """Of a rate: CPU of a transaction, and of a second at rest; how late the client was told."""

    rate: float
    transaction_ms: float
    idle_ms: float
    late_ms: float


@dataclass(frozen=True, slots=True)
class Sustained:
    rows_per_s: float
    row_us: float  # of CPU
    late_p50_ms: float
    late_p99_ms: float


def run(seconds: float, out: Path) -> None:
    with _console.status("single rows …"):
        single = _single(seconds)
    with _console.status("ten mixed queries …"):
        sustained = _sustained(seconds)
    _print_single(single)
    _print_sustained(sustained)
    found = {"single": [asdict(one) for one in single], "sustained": asdict(sustained)}
    (out / "load.json").write_text(json.dumps(found, indent=1))


def _single(seconds: float) -> list[Single]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "bench.db"
        commits.create(path)
        with gateway(path, Path(scratch) / "data") as served, audience(served.url, 1, 1) as listening:
            write_steadily(path, _WARM_S, max(_BARS_MS))
            spans = [(rate, *_costs(served, path, rate, seconds / _PHASES)) for rate in _BARS_MS]
        return [
            Single(rate, busy, idle, _late_ms([late for at, late in listening.heard if begin <= at < end]))
            for rate, busy, idle, begin, end in spans
        ]


def _costs(served: Gateway, path: Path, rate: float, seconds: float) -> tuple[float, float, float, float]:
    """Of a transaction, and of a second at rest, in ms: the medians of some spans of time; and from when to when."""
    begin = time.monotonic()
    busy, idle = [], []
    for _ in range(_PHASES):
        idle.append(served.measured(seconds))
        before, made = served.cpu_s(), write_steadily(path, seconds, rate)
        busy.append((served.cpu_s() - before - idle[-1]) / made)
    return statistics.median(busy) * 1000, statistics.median(idle) / seconds * 1000, begin, time.monotonic()


def _late_ms(late_s: list[float]) -> float:
    return float(np.median(late_s)) * 1000 if late_s else float("nan")


def _sustained(seconds: float) -> Sustained:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "bench.db"
        mixed.create(path)
        with gateway(path, Path(scratch) / "data") as served:
            with mixed.followed(served.url, path, Path(scratch)) as shop:
                shop.write(_WARM_S)
                before, written = served.cpu_s(), shop.write(seconds)
                spent_s = served.cpu_s() - before
    p50, p99 = np.percentile(written.late_s, [50, 99]) * 1000
    return Sustained(written.rows_per_s, spent_s / (written.transactions * mixed.ROWS) * 1e6, float(p50), float(p99))


def _print_single(single: list[Single]) -> None:
    table = Table(title="a transaction that changes one row of one subscriber: CPU of the whole server")
    for name in ("transactions/s", "CPU each", "bar", "÷ bar", "CPU at rest", "told after"):
        table.add_column(name, justify="right")
    for one in single:
        bar = _BARS_MS[one.rate]
        table.add_row(
            f"{one.rate:.0f}",
            f"{one.transaction_ms:.2f} ms",
            f"{bar:.0f} ms",
            f"{one.transaction_ms / bar:.2f}×",
            f"{one.idle_ms:.0f} ms/s",
            f"{one.late_ms:.1f} ms",
        )
    _console.print(table)


def _print_sustained(one: Sustained) -> None:
    table = Table(title=f"ten mixed queries, transactions of {mixed.ROWS} rows, as fast as the client follows")
    for name in ("rows/s", "bar", "÷ bar", "CPU of a row", "told after, p50", "p99"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{one.rows_per_s:,.0f}",
        f"{_BAR_ROWS_PER_S:,}",
        f"{one.rows_per_s / _BAR_ROWS_PER_S:.2f}×",
        f"{one.row_us:.0f} µs",
        f"{one.late_p50_ms:.0f} ms",
        f"{one.late_p99_ms:.0f} ms",
    )
    _console.print(table)
