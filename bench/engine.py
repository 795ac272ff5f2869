"""`./dev bench engine`: what a change costs the engine, on one core, Arrow in and Arrow diffs out.

Beside each figure stands the query run again, in SQLite and in DuckDB, on the same rows in the same run. Times are of
the process's CPU, so that a busy machine does not pass for a slow engine; its load is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from bench import curves, pocket
from bench.flowing import opened
from bench.javascript_peers import PEERS, PeerFigures
from bench.reruns import HAVE_DUCKDB, Reruns
from bench.traffic import POSTGRES_TABLES, Traffic

ROWS = 1_000_000
CUSTOMERS = 100_000  # and as many groups, and as many subscriptions
STEP = 10_000
TEMPLATE = "SELECT id, amount, status FROM orders WHERE customer = {}"
JOIN = "SELECT o.id, o.amount, o.status, c.name FROM orders o JOIN customers c ON o.customer = c.id"
GROUP = "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer"
TOP = "SELECT id, customer, amount FROM orders ORDER BY amount DESC LIMIT 100"

Measured = TypeVar("Measured")
_console = Console(width=130)


@dataclass(frozen=True, slots=True)
class Line:
    """A figure and its bar; `change_ms` and `step_ms` are what a re-run is compared with."""

    what: str
    figure: float
    unit: str
    target: float | None = None
    at_least: bool = False
    change_ms: float | None = None
    step_ms: float | None = None
    sqlite_ms: float | None = None
    duckdb_ms: float | None = None

    @property
    def holds(self) -> bool | None:
        if self.target is None:
            return None
        return self.figure >= self.target if self.at_least else self.figure <= self.target


def run(seconds: float, out: Path) -> None:
    _one_core()
    load = os.getloadavg()[0]
    each = seconds / 10
    lines = list(_told(_lines(each)))
    with _console.status("Pocket's workload, here and in Node …"):
        scenarios, no_peers = pocket.measure()
    points = list(_told(curves.measure(each / 10)))
    _print(lines, load)
    _print_pocket(scenarios, no_peers)
    curves.plot(points, out / "engine-curves.png")
    _console.print(f"plot: {out / 'engine-curves.png'}")
    parts: dict[str, Sequence[Any]] = {"lines": lines, "pocket": scenarios, "curves": points}
    figures = {name: [asdict(one) for one in part] for name, part in parts.items()}
    (out / "engine.json").write_text(json.dumps({"load_average": load, **figures}, indent=1))


def _one_core() -> None:
    pa.set_cpu_count(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _told(measuring: Iterable[Measured]) -> Iterator[Measured]:
    with _console.status("measuring …") as status:
        for one in measuring:
            status.update(f"{getattr(one, 'what', one)}: done; measuring on …")
            yield one


def _lines(seconds: float) -> Iterator[Line]:
    reruns = Reruns(Traffic(ROWS, CUSTOMERS).rows())
    yield _template(seconds, reruns)
    yield from _one_table_on_postgres(seconds)
    yield from _join(seconds, reruns)
    yield _rate("group-by, 100,000 groups", GROUP, 100_000, seconds, reruns)
    yield _rate("top-100 of 1 M", TOP, 100_000, seconds, reruns)
    reruns.close()
    yield from _memory()


def _template(seconds: float, reruns: Reruns) -> Line:
    """Every change is of a row that somebody subscribed to; re-running knows which query to run, and runs only that."""
    flowing = opened(TEMPLATE.format(0), Traffic(ROWS, CUSTOMERS), CUSTOMERS)
    asked = [TEMPLATE.format(n) for n in range(500)]
    what = "template match, 100,000 subscriptions"
    return _per_change(what, 200_000, flowing.costs(seconds, STEP), reruns, asked)


def _one_table_on_postgres(seconds: float) -> Iterator[Line]:
    """The same by PostgreSQL's rules; nothing is run again, for there is no server here."""
    flowing = opened(TEMPLATE.format(0), Traffic(ROWS, CUSTOMERS), CUSTOMERS, POSTGRES_TABLES)
    step_ms = float(np.mean(flowing.costs(seconds, STEP))) * 1000
    what = "one table on PostgreSQL, 100,000 subscriptions"
    yield Line(what, STEP / step_ms * 1000, "changes/s", 200_000, True, step_ms / STEP, step_ms)
    alone_ms = float(np.median(flowing.costs(seconds, 1))) * 1000
    yield Line(f"{what}, a step of 1, p50", alone_ms, "ms", None, False, alone_ms, alone_ms)


def _rate(what: str, sql: str, target: float, seconds: float, reruns: Reruns) -> Line:
    return _per_change(what, target, opened(sql, Traffic(ROWS, CUSTOMERS)).costs(seconds, STEP), reruns, [sql] * 3)


