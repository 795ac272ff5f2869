"""What a PostgreSQL source keeps beside the origin, in one SQLite file of the data directory: captured tables in their
shapes, and the rows of each by key, at one position.

PostgreSQL tells of an update little more than the new row: what was there before, we know from here. Rows are kept in
memory from the moment they are reported until the log is durable past them, and only then go into the file. So after a
crash the file stands at or before what is asked for, and is brought there by the same changes again.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headwater.model.keys import encode_value
from headwater.model.packing import storable, stored
from headwater.model.schema import Table
from headwater.model.value import Row, Value

FILE = "postgres.db"
_AHEAD = 512  # keys of one statement
_TABLES = """
CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS captures(oid INTEGER PRIMARY KEY, capture BLOB);
CREATE TABLE IF NOT EXISTS rows(oid INTEGER, key BLOB, row BLOB, count INTEGER, PRIMARY KEY (oid, key)) WITHOUT ROWID;
"""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ext_hook=stored).decode


_AS_THEY_ARE = frozenset({type(None), bool, int, str, bytes})  # where equal values look the same


def _encode_row(row: Row) -> bytes:
    return _encode(storable(row))


class Captured(msgspec.Struct, frozen=True):
    """A table in one shape. `types` are oids, by column; changes up to `since` are in its rows already.

    `identity` are the places of the columns that tell one row from another; all of them where there is no key.
    `file` and `parts` are as in `Shape`.
    """

    oid: int
    table: Table
    types: tuple[int, ...]
    identity: tuple[int, ...]
    since: int
    file: int
    parts: frozenset[int] = frozenset()

    def key(self, row: Row) -> bytes:
        return self.key_of([row[place] for place in self.identity])

    def key_of(self, values: Sequence[Value]) -> bytes:
        """The values of the columns that tell rows apart, as one: by what is equal, or to the bit where that is all."""
        if len(values) == 1 and type(values[0]) in _AS_THEY_ARE:
            return _encode(values)
        if not self.table.key:
            return _encode(storable(values))
        return _encode([value if type(value) in _AS_THEY_ARE else encode_value(value) for value in values])

    def padded(self, row: Row) -> Row:
        """A row that may be older than the last columns."""
        missing = self.table.columns[len(row) :]
        return row + tuple(column.default for column in missing) if missing else row


_decode_capture = msgspec.msgpack.Decoder(Captured).decode


@dataclass(slots=True)
class Held:
    """What is under a key, and never changed. A row without a key of its own may be there several times."""

    row: Row
    count: int


_Key = tuple[int, bytes]
_Written = dict[_Key, Held | None]


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """What one transaction left behind, and the tables that it ended or gave another shape."""

    position: int
    rows: _Written
    captures: dict[int, Captured | None]


class Keeping:
    """Belongs to whoever holds the source's lock; the file's own lock is for `settle`, which comes from elsewhere."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        self.is_new = not self.path.exists()
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_TABLES)
        self._db.execute("DELETE FROM rows WHERE oid NOT IN (SELECT oid FROM captures)")  # a seeding that was cut off
        self._lock = threading.RLock()
        self._unsettled: deque[_Unsettled] = deque()
        self._latest: _Written = {}
        self._ahead: _Written = {}
        self.captures = self._read_captures()
        self.position = self.number("position")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # Numbers and tables

    def number(self, name: str) -> int:
        with self._lock:
            row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def note(self, name: str, value: int) -> None:
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def begin(self, capture: Captured) -> None:
        """A table whose rows are there. At once and for good: it is not told through the log."""
        self.captures[capture.oid] = capture
        with self._lock:
            self._db.execute(*_putting(capture))

    def reshape(self, position: int, capture: Captured) -> None:
        """A table has another shape from the transaction at `position` on."""
        self.captures[capture.oid] = capture
        self._unsettled.append(_Unsettled(position, {}, {capture.oid: capture}))

    def drop(self, position: int, oid: int) -> None:
        """A table is over from the transaction at `position` on."""
        self.captures.pop(oid, None)
        self._unsettled.append(_Unsettled(position, {}, {oid: None}))

    def _read_captures(self) -> dict[int, Captured]:
        with self._lock:
            raw = self._db.execute("SELECT capture FROM captures").fetchall()
        return {one.oid: one for one in (_decode_capture(row[0]) for row in raw)}

    # Rows

    def seed(self, capture: Captured, batches: Iterable[list[Row]]) -> None:
        """The rows of a table, as they were at `since`, in place of any that were there. In steps: others go on."""
        self._purge(capture.oid)
        for rows in batches:
            encoded = [(capture.oid, capture.key(row), _encode_row(row)) for row in rows]
            with self._lock, self._transaction():
                self._db.executemany(
                    "INSERT INTO rows VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1", encoded
                )

    def _purge(self, oid: int) -> None:
        """Of an earlier capture of the table nothing is left, settled or not."""
        with self._lock, self._transaction():
            self._db.execute("DELETE FROM captures WHERE oid = ?", (oid,))
            self._db.execute("DELETE FROM rows WHERE oid = ?", (oid,))
        self._latest = _without(self._latest, oid)
        for one in self._unsettled:
            one.captures.pop(oid, None)
            for key in [key for key in one.rows if key[0] == oid]:
                del one.rows[key]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    @contextmanager
    def looking_ahead(self, wanted: Iterable[_Key]) -> Iterator[None]:
        """What the file has under many keys, read at once: cheaper than one by one. Nothing may settle meanwhile."""
        by_table: dict[int, list[bytes]] = defaultdict(list)
        for oid, key in {place for place in wanted if place not in self._latest}:
            by_table[oid].append(key)
        for oid, keys in by_table.items():
            for at in range(0, len(keys), _AHEAD):
                self._look_ahead(oid, keys[at : at + _AHEAD])
        try:
            yield
        finally:
            self._ahead = {}

    def _look_ahead(self, oid: int, keys: Sequence[bytes]) -> None:
        places = ",".join("?" * len(keys))
        sql = f"SELECT key, row, count FROM rows WHERE oid = ? AND key IN ({places})"
        with self._lock:
            found = self._db.execute(sql, (oid, *keys)).fetchall()
        self._ahead |= {(oid, key): Held(tuple(_decode(row)), count) for key, row, count in found}

    def held(self, capture: Captured, key: bytes) -> Held | None:
        place = (capture.oid, key)
        if place in self._latest:
            return self._latest[place]
        if place in self._ahead:
            return self._ahead[place]
        with self._lock:
            found = self._db.execute("SELECT row, count FROM rows WHERE oid = ? AND key = ?", place).fetchone()
        return Held(tuple(_decode(found[0])), found[1]) if found else None

    def all(self, capture: Captured) -> Iterator[tuple[bytes, Held]]:
        """Everything of a table, as of the last write."""
        oid = capture.oid
        with self._lock:
            stored = self._db.execute("SELECT key, row, count FROM rows WHERE oid = ?", (oid,)).fetchall()
        for key, row, count in stored:
            if (oid, key) not in self._latest:
                yield key, Held(tuple(_decode(row)), count)
        for (owner, key), held in list(self._latest.items()):
            if owner == oid and held is not None:
                yield key, held

    def write(self, position: int, written: _Written) -> None:
        """What a transaction left behind."""
        if written:
            with self._lock:
                self._unsettled.append(_Unsettled(position, written, {}))
                self._latest.update(written)

    def settle(self, position: int) -> None:
        """The log is durable up to here: what was written up to here goes into the file."""
        if position <= self.position:
            return
        rows: _Written = {}
        with self._lock, self._transaction():
            while self._unsettled and self._unsettled[0].position <= position:
                one = self._unsettled.popleft()
                rows |= one.rows
                for oid, capture in one.captures.items():
                    if capture is None:
                        rows, self._latest = _without(rows, oid), _without(self._latest, oid)
                    self._settle_capture(oid, capture)
            self._settle_rows(rows)
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('position', ?)", (position,))
            for key, held in rows.items():
                if self._latest.get(key) is held:  # else a later transaction wrote there
                    self._latest.pop(key, None)
        self.position = position

    def _settle_capture(self, oid: int, capture: Captured | None) -> None:
        if capture is not None:
            self._db.execute(*_putting(capture))
        else:
            self._db.execute("DELETE FROM captures WHERE oid = ?", (oid,))
            self._db.execute("DELETE FROM rows WHERE oid = ?", (oid,))

    def _settle_rows(self, rows: _Written) -> None:
        gone = [key for key, held in rows.items() if held is None]
        self._db.executemany("DELETE FROM rows WHERE oid = ? AND key = ?", gone)
        there = [(*key, _encode_row(held.row), held.count) for key, held in rows.items() if held is not None]
        self._db.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", there)

    def rewind(self) -> None:
        """Forgets what was not settled: the changes are read again from `position` on."""
        self._unsettled.clear()
        self._latest.clear()
        self.captures = self._read_captures()


def _without(rows: _Written, oid: int) -> _Written:
    return {key: held for key, held in rows.items() if key[0] != oid}


def _putting(capture: Captured) -> tuple[str, tuple[int, bytes]]:
    return "INSERT OR REPLACE INTO captures VALUES (?, ?)", (capture.oid, _encode(capture))
