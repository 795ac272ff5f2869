"""Arrangement: the rows of one table by one key, shared by every template that reads them by this key.

Immutable runs, each sorted by (key hash, identity), newest last; an entry shadows older ones of its identity. Recent
rows are in a small table of references until there are enough for a run. Runs of similar size are merged, so that a row
is rewritten at most about log2(n) times. It never holds a row with a NULL in its key: that matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools, Ints
from headwater.engine.rows.conform import conform
from headwater.engine.rows.work import Work
from headwater.engine.state.run_file import held
from headwater.engine.state.sort_hashes import rising, rising_by
from headwater.model.encoding.keys import Uint64s, encode_columns, hash_all, hash_columns, hash_encoded
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Type


@dataclass(slots=True)
class ArrangementRun:
    """`live` is False for a removal that shadows an older entry. `file` is set once the run is on disk; `mapped`: it is
    nowhere else."""

    hash: Uint64s
    id: Uint64s
    live: Bools
    rows: pa.RecordBatch
    file: str | None = None
    mapped: bool = False

    def __len__(self) -> int:
        return len(self.hash)

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return 0 if self.mapped else held(self.hash, self.id, self.live, self.rows)

    def span(self, hash: np.uint64) -> tuple[int, int]:
        if self.of_one_key:
            return (0, len(self)) if len(self) and self.hash[0] == hash else (0, 0)
        start = int(self.hash.searchsorted(hash, "left"))
        return start, int(self.hash.searchsorted(hash, "right"))

    @property
    def of_one_key(self) -> bool:
        """Whether all entries have one key hash, which is then held once (`compact`)."""
        return not self.hash.strides[0]

    def find(self, hash: np.uint64, id: np.uint64) -> int | None:
        start, end = self.span(hash)
        place = start + int(self.id[start:end].searchsorted(id))
        return place if place < end and self.id[place] == id else None


@dataclass(frozen=True, slots=True)
class RowRef:
    """A recent row: a place in a batch, or no batch for a removal."""

    rows: pa.RecordBatch | None
    place: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows with their identities, in order of identity."""

    id: Uint64s
    rows: pa.RecordBatch


