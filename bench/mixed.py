"""Ten mixed queries on a shop, a client that follows them in a process of its own, and transactions of 100 rows.

`python -m bench.mixed URL FILE` is the client: it says `ready` when all queries have their results, and keeps in the
file the number of the last transaction that it was told of. All queries of a session move together.
"""

from __future__ import annotations

import contextlib
import mmap
import random
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import headwater
from headwater.model.emission import Diff, Emission

ROWS = 100  # of a transaction, with the one that numbers it
QUERIES = (
    "SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON c.id = o.customer WHERE c.region = 3",
    "SELECT o.id, o.amount, c.name FROM orders o JOIN customers c ON c.id = o.customer "
    "ORDER BY o.amount DESC, o.id LIMIT 20",
    "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer",
    "SELECT status, count(*) AS n, avg(amount) AS mean FROM orders GROUP BY status",
    "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 10",
    "SELECT id, status, amount FROM orders WHERE status = 'open' ORDER BY amount, id LIMIT 50",
    "SELECT id, name FROM customers c WHERE EXISTS "
    "(SELECT 1 FROM orders o WHERE o.customer = c.id AND o.amount > 9000)",
    "SELECT id, name FROM customers c WHERE NOT EXISTS "
    "(SELECT 1 FROM orders o WHERE o.customer = c.id AND o.status = 'open')",
    "SELECT DISTINCT customer, status FROM orders",
    "SELECT id, customer, amount FROM orders WHERE customer = 3",
)
_NUMBERED = "SELECT n FROM numbered"
_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE numbered (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, region INTEGER, name TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, status TEXT);
INSERT INTO numbered VALUES (0, 0);
"""
_CUSTOMERS, _ORDERS, _AMOUNT_MAX = 1_000, 10_000, 10_000
_STATUSES = ("open", "paid", "sent")
_BACKLOG_MAX = 64  # transactions that the client may be behind
_PAUSE_S = 0.001
_NUMBER = struct.Struct("<q")


def create(path: Path) -> None:
    db = sqlite3.connect(path)
    db.executescript(_SCHEMA)
    with db:
        db.executemany("INSERT INTO customers VALUES (?, ?, ?)", [(n, n % 50, f"c{n}") for n in range(_CUSTOMERS)])
        orders = [(n, n * 7919 % _CUSTOMERS, n * 7919 % _AMOUNT_MAX, _STATUSES[n % 3]) for n in range(_ORDERS)]
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
    db.close()


@dataclass(slots=True)
class Written:
    """What was written and followed within `seconds`; `late_s` is how late the client was told."""

    transactions: int
    seconds: float
    late_s: list[float]

    @property
    def rows_per_s(self) -> float:
        return self.transactions * ROWS / self.seconds


@dataclass(slots=True)
class Shopping:
    """Writes as fast as the client follows: it is never more than a few transactions behind."""

    db: sqlite3.Connection
    seen: mmap.mmap
    random: random.Random = field(default_factory=lambda: random.Random(7))
    number: int = 0
    order: int = _ORDERS

    def write(self, seconds: float) -> Written:
        start, committed, late_s = time.monotonic(), dict[int, float](), list[float]()
        first = told = self._told()
        while (now := time.monotonic()) < start + seconds:
            for number in range(told + 1, self._told() + 1):
                told = number
                late_s.append(now - committed.pop(number, now))
            if self.number - told >= _BACKLOG_MAX:
                time.sleep(_PAUSE_S)
                continue
            self._transaction()
            committed[self.number] = time.monotonic()
        return Written(told - first, time.monotonic() - start, late_s)

    def _told(self) -> int:
        return int(_NUMBER.unpack_from(self.seen)[0])

    def _transaction(self) -> None:
        """A tenth of it comes, a tenth goes, a few customers change their name; the rest are updates of orders."""
        draw, db = self.random.randrange, self.db
        new = [(self.order + n, draw(_CUSTOMERS), draw(_AMOUNT_MAX), "open") for n in range(10)]
        self.order += len(new)
        self.number += 1
        changed = [(draw(_AMOUNT_MAX), _STATUSES[draw(3)], draw(self.order)) for _ in range(ROWS - 26)]
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE numbered SET n = ?", (self.number,))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", new)
        db.executemany("DELETE FROM orders WHERE id = ?", [(draw(self.order),) for _ in range(10)])
        db.executemany(
            "UPDATE customers SET name = ? WHERE id = ?", [(f"c{draw(99)}", draw(_CUSTOMERS)) for _ in range(5)]
        )
        db.executemany("UPDATE orders SET amount = ?, status = ? WHERE id = ?", changed)
        db.execute("COMMIT")


@contextlib.contextmanager
def followed(url: str, path: Path, scratch: Path) -> Iterator[Shopping]:
    """The shop with a client that follows the queries."""
    file = scratch / "seen"
    file.write_bytes(bytes(_NUMBER.size))
    command = [sys.executable, "-m", "bench.mixed", url, str(file)]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")
    try:
        assert client.stdout is not None
        if client.stdout.readline().strip() != "ready":
            raise RuntimeError("the client ended before its queries were ready")
        with file.open("r+b") as shared, mmap.mmap(shared.fileno(), _NUMBER.size) as seen:
            yield Shopping(db, seen)
    finally:
        db.close()
        client.kill()
        client.wait()


def _follow(url: str, file: Path) -> None:
    with file.open("r+b") as shared, headwater.connect(url) as db:
        seen = mmap.mmap(shared.fileno(), _NUMBER.size)

        def note(emission: Emission | None) -> None:
            if isinstance(emission, Diff) and (row := emission.changes[-1].new) is not None:
                seen[:] = _NUMBER.pack(row["n"])

        live = [db.query(sql, live=True) for sql in (*QUERIES, _NUMBERED)]
        for query in live:
            query.wait_ready(60)
        live[-1].listen(note)
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _follow(sys.argv[1], Path(sys.argv[2]))
