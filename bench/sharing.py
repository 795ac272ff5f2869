"""`./dev bench sharing`: what a change costs that concerns one query of many, and what each further subscriber holds.

Subscribers of one template with different values, incremental and asked again; of equal queries, the same; and of
queries that have a template each. Inline, without sockets, each figure in a separate process. Templates that share
nothing are measured up to 1,000; figures with ≈ are extrapolated from these.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

_COUNTS = (1, 100, 10_000, 100_000)
_MOST = {"filters": 1_000, "requery": 10_000, "asked": 1_000}
_KINDS = {
    "values": "one template, a value each",
    "equal": "the same query",
    "requery": "the same query, which the source answers",
    "asked": "one template that the source answers, a value each",
    "filters": "a template each",
}
_COARSE = 10_000  # resident memory is told in pages: of fewer subscribers it is no figure
_BAR_BYTES = 1_000
_ROWS = 100_000
_console = Console(width=170)
Figures = dict[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--counts", type=_numbers, default=_COUNTS, help="subscribers (default 1,100,10000,100000)")
    parser.add_argument("--changes", type=int, default=100, help="that are measured of each (default 100)")


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(","))


def run(seconds: float, out: Path, counts: Sequence[int] = _COUNTS, changes: int = 100) -> list[Figures]:
    found: list[Figures] = []
    for kind, what in _KINDS.items():
        most = _MOST.get(kind, max(counts))
        measured = sorted({min(count, most) for count in counts})
        points = [_point(kind, count, changes) for count in measured]
        points += [extrapolated(points, count) for count in counts if count > most and kind == "filters"]
        _console.print(_table(what, points))
        found += points
    (out / "sharing.json").write_text(json.dumps(found, indent=1))
    return found


def _point(kind: str, count: int, changes: int) -> Figures:
    with _console.status(f"{_KINDS[kind]}: {count:,} subscribers …"):
        point = {"kind": kind, "count": count, **_measured(kind, count, "hub", changes)}
        if count >= _COARSE and kind in ("values", "equal"):
            point["pipeline_bytes_each"] = _measured(kind, count, "pipeline", 0)["bytes_each"]
        return point


def _measured(kind: str, count: int, way: str, changes: int) -> Figures:
    command = [sys.executable, "-m", "bench.subscribers", kind, str(count), way, str(changes), str(_ROWS)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(said))


def extrapolated(points: Sequence[Figures], count: int) -> Figures:
    """Along the line through the last two: every template looks at every change."""
    before, last = points[-2:] if len(points) > 1 else (points[-1], points[-1])
    further = (count - last["count"]) / max(1, last["count"] - before["count"])
    names = ("one_ms", "none_ms", "one_hub_ms", "none_hub_ms")
    found = {name: last[name] + (last[name] - before[name]) * further for name in names}
    same = {name: last[name] for name in ("kind", "strategy", "bytes_each", "subscribe_us", "questions_a_change")}
    return {**same, **found, "count": count, "templates": count, "questions": last["questions"], "extrapolated": True}


def _table(what: str, points: Sequence[Figures]) -> Grid:
    grid = Grid(
        title=f"{what}: {points[0]['strategy']}; CPU in ms, load {os.getloadavg()[0]:.1f}", title_justify="left"
    )
    headings = ("subscribers", "templates", "a change for one", "ratio", "… hub", "for none", "ratio", "… hub")
    for heading in (
        *headings,
        "to subscribe",
        "bytes each",
        f"… pipeline, ≤ {_BAR_BYTES:,}",
        "questions",
        "… a change",
    ):
        grid.add_column(heading, justify="right")
    for point in points:
        grid.add_row(*_cells(point, points[0]))
    return grid


def _cells(point: Figures, first: Figures) -> list[str]:
    about = "≈ " if point.get("extrapolated") else ""
    costs = []
    for name in ("one", "none"):
        mine, firsts = point[f"{name}_ms"], first[f"{name}_ms"]
        costs += [f"{about}{mine:,.2f}", f"{mine / firsts:.2f}", f"{about}{point[f'{name}_hub_ms']:,.2f}"]
    asked = [f"{point['questions']:,}", f"{point['questions_a_change']:.1f}"]
    held = [_bytes(point, "bytes_each", None), _bytes(point, "pipeline_bytes_each", _BAR_BYTES)]
    return [f"{point['count']:,}", f"{point['templates']:,}", *costs, f"{point['subscribe_us']:,.0f} µs", *held, *asked]


def _bytes(point: Figures, name: str, bar: float | None) -> str:
    least = 100 if point["kind"] == "filters" else _COARSE
    if name not in point or point["count"] < least:
        return ""
    held = f"{point[name]:,.0f}"
    return held if bar is None or point[name] <= bar else f"[bold]{held}[/]"