@dataclass(slots=True)
class Arrangement:
    table: Table
    keys: tuple[str, ...]
    work: Work
    run_rows_min: int
    runs: list[ArrangementRun] = field(default_factory=list)
    recent: dict[int, dict[int, RowRef]] = field(default_factory=dict)
    recent_rows: int = 0
    nothing: pa.RecordBatch = field(init=False)  # a row of NULLs

    def __post_init__(self) -> None:
        arrays = [pa.nulls(1, column.type.arrow) for column in self.table.columns]
        self.nothing = pa.RecordBatch.from_arrays(arrays, schema=self.table.arrow)

    def encode(self, rows: pa.RecordBatch) -> list[bytes] | None:
        """The encoded key of each row; None where all rows are one bucket."""
        if not self.keys:
            return None
        columns = [self.table.column(name) for name in self.keys]
        arrays = [rows.column(self.table.index(name)) for name in self.keys]
        return encode_columns(arrays, [c.type for c in columns], [c.collation for c in columns])

    def hash_rows(self, rows: pa.RecordBatch) -> Uint64s:
        """The key hash of each row."""
        if not self.keys:
            return np.broadcast_to(np.uint64(0), rows.num_rows)
        columns = [self.table.column(name) for name in self.keys]
        arrays = [rows.column(self.table.index(name)) for name in self.keys]
        return hash_columns(arrays, [c.type for c in columns], [c.collation for c in columns])

    def hashes(self, encoded: Sequence[bytes] | None, rows: pa.RecordBatch) -> Uint64s:
        """The key hash of each row, whose keys were encoded already."""
        if rows.num_rows > SMALL.key_hash_rows:
            return self.hash_rows(rows)
        return np.zeros(rows.num_rows, np.uint64) if encoded is None else hash_all(encoded)

    def folded(self, rows: pa.RecordBatch, hash: Uint64s) -> Uint64s:
        """Key hashes with texts folded as NOCASE does; `hash` where that is the same."""
        columns = [self.table.column(name) for name in self.keys]
        if all(c.type in (Type.INTEGER, Type.REAL, Type.BLOB) or c.collation == "NOCASE" for c in columns):
            return hash
        arrays = [rows.column(self.table.index(name)) for name in self.keys]
        return hash_columns(arrays, [c.type for c in columns], ["NOCASE"] * len(columns))

    def keyed(self, rows: pa.RecordBatch) -> Bools | None:
        """Which rows have no NULL in their key; None where all do."""
        columns = [rows.column(self.table.index(name)) for name in self.keys]
        if not any(column.null_count for column in columns):
            return None
        valid: Bools = np.logical_and.reduce([np.asarray(column.is_valid()) for column in columns])
        return valid

    def absorb(self, hash: Uint64s, id: Uint64s, live: Bools, rows: pa.RecordBatch, place: Ints | None = None) -> None:
        """Entries in the order they happened; the last of an identity holds. Entry i is row `place[i]`, or row i."""
        if len(hash) + self.recent_rows >= self.run_rows_min:
            self.settle()
            if len(hash) >= self.run_rows_min:
                self._push(_sorted_run(hash, id, live, rows, place))
                return
        place = np.arange(len(hash)) if place is None else place
        for key, each, alive, at in zip(hash.tolist(), id.tolist(), live.tolist(), place.tolist(), strict=True):
            bucket = self.recent.setdefault(key, {})
            self.recent_rows += each not in bucket
            bucket[each] = RowRef(rows if alive else None, at)

    def settle(self) -> None:
        """The recent rows become a run."""
        if not self.recent_rows:
            return
        whole = self._recent_run(self.recent)
        self.recent, self.recent_rows = {}, 0
        self._push(_sorted_run(whole.hash, whole.id, whole.live, whole.rows))

    def _recent_run(self, recent: Mapping[int, Mapping[int, RowRef]]) -> ArrangementRun:
        """Recent entries, unsorted."""
        hash = np.array([key for key, bucket in recent.items() for _ in bucket], np.uint64)
        id = np.array([each for bucket in recent.values() for each in bucket], np.uint64)
        entries = [entry for bucket in recent.values() for entry in bucket.values()]
        live = np.array([entry.rows is not None for entry in entries], np.bool_)
        return ArrangementRun(hash, id, live, _assembled(entries, self.nothing))

    def _push(self, run: ArrangementRun) -> None:
        self.runs.append(run if self.runs else _without_removals(run))
        while len(self.runs) > 1 and 2 * len(self.runs[-1]) > len(self.runs[-2]):
            newer, older = self.runs.pop(), self.runs.pop()
            self.work.rewritten += len(newer) + len(older)
            self.runs.append(_merged(older, newer, last=not self.runs))

    def bucket(self, key: bytes) -> Gathered:
        """All rows of one encoded key."""
        hash = self.hash(key)
        parts = [self._part(run, *span) for run in self.runs if (span := run.span(np.uint64(hash)))[0] < span[1]]
        if hash in self.recent:
            parts.append(self._recent_run({hash: self.recent[hash]}))
        if not parts:
            return Gathered(np.zeros(0, np.uint64), self.nothing.slice(0, 0))
        gathered = self._verified(_newest(parts), key)
        self.work.gathered += len(gathered.id)
        return gathered

    def hash(self, key: bytes) -> int:
        return hash_encoded(key) if self.keys else 0

    @staticmethod
    def _part(run: ArrangementRun, start: int, end: int) -> ArrangementRun:
        return ArrangementRun(
            run.hash[start:end], run.id[start:end], run.live[start:end], run.rows.slice(start, end - start)
        )

    def _verified(self, gathered: Gathered, key: bytes) -> Gathered:
        """Two keys may have one hash."""
        encoded = self.encode(gathered.rows)
        if encoded is None or all(each == key for each in encoded):
            return gathered
        mine = np.array([each == key for each in encoded], np.bool_)
        return Gathered(gathered.id[mine], gathered.rows.filter(pa.array(mine)))

    def find(self, wanted: Sequence[tuple[int, int]]) -> pa.RecordBatch:
        """The row of each (key hash, identity), in that order. All of them must be there."""
        entries = [self._entry(hash, id) for hash, id in wanted]
        self.work.gathered += len(entries)
        return _assembled(entries, self.nothing)

    def _entry(self, hash: int, id: int) -> RowRef:
        entry = self.recent.get(hash, {}).get(id)
        if entry is not None:
            return entry
        for run in reversed(self.runs):
            place = run.find(np.uint64(hash), np.uint64(id))
            if place is not None:
                return RowRef(run.rows, place)
        raise KeyError(f"no row {id:016x} in {self.table.name} by {self.keys}")

    def all(self) -> Gathered:
        """Every row, in no order that means anything."""
        self.settle()
        return _newest(self.runs or [self._recent_run({})])

    def define(self, table: Table) -> None:
        """The table's new schema, for rows held already. Keys and identities do not change."""
        self.settle()
        self.table = table
        self.__post_init__()
        self.runs = [ArrangementRun(run.hash, run.id, run.live, conform(run.rows, table)) for run in self.runs]


