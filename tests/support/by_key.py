"""Tables held by key, written by several connections and watched by subscribers that come and go: what they were told
is compared with the journal that the writers keep inside their transactions, at every position."""

from __future__ import annotations

import dataclasses
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import headwater
from headwater.engine.dataflow import Dataflow
from headwater.model.emission import Diff, Emission, State, apply
from headwater.model.limits import DEFAULT
from headwater.pipeline.cell.manifest import read_manifest
from headwater.pipeline.data_dir.layout import Layout
from tests.support.databases import Place

BY_KEY = dataclasses.replace(DEFAULT, partial_rows_min=0)
IDS, CUSTOMERS, REGIONS = 60, 8, 3
ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, region INTEGER, note TEXT)"
JOURNAL = (
    "CREATE TABLE journal (n {} PRIMARY KEY, id INTEGER, customer INTEGER, region INTEGER, note TEXT, gone INTEGER)"
)
QUERIES: tuple[tuple[str, int], ...] = (
    ("SELECT id, customer, region, note FROM orders WHERE id = ?", IDS),
    ("SELECT id, customer, region, note FROM orders WHERE customer = ?", CUSTOMERS),
    ("SELECT id, customer, region, note FROM orders WHERE customer = ? ORDER BY note DESC, id LIMIT 3", CUSTOMERS),
    ("SELECT id, customer, region, note FROM orders WHERE region = ? AND id > 10", REGIONS),
    ("SELECT id, customer, region, note FROM orders WHERE id IN (?, 3, 5)", IDS),
    ("SELECT id, customer, region, note FROM orders WHERE id IN (1, ?, 4) ORDER BY note, id LIMIT 2", IDS),
)
_PATIENCE_S = 120.0
Row = tuple[Any, ...]


def state_rows(data_dir: Path, table: str = "orders") -> int:
    """How many rows of a table the saved state of the first cell holds."""
    layout = Layout(data_dir)
    manifest = read_manifest(layout.cell(0))
    if manifest is None:
        return 0
    stores = Dataflow.load(layout.state(0), manifest.state)._state.stores
    return len(stores[table]) if table in stores else 0


# — writers


