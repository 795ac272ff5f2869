"""The rows of captured tables, by key, cached beside the source; and the shapes of those tables.

PostgreSQL tells of an update little more than the new row: what was there before, we know from here. Rows are kept in
memory from the moment they are reported until the log is durable past them, and only then go to disk. So after a
crash what is on disk stands at or before what is asked for, and is brought there by the same changes again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.model.schema import Table
from headwater.model.value import Row, Value, from_array, to_array
from headwater.sources.postgres.catalog.captured_table import CachedRow, CapturedTable
from headwater.sources.postgres.row_cache.durable_rows import DurableRows
from headwater.sources.postgres.row_cache.runs import RowKeys, RowRun, find, merged, run_of, run_of_rows, together

TOGETHER_ROWS_MAX = 1 << 16  # that settle together, though they were written apart
LOOK_AHEAD_MIN = 32  # keys, below which one by one is sooner

_Key = tuple[int, bytes]
Written = Mapping[_Key, CachedRow]


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """What the transactions from `first` to `position` left behind, as rows or as runs by table, and the tables that
    they ended or gave another shape. Nothing older counts of the tables that are `rewritten`. What `is_apart`
    settles by itself."""

    first: int
    position: int
    rows: Written = field(default_factory=dict)
    runs: dict[int, RowRun] = field(default_factory=dict)
    captures: dict[int, CapturedTable | None] = field(default_factory=dict)
    rewritten: frozenset[int] = frozenset()
    is_apart: bool = False


class RowCache:
    """Belongs to whoever holds the source's lock, but for `seed` and `tidy`, which others need not wait for."""

    def __init__(self, directory: Path) -> None:
        self._durable = DurableRows(directory)
        self.captures = self._durable.captures
        self._unsettled: deque[_Unsettled] = deque()  # those with rows are the last: what is older was frozen
        self._latest: dict[_Key, CachedRow] = {}
        self._ahead: dict[_Key, CachedRow] = {}
        self._keyed: dict[int, RowKeys] = {}
        self._fresh: dict[int, tuple[bool, list[RowRun]]] = {}  # unsettled runs by table; whether they are all of it

    @property
    def position(self) -> int:
        """All that happened up to here is settled."""
        return self._durable.position

    # Numbers and tables

    def number(self, name: str) -> int:
        return self._durable.number(name)

    def note(self, name: str, value: int) -> None:
        self._durable.note(name, value)

    def keyed(self, capture: CapturedTable) -> RowKeys:
        """How the rows of a table are told apart, thought out once."""
        known = self._keyed.get(capture.oid)
        if known is None or known.capture is not capture:
            known = self._keyed[capture.oid] = RowKeys(capture)
        return known

    def seed(self, capture: CapturedTable, batches: Iterable[pa.RecordBatch]) -> None:
        """The rows of a table, as they were at `since`. It was purged, and begins when they are there."""
        self._durable.seed(capture, batches)

    def begin(self, capture: CapturedTable) -> None:
        """A table whose rows are there. At once and for good: it is not told through the log."""
        self._durable.begin(capture)
        self.captures[capture.oid] = capture

    def purge(self, oid: int) -> None:
        """Of an earlier capture of the table nothing is left, settled or not."""
        self.freeze()
        self._durable.purge(oid)
        for one in self._unsettled:
            one.captures.pop(oid, None)
            one.runs.pop(oid, None)
        self._fresh.pop(oid, None)

    def reshape(self, position: int, capture: CapturedTable) -> None:
        """A table has another shape from the transaction at `position` on."""
        self.freeze()
        self.captures[capture.oid] = capture
        self._unsettled.append(_Unsettled(position, position, captures={capture.oid: capture}))

    def fetched(self, position: int, capture: CapturedTable, rows: pa.RecordBatch) -> None:
        """Of a table that is held by key, more keys are followed from `position` on, with these rows as of then."""
        self.reshape(position, capture)
        if rows.num_rows:
            keyed = self.keyed(capture)
            run = run_of(keyed, keyed.padded(rows), np.ones(rows.num_rows, np.int32))
            self._unsettled.append(_Unsettled(position, position, runs={capture.oid: run}, is_apart=True))
            self._fresh = {}

    def drop(self, position: int, oid: int) -> None:
        """A table is over from the transaction at `position` on."""
        self.freeze()
        self.captures.pop(oid, None)
        self._unsettled.append(_Unsettled(position, position, captures={oid: None}))

    # Looking

    def layers(self, oid: int) -> list[RowRun]:
        """All there is of a table, oldest first, but for the rows that were written one by one: see `freeze`."""
        if oid not in self._fresh:
            touching = [one for one in self._unsettled if oid in one.runs]
            rewritten = max((n for n, one in enumerate(touching) if oid in one.rewritten), default=None)
            self._fresh[oid] = (rewritten is not None, [one.runs[oid] for one in touching[rewritten or 0 :]])
        is_all, fresh = self._fresh[oid]
        return fresh if is_all else [*(one.run for one in self._durable.files.get(oid, ())), *fresh]

    @contextmanager
    def looking_ahead(self, wanted: Iterable[tuple[CapturedTable, list[Value]]]) -> Iterator[None]:
        """What there is under many keys, read at once: cheaper than one by one. Nothing may settle meanwhile."""
        by_table: dict[int, dict[bytes, list[Value]]] = defaultdict(dict)
        for capture, values in wanted:
            key = capture.key_of(values)
            if (capture.oid, key) not in self._latest:
                by_table[capture.oid][key] = values
        for oid, keys in by_table.items():
            if len(keys) >= LOOK_AHEAD_MIN:
                self._look_ahead(self.keyed(self.captures[oid]), keys)
        try:
            yield
        finally:
            self._ahead = {}

    def _look_ahead(self, keyed: RowKeys, keys: Mapping[bytes, list[Value]]) -> None:
        columns = zip(zip(*keys.values(), strict=True), keyed.types, strict=True)
        names = [to_array(values, type) for values, type in columns]
        found = find(self.layers(keyed.capture.oid), keyed, keyed.hashes(names), names)
        places, count, batch = found.whole(keyed)
        asked = list(keys)
        rows = zip(places.tolist(), rows_of(batch, keyed.capture.table), count.tolist(), strict=True)
        self._ahead |= {(keyed.capture.oid, asked[place]): CachedRow(row, count) for place, row, count in rows}

    def held(self, capture: CapturedTable, values: Sequence[Value]) -> CachedRow | None:
        """The row that these values name."""
        key = capture.key_of(values)
        place = (capture.oid, key)
        found = self._latest.get(place) or self._ahead.get(place) or self._searched(capture, values, key)
        return found if found is not None and found.count else None

    def _searched(self, capture: CapturedTable, values: Sequence[Value], key: bytes) -> CachedRow | None:
        keyed = self.keyed(capture)
        hash = keyed.hash(values)
        layers = reversed(self.layers(capture.oid))
        return next((held for run in layers if (held := run.held(keyed, hash, key)) is not None), None)

    def all(self, capture: CapturedTable) -> Iterator[CachedRow]:
        """Everything of a table, as of the last write."""
        self.freeze()
        keyed = self.keyed(capture)
        for chunk in merged(self.layers(capture.oid), keyed, is_whole=True):
            for row, count in zip(rows_of(chunk.rows, capture.table), chunk.count.tolist(), strict=True):
                yield CachedRow(row, count)

    # Writing

    def write(self, position: int, written: Written) -> None:
        """What a transaction left behind."""
        if written:
            self._unsettled.append(_Unsettled(position, position, written))
            self._latest.update(written)

    def write_runs(self, first: int, position: int, runs: Mapping[int, RowRun]) -> None:
        """What the transactions from `first` to `position` left behind. Nothing was written since `freeze`."""
        self._unsettled.append(_Unsettled(first, position, runs=dict(runs)))
        while len(self._unsettled) > 1 and _belong_together(self._unsettled[-2], self._unsettled[-1]):
            newer, older = self._unsettled.pop(), self._unsettled.pop()
            self._unsettled.append(self._together(older, newer))
        self._fresh = {}

    def _together(self, older: _Unsettled, newer: _Unsettled) -> _Unsettled:
        """What would settle in two steps settles in one: fewer runs are to be searched until then."""
        runs = older.runs | newer.runs
        for oid in older.runs.keys() & newer.runs.keys():
            runs[oid] = together(older.runs[oid], newer.runs[oid], self.keyed(self.captures[oid]))
        return _Unsettled(older.first, newer.position, runs=runs)

    def rewrite(self, position: int, capture: CapturedTable, rows: Sequence[CachedRow]) -> None:
        """A table has another shape, and these rows in it, from the transaction at `position` on."""
        self.reshape(position, capture)
        runs = {capture.oid: run_of_rows(self.keyed(capture), rows)}
        self._unsettled.append(_Unsettled(position, position, runs=runs, rewritten=frozenset(runs)))
        self._fresh = {}

    def freeze(self) -> None:
        """What was written row by row becomes runs, so that runs may follow."""
        rows: list[_Unsettled] = []
        while self._unsettled and self._unsettled[-1].rows:
            rows.append(self._unsettled.pop())
        if rows:
            self._unsettled.append(_Unsettled(rows[-1].first, rows[0].position, runs=dict(self._runs(self._latest))))
            self._latest, self._fresh = {}, {}
            self._ahead = {}  # which is older than what is in runs now

    def _runs(self, written: Written) -> Iterator[tuple[int, RowRun]]:
        by_table: dict[int, list[CachedRow]] = defaultdict(list)
        for (oid, _), held in written.items():
            by_table[oid].append(held)
        for oid in by_table.keys() & self.captures.keys():  # a transaction may end a table that it changed before
            yield oid, run_of_rows(self.keyed(self.captures[oid]), by_table[oid])

    # Settling

    def settle(self, position: int) -> None:
        """The log is durable up to here: what was written up to here goes to disk. Transactions that were written
        together settle together."""
        ripe = next((n for n, one in enumerate(self._unsettled) if one.position > position), len(self._unsettled))
        later = self._unsettled[ripe] if ripe < len(self._unsettled) else None
        if later is not None and later.first <= position:
            position = self._unsettled[ripe - 1].position if ripe else self.position
        if position > self.position or (ripe and position == self.position):
            self._settle(list(islice(self._unsettled, ripe)), position)

    def _settle(self, settled: Sequence[_Unsettled], position: int) -> None:
        """Nothing is forgotten before it is on disk."""
        captures = self._durable.captures
        fresh: dict[int, list[RowRun]] = defaultdict(list)
        rewritten: set[int] = set()
        rows: dict[_Key, CachedRow] = {}
        for one in settled:
            rows |= one.rows
            rewritten |= one.rewritten
            for oid in one.rewritten:
                fresh.pop(oid, None)
            for oid, capture in one.captures.items():
                captures.pop(oid, None)
                if capture is not None:
                    captures[oid] = capture
            for oid, run in one.runs.items():
                fresh[oid].append(run)
        for oid, run in self._runs(rows):
            fresh[oid].append(run)
        self._durable.settle(position, captures, fresh, rewritten)
        self._forget(len(settled), rows)

    def _forget(self, count: int, rows: Written) -> None:
        for _ in range(count):
            self._unsettled.popleft()
        for key, held in rows.items():
            if self._latest.get(key) is held:  # else a later transaction wrote there
                del self._latest[key]
        self._fresh = {}

    def tidy(self) -> None:
        """Merges what lies on disk. Others go on meanwhile."""
        self._durable.tidy()

    def rewind(self) -> None:
        """Forgets what was not settled: the changes are read again from `position` on."""
        self._unsettled.clear()
        self._latest.clear()
        self._fresh = {}
        self.captures = self._durable.captures


def _belong_together(older: _Unsettled, newer: _Unsettled) -> bool:
    """Runs of much the same size become one, up to a size: what is larger would settle late."""
    if not (older.runs and newer.runs) or older.captures or newer.captures or older.rewritten or older.is_apart:
        return False
    sizes = [sum(run.size for run in one.runs.values()) for one in (older, newer)]
    return sizes[0] < 2 * sizes[1] and sum(sizes) < TOGETHER_ROWS_MAX


def rows_of(batch: pa.RecordBatch, table: Table) -> Iterator[Row]:
    return zip(*(from_array(batch.column(n), column.type) for n, column in enumerate(table.columns)), strict=True)
