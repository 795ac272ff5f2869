"""Writes to the row that the first listener shows: commits at a steady rate, each with the time just before it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

_BUSY_S = 30.0


def write_steadily(path: Path, seconds: float, rate: float) -> int:
    """How many commits it made."""
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")
    start, count = time.monotonic(), int(seconds * rate)
    for number in range(count):
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        db.execute("UPDATE ticks SET committing = ? WHERE id = 0", (time.monotonic(),))
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    db.close()
    return count
