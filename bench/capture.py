"""`./dev bench capture`: how fast PostgreSQL's changes reach the log, beside the raw stream and beside decoding alone.

One run on a server of its own: updates and inserts, taken from the backlog of a slot of its own by each in turn. The
raw stream is received only; decoding alone receives and decodes, once row by row into typed values and once into typed
columns, as capture does; capture receives, decodes, finds the old images, and makes both durable in the log. Then the
time from a commit to the durable log; what a writer (pgbench) loses while we capture; and the rate of a snapshot. Rates
are by the CPU time of this process, so that a busy machine does not pass for a slow capture; rates by the clock stand
beside them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from headwater.log.segment import SegmentWriter
from headwater.model.change import Transaction
from headwater.model.limits import DEFAULT
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.pipeline.capture import Capture
from headwater.sources.postgres.catalog import publication as publishing
from headwater.sources.postgres.decode.tuple_columns import batch_of, cells_at
from headwater.sources.postgres.server.connections import Sessions
from headwater.sources.postgres.server.lsn import parse_lsn
from headwater.sources.postgres.server.value_types import BUILT_IN, Parse
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.postgres.wire.messages import Insert, Update
from headwater.sources.postgres.wire.pgoutput import MessageDecoder
from headwater.sources.postgres.wire.replication import Replication
from headwater.sources.postgres.wire.simple_transactions import SimpleTransactions
from headwater.sources.postgres.wire.transaction_assembly import Assembly
from tests.support.postgres import BINARIES, VERSIONS, Postgres

ROWS = 500_000
CHANGES = 100_000
BATCH = 100  # rows of one transaction
ROUNDS = 5  # medians are told
PAUSE_S = 0.005  # between the commits whose way is timed
_CREATE = f"""
CREATE TABLE account (id int PRIMARY KEY, branch int NOT NULL, balance bigint NOT NULL, note text, committing float8);
INSERT INTO account SELECT n, n % 100, n * 7, 'account number ' || n, 0 FROM generate_series(1, {ROWS}) n;
CREATE SEQUENCE account_id START {ROWS + 1};
"""
_CAPTURED = "captured, durable in the log"
_UPDATE = "UPDATE account SET balance = balance + 1, note = 'changed ' || balance WHERE id = ANY (%s)"
_INSERT = """
INSERT INTO account SELECT nextval('account_id'), n %% 100, n, 'account number ' || n, 0 FROM unnest(%s::int[]) n
"""
_ONE = "UPDATE account SET balance = balance + 1, committing = %s WHERE id = %s"
_TPS = re.compile(r"tps = ([\d.]+)")
Round = dict[str, tuple[float, float]]
_console = Console(width=110)


@dataclass(frozen=True, slots=True)
class Line:
    what: str
    figure: float
    unit: str
    target: float | None = None
    by_clock: float | None = None


def run(seconds: float, out: Path) -> None:
    lines = []
    with tempfile.TemporaryDirectory() as scratch, _server() as server:
        for line in _lines(server, Path(scratch), seconds):
            _console.print(f"  {line.what}: {line.figure:,.2f} {line.unit}", style="dim")
            lines.append(line)
    _console.print(_table(lines))
    (out / "capture.json").write_text(json.dumps([asdict(line) for line in lines], indent=1))


def _table(lines: Sequence[Line]) -> Grid:
    grid = Grid("what", "figure", "unit", "target", "by the clock", title=f"capture; load {os.getloadavg()[0]:.1f}")
    for line in lines:
        target = "" if line.target is None else f"≥ {line.target:,.0f}"
        clock = "" if line.by_clock is None else f"{line.by_clock:,.0f}"
        grid.add_row(
            line.what, f"{line.figure:,.2f}" if line.figure < 100 else f"{line.figure:,.0f}", line.unit, target, clock
        )
    return grid


@contextmanager
def _server() -> Iterator[Postgres]:
    server = Postgres(VERSIONS[0])
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _lines(server: Postgres, scratch: Path, seconds: float) -> Iterator[Line]:
    with server.connect() as db:
        db.execute(_CREATE)
    source = PostgresSource(server.url())
    source.attach(scratch / "data")
    table = source.capture("account")
    yield _snapshot(source)
    yield from _rates(server, source, table, scratch)
    yield from _latency(server, source, table, scratch, seconds)
    source.close()
    yield from _slowdown(server, scratch, seconds / 3)


def _snapshot(source: PostgresSource) -> Line:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    with source.snapshot("account") as snapshot:
        rows = sum(batch.num_rows for batch in snapshot)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    return Line("snapshot", rows / cpu_s, "rows/s", 300_000, rows / wall_s)


def _rates(server: Postgres, source: PostgresSource, table: Table, scratch: Path) -> Iterator[Line]:
    publication = publishing.name_for(scratch / "data")
    readings: dict[str, Callable[[list[bytes]], None]] = {
        "the raw stream, received": lambda _: None,
        "received, and decoded row by row": _Rows(table).decode,
        "received, and decoded to columns": _Columns(table).decode,
    }
    slots = {name: _slot(server, f"bench_{n}", publication) for n, name in enumerate(readings)}
    with _capturing(source, table, scratch / "log") as capture:
        _write(server, _UPDATE, BATCH)  # what is imported and made ready at first use is no part of a rate
        for name, slot in slots.items():
            _received(slot, b"U", BATCH, readings[name])
        capture.start()
        capture.reached(source.position())
    for what, kind, sql in (("updates", b"U", _UPDATE), ("inserts", b"I", _INSERT)):
        rounds: list[Round] = []
        for n in range(ROUNDS):
            _write(server, sql, CHANGES, seed=n + 1)
            took = {name: _timed(partial(_received, slots[name], kind, CHANGES, readings[name])) for name in readings}
            with _capturing(source, table, scratch / "log", capture.position) as capture:
                position = source.position()
                capture.start()
                took[_CAPTURED] = _timed(partial(capture.reached, position))
            took["settled in our files, afterwards"] = _timed(partial(source.forget, position))
            rounds.append(took)
        yield from _medians(what, rounds, list(readings)[1:])
    for slot in slots.values():
        slot.close()


def _medians(what: str, rounds: Sequence[Round], decodings: Sequence[str]) -> Iterator[Line]:
    """Of the rates, and of the shares that capture reached within each round."""
    for name in rounds[0]:
        cpu_s, wall_s = (float(np.median([took[name][clock] for took in rounds])) for clock in (0, 1))
        yield Line(f"{what}: {name}", CHANGES / cpu_s, "rows/s", None, CHANGES / wall_s)
    for name in decodings:
        shares = [100 * took[name][0] / took[_CAPTURED][0] for took in rounds]
        yield Line(f"{what}: captured, of {name}", float(np.median(shares)), "%", 70)


def _slot(server: Postgres, name: str, publication: str) -> Replication:
    with server.connect() as db:
        row = db.execute("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (name,)).fetchone()
        assert row is not None
    return Replication(Sessions(server.url()), name, publication, parse_lsn(row[0]))


class _Rows:
    """Decoding alone, as one would write it: message by message, into tuples of typed values."""

    def __init__(self, table: Table) -> None:
        self._decoder, self._parsers = MessageDecoder(), _parsers(table)

    def decode(self, payloads: list[bytes]) -> None:
        for message in map(self._decoder.decode, payloads):
            if isinstance(message, Insert | Update):
                cells = zip(message.new, self._parsers, strict=True)
                tuple([parse(cell) if isinstance(cell, bytes) else None for cell, parse in cells])


class _Columns:
    """Decoding alone, as capture does it: whole transactions at once, into Arrow columns."""

    def __init__(self, table: Table) -> None:
        types = [column.type for column in table.columns]
        self._assembly, self._schema = Assembly(), table.arrow
        self._columns = list(zip(types, _parsers(table), strict=True))

    def decode(self, payloads: list[bytes]) -> None:
        for some in self._assembly.take_all(payloads):
            if isinstance(some, SimpleTransactions):
                cells = cells_at(some, some.at + 6, len(self._columns))
                batch_of(cells, self._columns, self._schema)


def _parsers(table: Table) -> list[Parse]:
    oids = {Type.INTEGER: 20, Type.TEXT: 25, Type.REAL: 701}
    return [BUILT_IN.parser(oids[column.type]) for column in table.columns]


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    """Its seconds: of this process's CPU, and by the clock."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu_s, time.perf_counter() - wall_s


