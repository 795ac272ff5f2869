"""The demo: a shop in a SQLite file, a process that keeps it busy, three queries worth watching.

The traffic is a separate process because that is what Headwater is for: it sees the commits of programs that know
nothing of it. `python -m headwater.demo.run traffic FILE` is that process; it never outlives the one that started it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import random
import select
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from headwater.demo import shop
from headwater.model.errors import HeadwaterError

RATE_DEFAULT = 8.0  # transactions per second
RATE_MAX = 500.0
BUSY_TIMEOUT_S = 10.0
PARENT_CHECK_S = 0.5
LAG_S_MAX = 0.1  # a writer further behind lets the rest go


@dataclass(frozen=True, slots=True)
class Example:
    title: str
    sql: str


EXAMPLES: tuple[Example, ...] = (
    Example(
        "Latest orders",
        "SELECT id, item, quantity, total, status, city, placed_at\nFROM orders\nORDER BY placed_at DESC\nLIMIT 15",
    ),
    Example(
        "Running low",
        "SELECT name, stock, reorder_at - stock AS short,\n"
        "       price, round(price * stock, 2) AS shelf_value\n"
        "FROM products\nWHERE stock < reorder_at\nORDER BY reorder_at - stock DESC, name\nLIMIT 20",
    ),
    Example(
        "On the packing bench",
        "SELECT id, item, quantity, total,\n"
        "       CASE WHEN total >= 200 THEN 'by hand'\n"
        "            WHEN total >= 80 THEN 'padded'\n"
        "            ELSE 'plain' END AS parcel\n"
        "FROM orders\nWHERE status = 'packing'\nORDER BY total DESC",
    ),
    Example(
        "Sales by city",
        "SELECT c.city, count(*) AS orders, sum(o.quantity) AS pieces,\n"
        "       max(o.placed_at) AS latest\n"
        "FROM customers c JOIN orders o ON o.customer_id = c.id\n"
        "GROUP BY c.city\nORDER BY pieces DESC\nLIMIT 12",
    ),
    Example(
        "Wanted now",
        "SELECT p.name, p.stock, count(o.id) AS open_orders, coalesce(sum(o.quantity), 0) AS wanted\n"
        "FROM products p LEFT JOIN orders o\n"
        "  ON o.product_id = p.id AND o.status IN ('placed', 'paid', 'packing')\n"
        "GROUP BY p.id\nORDER BY wanted DESC, p.name\nLIMIT 15",
    ),
)


def create_shop(
    path: str | Path, *, seed: int = 7, now: dt.datetime | None = None, size: shop.Size = shop.SIZE
) -> Path:
    """A new shop at `path`, in WAL mode. The same seed and time give the same rows; a file that is there is kept."""
    path = Path(path)
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(_open(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        shop.create(db, seed=seed, now=now or shop.EPOCH, size=size)
    return path


class Traffic:
    """A writer in a process of its own. A context manager; `rate` is in transactions per second, 0 to `RATE_MAX`."""

    def __init__(self, path: str | Path, *, rate: float = RATE_DEFAULT, seed: int = 7) -> None:
        self._rate = _bounded(rate)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "headwater.demo.run",
                "traffic",
                str(path),
                f"--rate={self._rate}",
                f"--seed={seed}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def rate(self) -> float:
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self._rate = _bounded(rate)
        self._ask(f"rate {self._rate}")

    def transactions(self) -> int:
        """How many the writer has made so far."""
        return self._ask("count")

    def close(self) -> None:
        """The end of its input tells the writer to stop."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _ask(self, line: str) -> int:
        """Every line is answered with the transactions so far: once answered, it holds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            if answer := self._process.stdout.readline():
                return int(answer)
        raise HeadwaterError(
            "the traffic process has ended", hint="its last words are on standard error; start the demo again"
        )


class Pace:
    """When the next transaction is due. A long pause is not followed by a burst."""

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._due_s = now_s

    def set_rate(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._due_s = now_s

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until the next one; None while the rate is zero."""
        return max(0.0, self._due_s - now_s) if self.rate > 0 else None

    def take(self, now_s: float) -> None:
        """One is made now."""
        self._due_s = max(self._due_s, now_s - LAG_S_MAX) + 1 / self.rate


class Writer:
    """The traffic process itself: reads lines, answers them, trades in between."""

    def __init__(
        self, db: sqlite3.Connection, chance: random.Random, pace: Pace, commands: TextIO, answers: TextIO
    ) -> None:
        self._db = db
        self._chance = chance
        self._pace = pace
        self._commands = commands
        self._answers = answers
        self._made = 0
        self._parent = os.getppid()

    def run(self) -> None:
        while os.getppid() == self._parent:
            wait_s = self._pace.wait_s(time.monotonic())
            timeout_s = PARENT_CHECK_S if wait_s is None else min(wait_s, PARENT_CHECK_S)
            if select.select([self._commands], [], [], timeout_s)[0]:
                if not self._obey(self._commands.readline()):
                    return
            elif self._pace.wait_s(time.monotonic()) == 0.0:
                self._trade()

    def _trade(self) -> None:
        self._pace.take(time.monotonic())
        shop.trade(self._db, self._chance, dt.datetime.now())
        self._made += 1

    def _obey(self, line: str) -> bool:
        """False at the end of the input: the parent is gone, or has had enough."""
        match line.split():
            case []:
                return False
            case ["rate", rate]:
                self._pace.set_rate(float(rate), time.monotonic())
        self._answers.write(f"{self._made}\n")
        self._answers.flush()
        return True


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m headwater.demo.run")
    commands = parser.add_subparsers(dest="command", required=True)
    traffic = commands.add_parser("traffic", help="write to a shop; reads 'rate N' and 'count' from its input")
    traffic.add_argument("path", type=Path)
    traffic.add_argument("--rate", type=float, default=RATE_DEFAULT)
    traffic.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    with contextlib.closing(_open(options.path)) as db, contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        pace = Pace(options.rate, time.monotonic())
        Writer(db, random.Random(options.seed), pace, sys.stdin, sys.stdout).run()


def _bounded(rate: float) -> float:
    return min(max(float(rate), 0.0), RATE_MAX)


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    return db


if __name__ == "__main__":
    main()
