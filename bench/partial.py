"""`./dev bench partial`: a large table on PostgreSQL, and subscribers that ask for one row of it each, by its key.

Each subscriber's way to its first result is measured, and now and then beside it what the database itself takes: a
snapshot whose position is known, and an indexed SELECT in it. Counted are the questions, the rows held by the cell and
by the capture, and the bytes of the data directory beside those of the rows asked for. With `--writers`, connections
write to the table while subscribers come.
"""

from __future__ import annotations

import argparse
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
from headwater.engine.dataflow import Dataflow
from headwater.gateway.server import Server
from headwater.model.limits import DEFAULT
from headwater.pipeline.cell.manifest import read_manifest
from headwater.sources.postgres.source import PostgresSource
from tests.support.postgres import VERSIONS, Postgres

_SQL = "SELECT id, customer, note FROM big WHERE id = $1"
_ALL = "SELECT id, customer, note FROM big WHERE id"
_CREATE = "CREATE TABLE big (id int PRIMARY KEY, customer int, note text)"
_FILL = "INSERT INTO big SELECT n, n % 1000, 'note ' || md5(n::text) || md5((-n)::text) FROM generate_series(1, {}) n"
_BASELINE_EVERY = 5
_console = Console()
Figures = dict[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table (default 10,000,000)")
    parser.add_argument("--subscribers", type=int, default=1_000)
    parser.add_argument("--writers", type=int, default=0, help="connections that write meanwhile (default 0)")


def run(seconds: float, out: Path, rows: int = 10_000_000, subscribers: int = 1_000, writers: int = 0) -> Figures:
    with _filled(rows) as url, tempfile.TemporaryDirectory() as scratch:
        limits = replace(DEFAULT, partial_rows_min=min(DEFAULT.partial_rows_min, rows // 2))
        server = Server(url, runner="inline", data_dir=Path(scratch), limits=limits).start()
        with Database(lambda session: Embedded(server, session)) as db, _writing(url, rows, writers):
            figures = _measured(server, db, rows, subscribers)
        figures |= _counted_on_disk(server, Path(scratch))
    _console.print(_table(figures))
    (out / "partial.json").write_text(json.dumps(figures, indent=1))
    return figures


@contextmanager
def _filled(rows: int) -> Iterator[str]:
    server = Postgres(VERSIONS[0], {"fsync": "on", "max_wal_size": "8GB"})
    try:
        server.start()
        with _console.status(f"a table of {rows:,} rows …"), server.connect() as db:
            db.execute(_CREATE)
            db.execute(_FILL.format(rows).encode())
            db.execute("ANALYZE big")
            db.execute("CHECKPOINT")
        yield server.url()
    finally:
        server.remove()


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


def _measured(server: Server, db: Database, rows: int, subscribers: int) -> Figures:
    source, keys = server.pipeline.source, random.Random(0).sample(range(1, rows + 1), subscribers)
    assert isinstance(source, PostgresSource)
    first_s, baseline_s = list[float](), list[float]()
    lives = [db.query(_SQL, keys[0], live=True)]  # which captures the table
    questions = server.pipeline.keys.questions
    for number, key in enumerate(keys[1:]):
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
        "rows": rows,
        "subscribers": subscribers,
        "first_ms_p50": _p50(first_s),
        "first_ms_p99": float(np.percentile(first_s, 99)) * 1000,
        "select_ms_p50": _p50(baseline_s),
        "times": _p50(first_s) / _p50(baseline_s),
        "questions": server.pipeline.keys.questions - questions + 1,
        "captured_rows": sum(1 for capture in cache.captures.values() for _ in cache.all(capture)),
        "asked_bytes": sum(len(repr(row)) for row in answer),
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


def _counted_on_disk(server: Server, data_dir: Path) -> Figures:
    """After the end: the state is saved."""
    layout = server.pipeline.layout
    manifest = read_manifest(layout.cell(0))
    assert manifest is not None
    held = Dataflow.load(layout.state(0), manifest.state)._state.stores["big"]
    parts = {"state": layout.cell(0) / "state", "capture": data_dir / "postgres", "log": layout.log}
    sizes = {f"{name}_bytes": _size(path) for name, path in parts.items()}
    return {"held_rows": len(held), **sizes, "directory_bytes": _size(data_dir)}


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _table(figures: Figures) -> Table:
    table = Table(title="a large table held by key: one row a subscriber", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    return table
