"""Rows by key as immutable sorted columns: how a run of them is made, searched, and merged with older ones. Pure.

A run is what some changes left behind: for every key that they touched the row that is there now, or that none is.
Newer runs win over older ones. Keys are found by their hash and then compared, never trusted to the hash alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.encoding.keys import Uint64s, encode_columns, hash_columns, hash_row
from headwater.model.schema import Column
from headwater.model.value import PLAIN, Row, Type, Value, from_array, to_array
from headwater.sources.postgres.catalog.captured_table import CachedRow, CapturedTable
from headwater.sources.postgres.row_cache.row_selection import RowSelection, picked

CHUNK_ROWS = 1 << 16  # of a chunk that a merge makes, about
_DEAD = 2  # so many times more rows than keys are carried along
_BINARY = "BINARY"
_EXACT = frozenset(set(Type) - {Type.NUMERIC, Type.REAL, Type.INTERVAL, Type.JSON, Type.OTHER, Type.ANY})
Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
_NONE: Ints = np.empty(0, np.int64)
_NO_COUNTS: Counts = np.empty(0, np.int32)


class RowKeys:
    """How the rows of one table are told apart. By what is equal where there is a key, else to the bit."""

    def __init__(self, capture: CapturedTable) -> None:
        self.capture = capture
        self.columns = capture.table.columns
        self.places = capture.identity
        self.types = [self.columns[place].type for place in self.places]
        self.is_exact = not capture.table.key or _EXACT.issuperset(self.types)

    @cached_property
    def readers(self) -> list[Callable[[pa.Array, int], Value]]:
        """How one value of each column is read: many at once are read otherwise."""
        return [_one if column.type in PLAIN else _one_of(column.type) for column in self.columns]

    @cached_property
    def schema(self) -> pa.Schema:
        return self.capture.table.arrow

    def names(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(place) for place in self.places]

    def hashes(self, names: Sequence[pa.Array]) -> Uint64s:
        return hash_columns(names, self.types, [_BINARY] * len(names))

    def hash(self, values: Sequence[Value]) -> np.uint64:
        return np.uint64(hash_row(tuple(values), [_BINARY] * len(values)))

    def same(self, some: Sequence[pa.Array], others: Sequence[pa.Array]) -> Bools:
        """Where two lists of keys agree."""
        if not self.is_exact:
            binary = [_BINARY] * len(some)
            pairs = zip(
                encode_columns(some, self.types, binary), encode_columns(others, self.types, binary), strict=True
            )
            return np.fromiter((one == other for one, other in pairs), np.bool_, len(some[0]))
        agree = np.ones(len(some[0]), np.bool_)
        for one, other in zip(some, others, strict=True):
            agree &= equal_to_the_bit(one, other)
        return agree

    def padded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that may be older than the last columns."""
        if rows.num_columns == len(self.columns):
            return rows
        added = [_filled(column, rows.num_rows) for column in self.columns[rows.num_columns :]]
        return pa.RecordBatch.from_arrays([*rows.columns, *added], schema=self.schema)


def equal_to_the_bit(one: pa.Array, other: pa.Array) -> Bools:
    """NULL too, and NaN; 0.0 is not -0.0."""
    if pa.types.is_floating(one.type):
        one, other = one.view(pa.int64()), other.view(pa.int64())
    agree = pc.equal(one, other)
    if agree.null_count:
        agree = pc.or_(agree.fill_null(False), pc.and_(one.is_null(), other.is_null()))
    result: Bools = agree.to_numpy(zero_copy_only=False)
    return result


def _one(column: pa.Array, place: int) -> Value:
    value: Value = column[place].as_py()
    return value


def _one_of(type: Type) -> Callable[[pa.Array, int], Value]:
    return lambda column, place: from_array(column.slice(place, 1), type)[0]


def _filled(column: Column, count: int) -> pa.Array:
    return pa.repeat(to_array([column.default], column.type)[0], count)


