"""`python -m bench.subscribers KIND COUNT WAY CHANGES ROWS`: so many subscribers in a process of their own, as JSON.

The pipeline runs inline over a SQLite file, with no socket. WAY is "hub", where every subscriber is one of the hub's,
or "pipeline", where each window is asked for once and no client listens: what the pipeline itself holds for it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from headwater.gateway.hub.session import Joining, Session
from headwater.gateway.server import Server
from headwater.model.emission import Emission
from headwater.plan.planner import Planned

_SESSIONS = 10
_TOGETHER = 1_000
_WARM = 5
_WAIT_S = 120.0
_SCHEMA = "CREATE TABLE ticks (id INTEGER PRIMARY KEY, kind INTEGER, at REAL, label TEXT)"
KINDS = {
    "values": "SELECT id, at, label FROM ticks WHERE id = ?",
    "equal": "SELECT id, at, label FROM ticks WHERE id = 0",
    "requery": "SELECT id, at, row_number() OVER (ORDER BY id) AS n FROM ticks WHERE id < 5",
    "asked": "SELECT id, at, row_number() OVER (ORDER BY id) AS n FROM ticks WHERE id = ?",
    "filters": "SELECT id, at, label FROM ticks WHERE id + {n} = {n} + {n}",
}


def main(kind: str, count: int, way: str, changes: int, rows: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "bench.db"
        _fill(path, rows)
        with _served(path, Path(scratch) / "data") as server, _questions(server) as questions:
            room = _Room(server)
            planned = _plans(server, kind, count)
            one = next(planned)
            room.seat([one], way)
            before, cpu_s = _resident(), time.process_time()
            room.seat(planned, way)
            subscribe_us = (time.process_time() - cpu_s) * 1e6 / max(1, count - 1)
            held = (_resident() - before) / max(1, count - 1)
            asked = questions.total()
            found: dict[str, Any] = {
                "strategy": one.strategy,
                "templates": server.pipeline.templates,
                "bytes_each": held,
            }
            found |= {"subscribe_us": subscribe_us, "questions": asked}
            if way == "hub":
                found |= {f"{name}_ms": ms for name, ms in _costs(room, path, changes, rows).items()}
                found["questions_a_change"] = (questions.total() - asked) / (2 * (changes + _WARM))
            return found


def _fill(path: Path, rows: int) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(_SCHEMA)
        db.executemany("INSERT INTO ticks VALUES (?, ?, 0, 'start')", ((n, n % 10) for n in range(rows + 1)))
    db.close()


@contextmanager
def _served(path: Path, data: Path) -> Iterator[Server]:
    server = Server(f"sqlite:///{path}", runner="inline", data_dir=data).start()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def _questions(server: Server) -> Iterator[Counter[str]]:
    """How often the database was asked for rows: a table is read, or a query is answered."""
    source, asked = server.pipeline.source, Counter[str]()

    def counted(name: str) -> Any:
        ask = getattr(source, name)

        def asking(*given: Any, **options: Any) -> Any:
            asked[name] += 1
            return ask(*given, **options)

        return asking

    with ExitStack() as patched:
        for name in ("query", "query_together", "snapshot", "moment"):
            patched.enter_context(mock.patch.object(source, name, counted(name)))
        yield asked


def _plans(server: Server, kind: str, count: int) -> Iterator[Planned]:
    """The first concerns the row 0, whichever kind it is."""
    text = KINDS[kind]
    return (server.pipeline.plan(text.format(n=n), (n,) if "?" in text else ()) for n in range(count))


@dataclass(slots=True)
class _Seat:
    """A sink that counts: what it was handed is dropped."""

    heard: threading.Condition
    emissions: int = 0
    position: int = -1

    def emit(self, subscription: str, emission: Emission) -> None:
        self.emissions += 1

    def progress(self, position: int) -> None:
        with self.heard:
            self.position = position
            self.heard.notify_all()

    def closed(self, subscription: str, reason: str) -> None:
        raise AssertionError(reason)

    failed = resync = closed

    def ready(self, subscription: str, position: int) -> None: ...

    def replanned(self, subscription: str, planned: Planned) -> None: ...

    def health(self, failure: str | None) -> None: ...


@dataclass(slots=True)
class _Room:
    server: Server
    heard: threading.Condition = field(default_factory=threading.Condition)
    seats: list[_Seat] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    taken: int = 0

    def __post_init__(self) -> None:
        self.seats = [_Seat(self.heard) for _ in range(_SESSIONS)]
        self.sessions = [self.server.hub.open(seat, eager=True) for seat in self.seats]

    def seat(self, planned: Any, way: str) -> None:
        """Some at a time; every result was emitted when it returns."""
        due: list[Planned] = []
        for one in planned:
            due.append(one)
            if len(due) == _TOGETHER:
                self._subscribe(due, way)
                due = []
        self._subscribe(due, way)
        until_s = time.monotonic() + _WAIT_S
        while not (self.server.hub.settle() and sum(seat.emissions for seat in self.seats) >= self.taken):
            assert time.monotonic() < until_s, "not every subscriber has its result"

    def _subscribe(self, planned: list[Planned], way: str) -> None:
        if way == "pipeline":
            self.server.pipeline.subscribe(*{one.instance.id: one for one in planned}.values())
        else:
            for one in {one.template.id: one for one in planned}.values():
                self.server.hub.prepare(self.sessions[0], one)
            joining = []
            for one in planned:
                self.taken += 1
                joining.append(Joining(self.sessions[self.taken % _SESSIONS], f"q{self.taken}", one))
            refused = [error for error in self.server.hub.subscribe_all(joining) if error is not None]
            assert not refused, refused[0]

    def wait(self, position: int) -> None:
        """Until every session was told of it."""
        with self.heard:
            assert self.heard.wait_for(lambda: all(seat.position >= position for seat in self.seats), _WAIT_S)


def _costs(room: _Room, path: Path, changes: int, nobodys: int) -> dict[str, float]:
    """CPU in ms of a change that concerns the first query, and of one of the row `nobodys`: all threads but the
    writer's, the hub's apart."""
    found: dict[str, float] = {}
    with sqlite3.connect(path, isolation_level=None) as own:
        for name, id in (("one", 0), ("none", nobodys)):
            for n in range(_WARM + changes):
                if n == _WARM:
                    before, hub_s = time.process_time() - time.thread_time(), _cpu_s(room.server.hub.threads)
                own.execute("UPDATE ticks SET at = at + 1, label = ? WHERE id = ?", (f"tick {n}", id))
                room.wait(room.server.pipeline.source.position())
            hub_ms = (_cpu_s(room.server.hub.threads) - hub_s) * 1000 / changes
            whole_ms = (time.process_time() - time.thread_time() - before) * 1000 / changes
            found |= {f"{name}": whole_ms - hub_ms, f"{name}_hub": hub_ms}
    own.close()
    return found


def _cpu_s(threads: Any) -> float:
    clocks = (time.pthread_getcpuclockid(thread.ident) for thread in threads)
    return sum(map(time.clock_gettime, clocks))


def _resident() -> float:
    """After everything was given back that can be."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return float(line.split()[1]) * 1024


if __name__ == "__main__":
    _, kind, count, way, changes, rows = sys.argv
    print(json.dumps(main(kind, int(count), way, int(changes), int(rows))))