def _assembled(entries: Sequence[RowRef], nothing: pa.RecordBatch) -> pa.RecordBatch:
    """One batch of rows that lie in several, copying no others; a removal's row is `nothing`."""
    parts: dict[int, tuple[pa.RecordBatch, list[int], list[int]]] = {}
    for n, entry in enumerate(entries):
        rows, place = (nothing, 0) if entry.rows is None else (entry.rows, entry.place)
        _, places, targets = parts.setdefault(id(rows), (rows, [], []))
        places.append(place)
        targets.append(n)
    if not parts:
        return nothing.slice(0, 0)
    taken = [_taken(rows, places) for rows, places, _ in parts.values()]
    if len(taken) == 1:
        return taken[0]
    targets = [n for _, _, each in parts.values() for n in each]
    return pa.concat_batches(taken).take(pa.array(np.argsort(targets)))


def _taken(rows: pa.RecordBatch, places: list[int]) -> pa.RecordBatch:
    return rows.slice(places[0], 1) if len(places) == 1 else rows.take(pa.array(places, pa.int64()))


def _sorted_run(
    hash: Uint64s, id: Uint64s, live: Bools, rows: pa.RecordBatch, place: Ints | None = None
) -> ArrangementRun:
    """Entries in time order; the last of each (hash, identity) stays."""
    order = _order(hash, id)  # stable: time decides between equals
    hash = hash[order] if hash.strides[0] else hash
    return _last_of_each(hash, id[order], live[order], rows, order if place is None else place[order])


def _merged(older: ArrangementRun, newer: ArrangementRun, *, last: bool) -> ArrangementRun:
    """`last`: nothing older is left to shadow, so removals go."""
    hash = np.concatenate((older.hash, newer.hash))
    id = np.concatenate((older.id, newer.id))
    live = np.concatenate((older.live, newer.live))
    order = _order(hash, id)  # stable: the newer of two equals comes second
    run = _last_of_each(hash[order], id[order], live[order], pa.concat_batches([older.rows, newer.rows]), order)
    return _without_removals(run) if last else run


def _last_of_each(hash: Uint64s, id: Uint64s, live: Bools, rows: pa.RecordBatch, order: Ints) -> ArrangementRun:
    keep = np.ones(len(hash), np.bool_)
    keep[:-1] = (hash[1:] != hash[:-1]) | (id[1:] != id[:-1])
    if not keep.all():
        hash, id, live, order = hash[keep], id[keep], live[keep], order[keep]
    return ArrangementRun(compact(hash), id, live, rows.take(pa.array(order)))


def _order(hash: Uint64s, id: Uint64s) -> Ints:
    if len(hash) and (hash == hash[0]).all():
        return rising(id)
    return rising_by(hash, id)


def compact(hash: Uint64s) -> Uint64s:
    """Sorted hashes; many that are all the same take no room."""
    if len(hash) <= SMALL.equal_numbers or hash[0] != hash[-1]:
        return hash
    return np.broadcast_to(hash[0].copy(), len(hash))


def _without_removals(run: ArrangementRun) -> ArrangementRun:
    if run.live.all():
        return run
    return ArrangementRun(
        compact(run.hash[run.live]), run.id[run.live], run.live[run.live], run.rows.filter(pa.array(run.live))
    )


def _concatenated(runs: Sequence[ArrangementRun]) -> ArrangementRun:
    return ArrangementRun(
        np.concatenate([run.hash for run in runs]),
        np.concatenate([run.id for run in runs]),
        np.concatenate([run.live for run in runs]),
        pa.concat_batches([run.rows for run in runs]),
    )


def _newest(runs: Sequence[ArrangementRun]) -> Gathered:
    """What lives, over runs from old to new, in order of identity where they are of one key hash."""
    whole = runs[0] if len(runs) == 1 else _concatenated(runs)
    if len(runs) > 1 or not _rising(whole.id):
        whole = _sorted_run(whole.hash, whole.id, whole.live, whole.rows)
    whole = _without_removals(whole)
    return Gathered(whole.id, whole.rows)


def _rising(id: Uint64s) -> bool:
    return bool((id[1:] > id[:-1]).all())