@dataclass(frozen=True)
class RunChunk:
    """Keys in order of their hash. `place` says where each stands in `rows`; None: in the same order.

    `count` is how often a row is there; 0 where it went, and then only the columns of its key mean anything.
    """

    hash: Uint64s
    count: Counts
    place: Ints | None
    rows: pa.RecordBatch

    def placed(self, at: Ints) -> Ints:
        return at if self.place is None else self.place[at]

    def match(self, keyed: RowKeys, hash: Uint64s, names: Sequence[pa.Array], part: Ints) -> tuple[Ints, Ints]:
        """Which of some keys, in order of their hashes, are here; and where."""
        found = [(_NONE, _NONE)]
        asked, at = self._first(hash)
        while asked.size:
            agree = keyed.same(_columns(keyed.names(self.rows), self.placed(at)), _columns(names, part[asked]))
            found.append((asked[agree], at[agree]))
            asked, at = self._still(hash, asked[~agree], at[~agree] + 1)  # another key of the same hash
        some, places = zip(*found, strict=True)
        return np.concatenate(some), np.concatenate(places)

    def _first(self, hash: Uint64s) -> tuple[Ints, Ints]:
        """Which of some hashes, in order, are here; and the first place of each. The fewer are sought in the more."""
        if len(hash) <= len(self.hash):
            at = self.hash.searchsorted(hash)
            return self._still(hash, np.arange(len(hash)), at)
        firsts = np.flatnonzero(np.append(True, self.hash[1:] != self.hash[:-1]))
        begin, end = (hash.searchsorted(self.hash[firsts], side) for side in ("left", "right"))
        count = end - begin
        asked = np.repeat(end - np.cumsum(count), count) + np.arange(count.sum())
        return asked, np.repeat(firsts, count)

    def _still(self, hash: Uint64s, asked: Ints, at: Ints) -> tuple[Ints, Ints]:
        """Those whose hash is the one at their place."""
        there = (self.hash[np.minimum(at, len(self.hash) - 1)] == hash[asked]) & (at < len(self.hash))
        return asked[there], at[there]

    def held(self, keyed: RowKeys, hash: np.uint64, key: bytes) -> CachedRow | None:
        """What is here under one key; None where the run does not tell of it."""
        at = int(self.hash.searchsorted(hash))
        while at < len(self.hash) and self.hash[at] == hash:
            row = self.row(keyed, at)
            if keyed.capture.key(row) == key:
                return CachedRow(row, int(self.count[at]))
            at += 1
        return None

    def row(self, keyed: RowKeys, at: int) -> Row:
        place = at if self.place is None else int(self.place[at])
        return tuple([read(column, place) for read, column in zip(keyed.readers, self.columns, strict=False)])

    @cached_property
    def columns(self) -> list[pa.Array]:
        return list(self.rows.columns)