def _per_change(what: str, target: float, costs: Sequence[float], reruns: Reruns, sqls: Sequence[str]) -> Line:
    step_ms = float(np.mean(costs)) * 1000
    rate, change_ms = STEP / step_ms * 1000, step_ms / STEP
    asked = reruns.sqlite_ms(sqls), reruns.duckdb_ms(sqls)
    return Line(what, rate, "changes/s", target, True, change_ms, step_ms, *asked)


def _join(seconds: float, reruns: Reruns) -> Iterator[Line]:
    """One change in ten is of a customer, and so of all their orders."""
    flowing = opened(JOIN, Traffic(ROWS, CUSTOMERS))
    name = "join, 1 M × 100 k"
    yield _per_change(f"{name}, steps of 10,000", 50_000, flowing.costs(seconds, STEP, STEP // 10), reruns, [JOIN])
    alone = np.array(flowing.costs(seconds, 1)) * 1000
    asked = reruns.sqlite_ms([JOIN]), reruns.duckdb_ms([JOIN] * 3)
    median = float(np.median(alone))
    yield Line(f"{name}, a step of 1, p50", median, "ms", 2.0, False, median, median, *asked)
    yield Line(f"{name}, a step of 1, p99", float(np.percentile(alone, 99)), "ms")
    hydrated_ms = flowing.hydrated_s * 1000
    if asked[1] is not None:
        yield Line(f"join, hydration of {hydrated_ms:,.0f} ms ÷ DuckDB's SELECT", hydrated_ms / asked[1], "×", 10.0)


def _memory() -> Iterator[Line]:
    command = [sys.executable, "-m", "bench.footprint", JOIN, str(ROWS), str(CUSTOMERS)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    state = told["state"]
    yield Line(f"join, peak memory ÷ state of {state / 2**20:,.0f} MiB", told["peak"] / state, "×", 3.0)
    yield Line("join, memory after ten steps ÷ state", told["rest"] / state, "×")


def _print(lines: Sequence[Line], load: float) -> None:
    grid = Grid(title=f"the engine, one core, load average {load:.1f}; a re-run beside a change and beside a step")
    for heading in ("", "measured", "bar", "holds", "SQLite ms", "DuckDB ms", "÷ change", "÷ step"):
        grid.add_column(heading, justify="left" if not heading else "right")
    for line in lines:
        sign = "≥" if line.at_least else "≤"
        bar = "" if line.target is None else f"{sign} {line.target:,.0f}"
        grid.add_row(line.what, f"{_short(line.figure)} {line.unit}", bar, _holds(line.holds), *_beside(line))
    _console.print(grid)
    if not HAVE_DUCKDB:
        _console.print("DuckDB is not installed: its column is empty and hydration is not compared")


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def _holds(holds: bool | None) -> str:
    return "" if holds is None else "yes" if holds else "[bold]no[/]"


def _beside(line: Line) -> list[str]:
    """Both re-runs, and the faster one against the engine: if run once a change, and if run once a step."""
    asked = [ms for ms in (line.sqlite_ms, line.duckdb_ms) if ms is not None]
    shown = ["" if ms is None else _short(ms) for ms in (line.sqlite_ms, line.duckdb_ms)]
    if not asked or line.change_ms is None or line.step_ms is None:
        return [*shown, "", ""]
    return [*shown, *(f"{_short(min(asked) / mine)}×" for mine in (line.change_ms, line.step_ms))]


def _print_pocket(scenarios: Sequence[pocket.Scenario], no_peers: str) -> None:
    """What each peer shows is ms of CPU an event, and how many of its events it ran the query again for."""
    grid = Grid(title="Pocket's workload: 10,000 rows, sorted, limit 100; ms of CPU an event")
    for heading in ("", "ms an event", "re-queried", "refilled", *PEERS.values(), "SQLite ms", "DuckDB ms"):
        grid.add_column(heading, justify="left" if not heading else "right")
    for one in scenarios:
        duckdb = "" if one.duckdb_ms is None else f"{one.duckdb_ms:.3f}"
        share = f"{one.asked_again / one.events:.0%}"
        beside = [_peer(one.peers.get(name)) for name in PEERS]
        grid.add_row(one.what, f"{one.event_ms:.3f}", share, f"{one.refills}", *beside, f"{one.sqlite_ms:.3f}", duckdb)
    _console.print(grid)
    if no_peers:
        _console.print(f"EventReduce and TanStack DB are not compared: {no_peers}")


def _peer(found: PeerFigures | None) -> str:
    if found is None:
        return ""
    return f"{found.event_ms:.3f} ({found.asked_again:.0%})" + ("" if found.equal else " [bold]wrong rows[/]")