def _write(server: Postgres, sql: str, rows: int, seed: int = 0) -> None:
    chance = np.random.default_rng(seed)
    with server.connect() as db:
        for _ in range(rows // BATCH):
            db.execute(sql, ((chance.choice(ROWS, BATCH, replace=False) + 1).tolist(),))


def _received(replication: Replication, kind: bytes, rows: int, reading: Callable[[list[bytes]], None]) -> None:
    """The backlog up to so many changes of a kind, from a slot of its own, and what is done with it."""
    found = 0
    while found < rows:
        fresh = replication.read(1.0).payloads
        found += sum([payload[:1] == kind for payload in fresh])
        reading(fresh)


@contextmanager
def _capturing(
    source: PostgresSource,
    table: Table,
    log: Path,
    position: int | None = None,
    seen: Callable[[Sequence[Transaction]], None] = lambda _: None,
) -> Iterator[Capture]:
    def on_changes(transactions: Sequence[Transaction], _: Mapping[str, Table]) -> None:
        seen(transactions)

    writer = SegmentWriter(log)
    start = table.schema_id if position is None else position
    capture = Capture(source, writer, start, DEFAULT, lambda _: None, on_changes)
    capture.tables[table.name] = table
    yield capture
    capture.stop()
    writer.close()


def _latency(server: Postgres, source: PostgresSource, table: Table, scratch: Path, seconds: float) -> Iterator[Line]:
    """From just before COMMIT to when readers of the log may see it, fsynced, once all of before is written."""
    with server.connect() as db:
        db.execute("VACUUM ANALYZE account")
        db.execute("CHECKPOINT")
    os.sync()
    ways_ms: list[float] = []
    pending: list[float] = []

    def seen(transactions: Sequence[Transaction]) -> None:
        rows = (change.new for one in transactions for change in one.changes if change.new is not None)
        pending.extend(at for row in rows if isinstance(at := row[-1], float) and at)

    with _capturing(source, table, scratch / "log", source.position(), seen) as capture, server.connect() as db:
        append = capture._append

        def appended(transactions: Sequence[Transaction]) -> None:
            append(transactions)
            now_s = time.monotonic()
            ways_ms.extend(1000 * (now_s - at) for at in pending)
            pending.clear()

        capture._append = appended  # type: ignore[method-assign]
        capture.start()
        until_s, id = time.monotonic() + seconds, 0
        while time.monotonic() < until_s:
            id = id % ROWS + 1
            db.execute(_ONE, (time.monotonic(), id))
            time.sleep(PAUSE_S)
        capture.reached(source.position())
    for name, percentile in (("p50", 50), ("p99", 99)):
        yield Line(f"commit → log, {name} of {len(ways_ms):,}", float(np.percentile(ways_ms, percentile)), "ms")


def _slowdown(server: Postgres, scratch: Path, seconds: float) -> Iterator[Line]:
    """pgbench, two clients: alone, with our slot left unread, and while we capture its tables."""
    _pgbench(server, "-i", "-q", "-s", "5")
    alone = _tps(server, seconds)
    source = PostgresSource(server.url())
    source.attach(scratch / "pgbench")
    tables = [source.capture(f"pgbench_{name}") for name in ("accounts", "branches", "tellers")]
    with _capturing(source, tables[0], scratch / "pgbench-log") as capture:
        capture.tables |= {table.name: table for table in tables}
        capture.position = source.position()
        capture.start()
        beside = _tps(server, seconds)
    source.close()
    yield Line("pgbench alone", alone, "tx/s")
    yield Line("pgbench while captured", beside, "tx/s")
    yield Line("the writer's slowdown", 100 * (1 - beside / alone), "%")


def _tps(server: Postgres, seconds: float) -> float:
    found = _TPS.search(_pgbench(server, "-c", "2", "-T", str(max(1, int(seconds)))))
    assert found is not None
    return float(found[1])


def _pgbench(server: Postgres, *words: str) -> str:
    program = BINARIES[server.version] / "pgbench"
    return subprocess.run(
        [program, *words, server.url()], capture_output=True, text=True, check=True, timeout=600
    ).stdout
