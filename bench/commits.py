"""A writer process for benchmarks: small commits at a steady rate, each with the time just before it in the row.

`time.monotonic` is one clock for all processes of a machine, so the reader can subtract.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

_SETUP = """
PRAGMA journal_mode = WAL;
CREATE TABLE ticks (id INTEGER PRIMARY KEY, kind INTEGER, committing REAL, label TEXT);
"""


def create(path: Path, rows: int = 1000) -> None:
    db = sqlite3.connect(path)
    db.executescript(_SETUP)
    with db:
        db.executemany("INSERT INTO ticks VALUES (?, ?, 0, 'start')", [(n, n % 10) for n in range(rows)])
    db.close()


def spawn(path: Path, seconds: float, rate: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.commits", str(path), str(seconds), str(rate)])


def _write(path: Path, seconds: float, rate: float) -> None:
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")
    start = time.monotonic()
    n = 0
    while time.monotonic() - start < seconds:
        due = start + n / rate
        if (ahead := due - time.monotonic()) > 0:
            time.sleep(ahead)
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE ticks SET committing = ?, label = ? WHERE id = ?", (time.monotonic(), f"tick {n}", n % 1000))
        db.execute("COMMIT")
        n += 1
    db.close()


if __name__ == "__main__":
    _write(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
