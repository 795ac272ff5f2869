"""`./dev bench partial`: a large table on PostgreSQL, and subscribers that ask for one row of it each, by its key.

Each subscriber's way to its first result is measured, and now and then beside it what the database itself takes: a
snapshot whose position is known, and an indexed SELECT in it. Counted are the questions, the rows held by the cell and
by the capture, and the bytes of the data directory beside those of the rows asked for: first with one subscriber, which
is what the directory takes by itself, and again some seconds after the last one came, while a few rows change. With
`--writers`, connections write to the table while subscribers come. `--width` is how many bytes a row has, about.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from rich.console import Console
from rich.table import Table

from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.client.live import LiveResult
from headwater.engine.dataflow import Dataflow
from headwater.gateway.server import Server
from headwater.model.limits import DEFAULT
from headwater.pipeline.cell.manifest import read_manifest
from headwater.sources.postgres.source import PostgresSource
from tests.support.postgres import VERSIONS, Postgres

_SQL = "SELECT id, customer, note FROM big WHERE id = $1"
_ALL = "SELECT id, customer, note FROM big WHERE id"
_CREATE = "CREATE TABLE big (id int PRIMARY KEY, customer int, note text)"
_FILL = "INSERT INTO big SELECT n, n % 1000, {} FROM generate_series(1, {}) n"
_DIGEST_BYTES = 32
_SETTLE_S = 16.0  # three times as long as it takes until what is no longer needed is cleared away
_KINDS = ("log", "diffs", "state", "manifest", "postgres")
_BASELINE_EVERY = 5
_console = Console()
Figures = dict[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table (default 10,000,000)")
    parser.add_argument("--subscribers", type=int, default=1_000)
    parser.add_argument("--writers", type=int, default=0, help="connections that write meanwhile (default 0)")
    parser.add_argument("--width", type=int, default=300, help="bytes of a row, about (default 300)")


def run(
    seconds: float,
    out: Path,
    rows: int = 10_000_000,
    subscribers: int = 1_000,
    writers: int = 0,
    width: int = 300,
) -> Figures:
    with _filled(rows, width) as url, tempfile.TemporaryDirectory() as scratch:
        limits = replace(DEFAULT, partial_rows_min=min(DEFAULT.partial_rows_min, rows // 2))
        server = Server(url, runner="inline", data_dir=Path(scratch), limits=limits).start()
        with Database(lambda session: Embedded(server, session)) as db:
            lives, keys = list[LiveResult](), random.Random(0).sample(range(1, rows + 1), subscribers)
            lives.append(db.query(_SQL, keys[0], live=True))  # which captures the table
            alone = _settled(url, Path(scratch))
            with _writing(url, rows, writers):
                figures = _measured(server, db, lives, keys[1:])
            figures |= {"rows": rows, "subscribers": subscribers, "writers": writers}
            figures |= _on_disk(alone, _settled(url, Path(scratch)), figures["asked_bytes"])
        figures |= _counted(server)
    _console.print(_table(figures))
    (out / "partial.json").write_text(json.dumps(figures, indent=1))
    return figures


@contextmanager
def _filled(rows: int, width: int) -> Iterator[str]:
    server = Postgres(VERSIONS[0], {"fsync": "on", "max_wal_size": "8GB"})
    try:
        server.start()
        with _console.status(f"a table of {rows:,} rows …"), server.connect() as db:
            db.execute(_CREATE)
            db.execute(_FILL.format(_note(width), rows).encode())
            db.execute("ANALYZE big")
            db.execute("CHECKPOINT")
        yield server.url()
    finally:
        server.remove()


def _note(width: int) -> str:
    """A text that does not compress to less than half of its length."""
    return " || ".join(
        ["'note '", *(f"md5((n + {part}000000000)::text)" for part in range(max(1, width // _DIGEST_BYTES)))]
    )


@contextmanager
def _writing(url: str, rows: int, writers: int) -> Iterator[None]:
    over = threading.Event()

    def write(seed: int) -> None:
        chance = random.Random(seed)
        with psycopg.connect(url, autocommit=True) as db:
            while not over.wait(0.005):
                db.execute("UPDATE big SET customer = customer + 1 WHERE id = %s", (chance.randrange(1, rows + 1),))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _measured(server: Server, db: Database, lives: list[LiveResult], keys: list[int]) -> Figures:
    source = server.pipeline.source
    assert isinstance(source, PostgresSource)
    first_s, baseline_s, questions = list[float](), list[float](), server.pipeline.keys.questions
    for number, key in enumerate(keys):
        first_s.append(_took(lambda key=key: lives.append(db.query(_SQL, key, live=True))))
        if number % _BASELINE_EVERY == 0:
            baseline_s.append(_took(lambda key=key: _asked(source, key)))
    end = db.position()
    assert all(live.wait(end) and len(live.rows) == 1 for live in lives)
    db.verify(lives[-1])
    cache = source._slot.row_cache
    assert cache is not None
    answer = source.query(f"{_ALL} IN ({', '.join(map(str, keys))})").rows
    return {
        "first_ms_p50": _p50(first_s),
        "first_ms_p99": float(np.percentile(first_s, 99)) * 1000,
        "select_ms_p50": _p50(baseline_s),
        "times": _p50(first_s) / _p50(baseline_s),
        "questions": server.pipeline.keys.questions - questions,
        "captured_rows": sum(1 for capture in cache.captures.values() for _ in cache.all(capture)),
        "asked_bytes": sum(len(str(value).encode()) for row in answer for value in row),
    }


def _asked(source: PostgresSource, key: int) -> None:
    with source.moment() as moment:
        answer = moment.query(_SQL, (key,))
        assert answer is not None and len(answer.rows) == 1


def _took(what: Any) -> float:
    began_s = time.perf_counter()
    what()
    return time.perf_counter() - began_s


def _p50(seconds: list[float]) -> float:
    return float(np.percentile(seconds, 50)) * 1000


def _settled(url: str, data_dir: Path) -> dict[str, int]:
    """The bytes of the data directory by kind of file, once what is no longer needed has gone. Some rows change
    meanwhile: a log that stands still is not cleared away."""
    until_s = time.monotonic() + _SETTLE_S
    with psycopg.connect(url, autocommit=True) as db:
        while time.monotonic() < until_s:
            db.execute("UPDATE big SET customer = customer + 1 WHERE id = 1")
            time.sleep(0.5)
    sizes = dict.fromkeys((*_KINDS, "other"), 0)
    for path in data_dir.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                sizes[_kind(path.relative_to(data_dir))] += path.stat().st_size
    return sizes


def _kind(path: Path) -> str:
    return next((kind for kind in _KINDS if any(part.startswith(kind) for part in path.parts)), "other")


def _on_disk(alone: dict[str, int], now: dict[str, int], asked: int) -> Figures:
    """`times` the bytes of the rows asked for: what the directory grew by, all of it, and what is not history."""
    grown = {kind: now[kind] - alone[kind] for kind in now}
    sizes = {f"{kind}_bytes_grown": grown[kind] for kind in grown}
    total, history = sum(grown.values()), grown["diffs"]
    return {
        "directory_bytes_alone": sum(alone.values()),
        **sizes,
        "directory_bytes_grown": total,
        "directory_times": total / asked,
        "state_times": (total - history) / asked,
    }


def _counted(server: Server) -> Figures:
    """After the end: the state is saved."""
    layout = server.pipeline.layout
    manifest = read_manifest(layout.cell(0))
    assert manifest is not None
    return {"held_rows": len(Dataflow.load(layout.state(0), manifest.state)._state.stores["big"])}


def _table(figures: Figures) -> Table:
    table = Table(title="a large table held by key: one row a subscriber", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    return table
