"""`./dev bench postgres`: from a commit on a busy PostgreSQL to the changed LiveResult, Spark beside inline.

pgbench works at a steady rate. A join of three tables with the newest few on top is live; it changes with pgbench's
own transactions, and with those of a probe, whose rows carry the time just before their commit. The commit itself, as
the probe sees it, is part of every figure and stands beside them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import headwater
from bench import probing
from headwater.model.emission import Emission, Result, Swap
from tests.support.postgres import BINARIES, VERSIONS, Postgres

_RATE = 50.0  # of the probe, commits a second
_PGBENCH_RATE = 50
_EPOCH_S = 8.0
_WARM_S = 5.0
_SQL = """
SELECT p.tid, p.committing, t.tbalance, b.bid, b.bbalance
FROM probes p JOIN pgbench_tellers t ON t.tid = p.tid JOIN pgbench_branches b ON b.bid = t.bid
ORDER BY p.committing DESC LIMIT 5
"""
_RUNNERS: dict[str, dict[str, Any]] = {
    "inline": {"runner": "inline"},
    f"spark, {_EPOCH_S:.0f} s epochs": {"runner": "spark", "epoch_s": _EPOCH_S},
}
_console = Console()


def run(seconds: float, out: Path) -> None:
    measured: dict[str, list[float]] = {}
    with _server() as url:
        for name, options in _RUNNERS.items():
            with _console.status(f"{name}: {seconds:.0f} s …"):
                ways_s, commits_s = _measured(url, seconds, options)
            measured |= {name: ways_s, "… the commit itself, " + name.split(",")[0]: commits_s}
    figures = {name: _figures(ways_s) for name, ways_s in measured.items()}
    _console.print(_table(figures))
    (out / "postgres.json").write_text(json.dumps(figures, indent=1))


@contextmanager
def _server() -> Iterator[str]:
    server = Postgres(VERSIONS[0], {"fsync": "on"})
    try:
        server.start()
        subprocess.run([_pgbench(), "-i", "-q", "-s", "1", server.url()], check=True, capture_output=True)
        with server.connect() as db:
            db.execute(probing.CREATE)
        yield server.url()
    finally:
        server.remove()


def _pgbench() -> Path:
    return BINARIES[VERSIONS[0]] / "pgbench"


def _measured(url: str, seconds: float, options: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Ways from commit to client, and the commits alone, both in seconds, without the first of them."""
    seen: dict[float, float] = {}

    def note(emission: Emission | None) -> None:
        now_s = time.monotonic()
        for at_s in _committed(emission):
            seen.setdefault(at_s, now_s - at_s)

    with tempfile.TemporaryDirectory() as scratch, headwater.connect(url, data_dir=Path(scratch), **options) as db:
        live = db.query(_SQL, live=True)
        assert live.strategy == "incremental"
        start_s = time.monotonic()
        live.listen(note)
        commits_s = _busy(url, seconds + _WARM_S)
        live.wait(db.position())
    first_s = min(at for at in seen if at > start_s)
    return [way for at, way in seen.items() if at > first_s + _WARM_S], commits_s[int(_WARM_S * _RATE) :]


def _committed(emission: Emission | None) -> list[float]:
    """The times just before the commits that an emission tells of."""
    if emission is None or isinstance(emission, Result | Swap):
        return []
    found = ((change.new or {}).get("committing") for change in emission.changes if change.type != "delete")
    return [at for at in found if isinstance(at, float) and at > 0]


def _busy(url: str, seconds: float) -> list[float]:
    """pgbench and the probe, until both are done; how long the probe's commits took."""
    words = ["-n", "-c", "2", "-R", str(_PGBENCH_RATE), "-T", str(int(seconds)), url]
    with subprocess.Popen([_pgbench(), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as pgbench:
        with probing.spawn(url, seconds, _RATE) as probe:
            said, _ = probe.communicate()
        assert (pgbench.wait(), probe.returncode) == (0, 0)
    return [float(line) for line in said.split()]


def _figures(ways_s: list[float]) -> dict[str, float]:
    p50, p90, p99 = np.percentile(np.array(ways_s) * 1000, [50, 90, 99])
    return {"n": len(ways_s), "p50": p50, "p90": p90, "p99": p99, "max": max(ways_s) * 1000}


def _table(figures: dict[str, dict[str, float]]) -> Table:
    load = os.getloadavg()[0]
    table = Table(title=f"PostgreSQL, pgbench running: commit → LiveResult changed, in ms; load {load:.1f}")
    for heading in ("", "n", "p50", "p90", "p99", "max", "p50 ÷ inline"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, one in figures.items():
        numbers = [f"{one[key]:.2f}" for key in ("p50", "p90", "p99", "max")]
        table.add_row(name, f"{one['n']:.0f}", *numbers, f"{one['p50'] / figures['inline']['p50']:.2f}×")
    return table