def opened(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60, isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def created(url: str) -> None:
    """The table with its first rows, and the journal."""
    is_sqlite = url.startswith("sqlite")
    db = opened(url)
    if is_sqlite:
        db.execute("PRAGMA journal_mode = WAL")
    db.execute(ORDERS)
    db.execute(JOURNAL.format("INTEGER" if is_sqlite else "serial"))
    chance = random.Random(0)
    for id in range(IDS):
        _run(db, "INSERT INTO orders VALUES (?, ?, ?, ?)", _row(chance, id))
    db.close()


def _run(db: Any, sql: str, values: Sequence[Any]) -> list[Row]:
    if isinstance(db, sqlite3.Connection):
        return db.execute(sql, values).fetchall()
    cursor = db.execute(sql.replace("?", "%s").encode(), values)
    return cursor.fetchall() if cursor.description else []


def _row(chance: random.Random, id: int) -> Row:
    return id, chance.randrange(CUSTOMERS), chance.randrange(REGIONS), f"note {chance.randrange(100)}"


def write(url: str, seed: int, is_enough: Callable[[], bool]) -> None:
    """Transactions of a few statements, each for one row, some of them rolled back."""
    chance, db = random.Random(seed), opened(url)
    until_s = time.monotonic() + _PATIENCE_S
    while not is_enough() and time.monotonic() < until_s:
        db.execute("BEGIN IMMEDIATE" if isinstance(db, sqlite3.Connection) else "BEGIN")
        ids = sorted(chance.sample(range(IDS), chance.randrange(1, 4)))  # in this order: so nobody waits in a circle
        for id in ids:
            _change(db, chance, id)
        db.execute("ROLLBACK" if chance.random() < 0.1 else "COMMIT")
        time.sleep(0.002)
    db.close()


def _change(db: Any, chance: random.Random, id: int) -> None:
    what, row = chance.random(), _row(chance, id)
    if what < 0.2:
        gone = _run(db, "DELETE FROM orders WHERE id = ? RETURNING id", (id,))
        done = [(id, None, None, None, 1) for (id,) in gone]
    elif what < 0.6:
        sql = "UPDATE orders SET customer = ? WHERE id = ? RETURNING id, customer, region, note"
        done = [(*one, 0) for one in _run(db, sql, (row[1], id))]
    else:
        sql = (
            "INSERT INTO orders VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET customer = excluded.customer, "
            "region = excluded.region, note = excluded.note RETURNING id, customer, region, note"
        )
        done = [(*one, 0) for one in _run(db, sql, row)]
    for one in done:
        _run(db, "INSERT INTO journal (id, customer, region, note, gone) VALUES (?, ?, ?, ?, ?)", one)


# — subscribers


@dataclass(slots=True)
class Seen:
    """A subscription: its query, and its rows after everything that it was told, by position."""

    sql: str
    key: int
    live: headwater.LiveResult
    first: State = field(init=False)
    told: list[Emission] = field(default_factory=list)
    until: int = 0

    def __post_init__(self) -> None:
        self.live.listen(lambda emission: self.told.append(emission) if emission is not None else None)
        self.first = self.live.snapshot

    def leave(self, position: int) -> None:
        """Right up to this position, which it is waited for."""
        assert self.live.wait(position, timeout=_PATIENCE_S), self.sql
        self.until = position
        self.live.abort(forget=True)

    def states(self, positions: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        """The rows at each of these positions that it was there for."""
        state, left = self.first, [one for one in self.told if one.seq > self.first.seq]
        for position in positions:
            while left and left[0].position <= position:
                state = apply(state, left.pop(0))
            if self.first.position <= position <= self.until:
                yield position, [tuple(row.values()) for row in state.rows]


@dataclass(slots=True)
class Journal:
    """The table at every position, as the writers say."""

    rows: dict[int, Row]
    changes: list[tuple[int, list[Row]]] = field(default_factory=list)

    def take(self, emission: Emission | None) -> None:
        if emission is not None:
            assert isinstance(emission, Diff), "the journal is only ever written to"
            new = [change.new for change in emission.changes if change.new is not None]
            self.changes.append((emission.position, sorted(tuple(row.values()) for row in new)))

    def moments(self) -> Iterator[tuple[int, dict[int, Row]]]:
        for position, changes in self.changes:
            for _, id, customer, region, note, gone in changes:
                self.rows.pop(id, None)
                if not gone:
                    self.rows[id] = id, customer, region, note
            yield position, self.rows


def expected(sql: str, key: int, rows: dict[int, Row]) -> list[Row]:
    scratch = sqlite3.connect(":memory:")
    scratch.execute(ORDERS)
    scratch.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows.values())
    found = scratch.execute(sql, (key,)).fetchall()
    scratch.close()
    return found


def check(journal: Journal, seen: Sequence[Seen]) -> int:
    """Every subscription at every position that it was there for; how many that were."""
    positions = [position for position, _ in journal.changes]
    told = [(one, dict(one.states(positions))) for one in seen]
    checks = 0
    for position, rows in journal.moments():
        for one, states in told:
            if position in states:
                checks += 1
                right, found = expected(one.sql, one.key, rows), states[position]
                if "ORDER BY" not in one.sql:
                    right, found = sorted(right), sorted(found)
                assert found == right, f"{one.sql} for {one.key} at {position}"
    return checks


def first_rows(url: str) -> dict[int, Row]:
    db = opened(url)
    found = {row[0]: tuple(row) for row in db.execute("SELECT id, customer, region, note FROM orders").fetchall()}
    db.close()
    return found


class Writers:
    """Several connections that write until they are told to stop."""

    def __init__(self, url: str, count: int, seed: int) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=write, args=(url, 100 * seed + n, self._stop.is_set)) for n in range(count)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def subscribed(here: Place, sql: str, key: int) -> Seen:
    is_postgres = here.server.pipeline.source.dialect == "postgres"
    return Seen(sql, key, here.db.query(sql.replace("?", "$1") if is_postgres else sql, key, live=True))


def come_and_go(place: Place, chance: random.Random, arrivals: int, is_enough: Callable[[], bool]) -> list[Seen]:
    """Subscribers that come one after the other, so many, and until it is enough; some leave again meanwhile, all at
    the end."""
    here: list[Seen] = []
    left: list[Seen] = []
    until_s = time.monotonic() + _PATIENCE_S
    while len(here) + len(left) < arrivals or not (is_enough() or time.monotonic() > until_s):
        sql, keys = chance.choice(QUERIES)
        key = chance.randrange(keys)
        here.append(subscribed(place, sql, key))
        if len(here) > 8:
            going = here.pop(chance.randrange(len(here)))
            going.leave(place.db.position())
            left.append(going)
            place.server.pipeline.evict()
    end = place.db.position()
    for one in here:
        one.leave(end)
    return [*left, *here]
