"""A writer process for `./dev bench page`: orders that come, change and go, a commit each, at a steady rate.

Every commit changes the page's result: half of them bring a new order on top, the others change one that is shown.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

SHOWN = 15
QUERY = f"SELECT id, item, amount, status FROM orders ORDER BY id DESC LIMIT {SHOWN}"
_SETUP = """
PRAGMA journal_mode = WAL;
CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, amount REAL, status TEXT);
"""
_ITEMS = ("kettle", "mug", "tea pot", "sieve", "spoon", "jar", "bowl")
_STATUSES = ("placed", "paid", "packing", "sent")
_FIRST = 1_000
_CHANGE = "UPDATE orders SET amount = ?, status = ? WHERE id = ?"


def create(path: Path) -> None:
    db = sqlite3.connect(path)
    db.executescript(_SETUP)
    with db:
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", [_order(id) for id in range(_FIRST)])
    db.close()


def spawn(path: Path, seconds: float, rate: float) -> subprocess.Popen[str]:
    """It prints how many commits it made in a second."""
    command = [sys.executable, "-m", "bench.page_writer", str(path), str(seconds), str(rate)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _order(id: int) -> tuple[int, str, float, str]:
    return id, _ITEMS[id % len(_ITEMS)], id % 97 + 0.25, _STATUSES[0]


def _write(path: Path, seconds: float, rate: float) -> float:
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")
    (newest,) = db.execute("SELECT max(id) FROM orders").fetchone()
    start, number = time.monotonic(), 0
    while (now := time.monotonic()) - start < seconds:
        time.sleep(max(0.0, start + number / rate - now))
        number += 1
        if number % 2:
            newest += 1
            db.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", _order(newest))
        else:
            db.execute(_CHANGE, (number % 89 + 0.5, _STATUSES[number // 2 % 4], newest - number // 2 * 7 % SHOWN))
    db.close()
    return number / (time.monotonic() - start)


if __name__ == "__main__":
    print(_write(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