@dataclass(frozen=True, slots=True)
class RowRun:
    """Chunks in order of their hashes; keys of one hash are in one chunk. `first` has the first hash of each."""

    chunks: tuple[RunChunk, ...]
    first: Uint64s
    size: int

    @classmethod
    def of(cls, chunks: Iterable[RunChunk]) -> RowRun:
        some = tuple(chunk for chunk in chunks if len(chunk.hash))
        first = np.array([chunk.hash[0] for chunk in some], np.uint64)
        return cls(some, first, sum(len(chunk.hash) for chunk in some))

    def held(self, keyed: RowKeys, hash: np.uint64, key: bytes) -> CachedRow | None:
        at = int(self.first.searchsorted(hash, "right")) - 1
        return self.chunks[at].held(keyed, hash, key) if at >= 0 else None

    def parts(self, hash: Uint64s) -> Iterator[tuple[RunChunk, int, int]]:
        """From where to where hashes that are in order may be in which chunk."""
        cuts = [*hash.searchsorted(self.first).tolist(), len(hash)]
        return ((chunk, *cut) for chunk, cut in zip(self.chunks, pairwise(cuts), strict=True) if cut[0] < cut[1])


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of some keys, in pieces: `asked` says whose each is, and `count` how often it is there. Keys that are
    unknown, or have no row, are not among them."""

    asked: list[Ints]
    count: list[Counts]
    pieces: list[RowSelection]

    def whole(self, keyed: RowKeys) -> tuple[Ints, Counts, pa.RecordBatch]:
        """All pieces in one."""
        rows = [piece.rows if piece.at is None else taken(piece.rows, piece.at) for piece in self.pieces]
        return (
            np.concatenate([_NONE, *self.asked]),
            np.concatenate([_NO_COUNTS, *self.count]),
            concatenated(keyed, rows),
        )


def find(
    runs: Sequence[RowRun], keyed: RowKeys, hash: Uint64s, names: Sequence[pa.Array], asked: Ints | None = None
) -> FoundRows:
    """The newest of what the runs have, oldest run first, under each of the keys; or only under those that are asked
    for, in order of their hashes."""
    left = ordered(hash) if asked is None else asked
    found = FoundRows([], [], [])
    for run in reversed(runs):
        wanted, is_left = hash[left], np.ones(len(left), np.bool_)
        for chunk, begin, end in run.parts(wanted):
            some, at = chunk.match(keyed, wanted[begin:end], names, left[begin:end])
            is_left[begin + some] = False
            there = chunk.count[at] > 0
            found.asked.append(left[begin + some[there]])
            found.count.append(chunk.count[at[there]])
            found.pieces.append(_piece(keyed, chunk.rows, chunk.placed(at[there])))
        left = left[is_left]
        if not left.size:
            break
    return found


def _piece(keyed: RowKeys, rows: pa.RecordBatch, at: Ints) -> RowSelection:
    is_old = rows.num_columns < len(keyed.columns)
    return RowSelection(keyed.padded(taken(rows, at)), None) if is_old else RowSelection(rows, at)


def ordered(hash: Uint64s) -> Ints:
    """The places of hashes in their order; equal ones stay as they are. Sooner than `argsort`: what is sorted are the
    hashes themselves, whose last bits, which hardly ever tell, make room for their places."""
    bits = np.uint64(max(1, len(hash)).bit_length())
    low = (np.uint64(1) << bits) - np.uint64(1)
    order = (np.sort(hash & ~low | np.arange(len(hash), dtype=np.uint64)) & low).astype(np.int64)
    there = hash[order]
    return order if (there[1:] >= there[:-1]).all() else np.argsort(hash, kind="stable")


def concatenated(keyed: RowKeys, rows: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(rows) == 1:
        return rows[0]
    columns = [
        pa.concat_arrays([one.column(n) for one in rows]) if rows else pa.array([], field.type)
        for n, field in enumerate(keyed.schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=keyed.schema)


def taken(rows: pa.RecordBatch, at: Ints) -> pa.RecordBatch:
    """Column by column, which is sooner than all at once."""
    return pa.RecordBatch.from_arrays(_columns(rows.columns, at), schema=rows.schema)


def _columns(columns: Sequence[pa.Array], at: Ints) -> list[pa.Array]:
    return [picked(column, at) for column in columns]


# Making


def run_of_rows(keyed: RowKeys, held: Sequence[CachedRow]) -> RowRun:
    """Keys that differ, from rows that may be older than the last columns."""
    rows = [keyed.capture.padded(one.row) for one in held]
    columns = zip(*rows, strict=True) if rows else [()] * len(keyed.columns)
    arrays = [to_array(values, column.type) for values, column in zip(columns, keyed.columns, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=keyed.schema)
    return run_of(keyed, batch, np.array([one.count for one in held], np.int32))


def run_of(keyed: RowKeys, rows: pa.RecordBatch, count: Counts) -> RowRun:
    """Keys that differ."""
    hash = keyed.hashes(keyed.names(rows)) if rows.num_rows else np.empty(0, np.uint64)
    order = ordered(hash)
    return RowRun.of([RunChunk(hash[order], count[order], order, rows)])


def merged(runs: Sequence[RowRun], keyed: RowKeys, *, is_whole: bool, adds: bool = False) -> Iterator[RunChunk]:
    """One run of several, oldest first, in chunks that hold no more than needs to be in memory together.

    `is_whole`: nothing older is left, so what is gone need not be remembered. `adds`: no run is newer than another,
    and equal rows are counted together.
    """
    pieces = max(1, sum(run.size for run in runs) // CHUNK_ROWS)
    bounds = [*(piece * ((1 << 64) // pieces) for piece in range(pieces)), 1 << 64]
    for low, high in pairwise(bounds):
        slices = [one for run in reversed(runs) for one in _slices(run, low, high)]
        chunk = _merged(slices, keyed, is_whole, adds)
        if len(chunk.hash):
            yield chunk


def together(older: RowRun, newer: RowRun, keyed: RowKeys) -> RowRun:
    """One run of two that are small. Rows are moved only where most of them do not count any more: else it is told
    anew where each stands."""
    sources = [*newer.chunks, *older.chunks]
    if not sources:
        return older
    laid = _laid(sources, keyed, is_whole=False, adds=False)
    return RowRun.of([laid if laid.rows.num_rows <= _DEAD * len(laid.hash) else _gathered(laid)])


def _slices(run: RowRun, low: int, high: int) -> Iterator[RunChunk]:
    for chunk in run.chunks:
        begin = int(chunk.hash.searchsorted(np.uint64(low)))
        end = len(chunk.hash) if high > (1 << 64) - 1 else int(chunk.hash.searchsorted(np.uint64(high)))
        if begin < end:
            yield chunk if end - begin == len(chunk.hash) else _slice(chunk, begin, end)


def _slice(chunk: RunChunk, begin: int, end: int) -> RunChunk:
    at = slice(begin, end)
    if chunk.place is None:
        return RunChunk(chunk.hash[at], chunk.count[at], None, chunk.rows.slice(begin, end - begin))
    return _gathered(RunChunk(chunk.hash[at], chunk.count[at], chunk.place[at], chunk.rows))


def _merged(newest_first: Sequence[RunChunk], keyed: RowKeys, is_whole: bool, adds: bool) -> RunChunk:
    if not newest_first:
        return RunChunk(np.empty(0, np.uint64), np.empty(0, np.int32), None, concatenated(keyed, []))
    return _gathered(_laid(newest_first, keyed, is_whole, adds))


def _gathered(chunk: RunChunk) -> RunChunk:
    """Its rows in the order of their keys, and no others."""
    return chunk if chunk.place is None else RunChunk(chunk.hash, chunk.count, None, taken(chunk.rows, chunk.place))


def _laid(newest_first: Sequence[RunChunk], keyed: RowKeys, is_whole: bool, adds: bool) -> RunChunk:
    """All in order, but for the rows."""
    rows = concatenated(keyed, [keyed.padded(chunk.rows) for chunk in newest_first])
    hash = np.concatenate([chunk.hash for chunk in newest_first])
    count = np.concatenate([chunk.count for chunk in newest_first])
    place = _places(newest_first)
    order = np.argsort(hash, kind="stable")  # merges what is in order, chunk by chunk
    starts = _starts(hash, rows, place, order, keyed)
    if adds:
        count[order[starts]] = np.add.reduceat(count[order], np.flatnonzero(starts))
    order = order[starts]
    if is_whole:
        order = order[count[order] > 0]
    return RunChunk(hash[order], count[order], place[order], rows)


def _places(chunks: Sequence[RunChunk]) -> Ints:
    """Where among all their rows those of the chunks stand."""
    before = [0, *accumulate(chunk.rows.num_rows for chunk in chunks)]
    each = zip(chunks, before, strict=False)
    return np.concatenate([start + chunk.placed(np.arange(len(chunk.hash))) for chunk, start in each])


def _starts(hash: Uint64s, rows: pa.RecordBatch, place: Ints, order: Ints, keyed: RowKeys) -> Bools:
    """Where another key begins, in an order that this puts right: all of one key together, the newest first."""
    starts = np.ones(len(order), np.bool_)
    starts[1:] = hash[order[1:]] != hash[order[:-1]]
    again = np.flatnonzero(~starts)
    names = keyed.names(rows)
    here, there = place[order[again]], place[order[again - 1]]
    if not again.size or keyed.same(_columns(names, here), _columns(names, there)).all():
        return starts
    groups = np.flatnonzero(starts)
    for begin, end in zip(groups, [*groups[1:], len(order)], strict=True):
        if end - begin > 1:
            _part(order, starts, int(begin), int(end), rows, place, keyed)
    return starts


def _part(order: Ints, starts: Bools, begin: int, end: int, rows: pa.RecordBatch, place: Ints, keyed: RowKeys) -> None:
    """Rows of one hash, by their keys."""
    chunk = RunChunk(np.empty(0, np.uint64), np.empty(0, np.int32), place, rows)
    by_key: dict[bytes, list[int]] = {}
    for at in order[begin:end].tolist():
        by_key.setdefault(keyed.capture.key(chunk.row(keyed, at)), []).append(at)
    order[begin:end] = [at for one in by_key.values() for at in one]
    for one in by_key.values():
        starts[begin : begin + len(one)] = [True] + [False] * (len(one) - 1)
        begin += len(one)
