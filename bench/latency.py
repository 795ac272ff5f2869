"""`./dev bench latency`: from a commit in another process to the changed LiveResult, runner beside runner.

The no-op micro-batch is Spark's own cost: events in a file, read by a `mapInArrow` that does nothing else. The disk
alone is one small append made durable, as the log does once on every way: nothing here can be faster than that.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import headwater
from bench import commits
from headwater.model.emission import Diff, Emission, RowChange

_RATE = 100.0
_EPOCH_S = 8.0
_WARM_S = 3.0
_FRAME_BYTES = 700  # about one change
_SQL = "SELECT id, committing, label FROM ticks WHERE kind < 8 ORDER BY committing DESC LIMIT 20"
Seen = list[tuple[float, float]]  # (when, latency), both in seconds

_console = Console()


def run(seconds: float, out: Path) -> None:
    with _console.status("the disk alone …"):
        measured: dict[str, Seen] = {"the disk alone": _disk(seconds)}
    for name, options in (
        ("inline", {"runner": "inline"}),
        (f"spark, {_EPOCH_S:.0f} s epochs", {"runner": "spark", "epoch_s": _EPOCH_S}),
        ("spark, epoch 0", {"runner": "spark", "epoch_s": 0.0}),
    ):
        with _console.status(f"{name}: {seconds:.0f} s at {_RATE:.0f} commits/s …"):
            measured[name] = _headwater(seconds, options)
    with _console.status("no-op micro-batch …"):
        measured["no-op micro-batch"] = _noop(seconds)
    _print(measured)
    _plot(measured, out / "latency.png")
    (out / "latency.json").write_text(json.dumps({name: _figures(seen) for name, seen in measured.items()}, indent=1))


def _committing(change: RowChange) -> float:
    at = (change.new or {}).get("committing")
    return at if isinstance(at, float) else 0.0


def _headwater(seconds: float, options: dict[str, Any]) -> Seen:
    seen: Seen = []

    def note(emission: Emission | None) -> None:
        if isinstance(emission, Diff):
            now = time.monotonic()
            newest = max(_committing(c) for c in emission.changes)
            seen.append((now, now - newest))

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "bench.db"
        commits.create(path)
        with headwater.connect(f"sqlite:///{path}", data_dir=Path(scratch) / "data", **options) as db:
            live = db.query(_SQL, live=True)
            live.listen(note)
            commits.spawn(path, seconds + _WARM_S, _RATE).wait()
            live.wait(db.position())
    return _after_warm_up(seen)


def _disk(seconds: float) -> Seen:
    seen: Seen = []
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        end = time.monotonic() + seconds
        while (before := time.monotonic()) < end:
            file.write(bytes(_FRAME_BYTES))
            os.fdatasync(file.fileno())
            seen.append((seconds - end + before, time.monotonic() - before))
            time.sleep(1 / _RATE)
    return seen


def _after_warm_up(seen: Seen) -> Seen:
    first = seen[0][0]
    return [(when - first - _WARM_S, latency) for when, latency in seen if when - first >= _WARM_S]


def _noop(seconds: float) -> Seen:
    """Events are lines of a file; each batch reads what is new and writes down when it saw it."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    with tempfile.TemporaryDirectory() as scratch:
        events, results = Path(scratch) / "events", Path(scratch) / "seen"
        events.touch()
        results.touch()
        clock = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1)
        query = (
            clock.load()
            .select("value")
            .mapInArrow(_Tail(events, results), "value bigint")
            .writeStream.format("noop")
            .option("checkpointLocation", str(Path(scratch) / "checkpoint"))
            .start()
        )
        _events(events, seconds + _WARM_S)
        time.sleep(1.0)
        with contextlib.suppress(Exception):
            query.stop()
        return _after_warm_up([(float(b), float(b) - float(a)) for a, b in map(str.split, results.open())])


class _Tail:
    def __init__(self, events: Path, results: Path) -> None:
        self._events, self._results = events, results

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = self._events.read_text().split()
        now = time.monotonic()
        done = len(self._results.read_text().splitlines())
        with self._results.open("a") as file:
            file.writelines(f"{line} {now}\n" for line in lines[done:])
        yield from batches


def _events(path: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    with path.open("a", buffering=1) as file:
        while time.monotonic() < end:
            file.write(f"{time.monotonic()}\n")
            time.sleep(1 / _RATE)


def _figures(seen: Seen) -> dict[str, float]:
    ms = np.array([latency for _, latency in seen]) * 1000
    p50, p90, p99 = np.percentile(ms, [50, 90, 99])
    return {"n": len(ms), "p50": p50, "p90": p90, "p99": p99, "max": float(ms.max())}


def _print(measured: dict[str, Seen]) -> None:
    table = Table(title="commit → LiveResult changed, in ms")
    for heading in ("", "n", "p50", "p90", "p99", "max", "p50 ÷ inline", "no-op ÷ p50"):
        table.add_column(heading, justify="left" if not heading else "right")
    figures = {name: _figures(seen) for name, seen in measured.items()}
    base, noop = figures["inline"]["p50"], figures[list(figures)[-1]]["p50"]
    for name, one in figures.items():
        numbers = [f"{one[key]:.2f}" for key in ("p50", "p90", "p99", "max")]
        table.add_row(name, f"{one['n']:.0f}", *numbers, f"{one['p50'] / base:.2f}×", f"{noop / one['p50']:.1f}×")
    _console.print(table)


def _plot(measured: dict[str, Seen], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(11, 5))
    for name, seen in measured.items():
        when, latency = zip(*seen, strict=True)
        axes.plot(when, np.array(latency) * 1000, ".", markersize=2.5, label=name)
    axes.set(yscale="log", xlabel="seconds", ylabel="ms", title="commit → LiveResult changed")
    axes.legend(loc="upper right", markerscale=4)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    _console.print(f"plot: {path}")
