"""Rows by key as immutable sorted columns: how a run of them is made, searched, and merged with older ones. Pure.

A run is what some changes left behind: for every key that they touched the row that is there now, or that none is.
Newer runs win over older ones. Keys are found by their hash and then compared, never trusted to the hash alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.keys import Uint64s, encode_columns, hash_columns, hash_row
from headwater.model.schema import Column
from headwater.model.value import PLAIN, Row, Type, Value, from_array, to_array
from headwater.sources.postgres.captured import Captured, Held

CHUNK_ROWS = 1 << 16  # of a chunk that a merge makes, about
_BINARY = "BINARY"
_EXACT = frozenset(set(Type) - {Type.NUMERIC, Type.REAL, Type.INTERVAL, Type.JSON, Type.OTHER, Type.ANY})
Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


class Keyed:
    """How the rows of one table are told apart. By what is equal where there is a key, else to the bit."""

    def __init__(self, capture: Captured) -> None:
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
class Chunk:
    """Keys in order of their hash. `place` says where each stands in `rows`; None: in the same order.

    `count` is how often a row is there; 0 where it went, and then only the columns of its key mean anything.
    """

    hash: Uint64s
    count: Counts
    place: Ints | None
    rows: pa.RecordBatch

    def placed(self, at: Ints) -> Ints:
        return at if self.place is None else self.place[at]

    def match(self, keyed: Keyed, hash: Uint64s, names: Sequence[pa.Array], part: Ints) -> Ints:
        """For each of some keys its index here, or -1."""
        at = self.hash.searchsorted(hash).astype(np.int64)
        found = np.full(len(hash), -1, np.int64)
        asked = np.flatnonzero(self._has(at, hash))
        while asked.size:
            agree = keyed.same(_taken(keyed.names(self.rows), self.placed(at[asked])), _taken(names, part[asked]))
            found[asked[agree]] = at[asked[agree]]
            asked = asked[~agree]  # another key of the same hash: the next one, perhaps
            at[asked] += 1
            asked = asked[self._has(at[asked], hash[asked])]
        return found

    def _has(self, at: Ints, hash: Uint64s) -> Bools:
        inside = at < len(self.hash)
        inside[inside] = self.hash[at[inside]] == hash[inside]
        return inside

    def held(self, keyed: Keyed, hash: np.uint64, key: bytes) -> Held | None:
        """What is here under one key; None where the run does not tell of it."""
        at = int(self.hash.searchsorted(hash))
        while at < len(self.hash) and self.hash[at] == hash:
            row = self.row(keyed, at)
            if keyed.capture.key(row) == key:
                return Held(row, int(self.count[at]))
            at += 1
        return None

    def row(self, keyed: Keyed, at: int) -> Row:
        place = at if self.place is None else int(self.place[at])
        return tuple([read(column, place) for read, column in zip(keyed.readers, self.columns, strict=False)])

    @cached_property
    def columns(self) -> list[pa.Array]:
        return list(self.rows.columns)


@dataclass(frozen=True, slots=True)
class Run:
    """Chunks in order of their hashes; keys of one hash are in one chunk. `first` has the first hash of each."""

    chunks: tuple[Chunk, ...]
    first: Uint64s
    size: int

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> Run:
        some = tuple(chunk for chunk in chunks if len(chunk.hash))
        first = np.array([chunk.hash[0] for chunk in some], np.uint64)
        return cls(some, first, sum(len(chunk.hash) for chunk in some))

    def held(self, keyed: Keyed, hash: np.uint64, key: bytes) -> Held | None:
        at = int(self.first.searchsorted(hash, "right")) - 1
        return self.chunks[at].held(keyed, hash, key) if at >= 0 else None

    def parts(self, hash: Uint64s, asked: Ints) -> Iterator[tuple[Chunk, Ints]]:
        """Which of the asked keys, that are in order of their hashes, belong to which chunk."""
        cuts = [*hash[asked].searchsorted(self.first).tolist(), len(asked)]
        for chunk, begin, end in zip(self.chunks, cuts[:-1], cuts[1:], strict=True):
            if begin < end:
                yield chunk, asked[begin:end]


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of some keys: `asked` says whose each is. Keys that are unknown, or have no row, are not among them."""

    asked: Ints
    count: Counts
    rows: pa.RecordBatch


def find(
    runs: Sequence[Run], keyed: Keyed, hash: Uint64s, names: Sequence[pa.Array], asked: Ints | None = None
) -> Found:
    """The newest of what the runs have, oldest run first, under each of the keys; or only under those that are asked
    for, in order of their hashes."""
    left = np.argsort(hash, kind="stable") if asked is None else asked
    found, count, rows = [np.empty(0, np.int64)], [np.empty(0, np.int32)], []
    for run in reversed(runs):
        missed = [left[: int(hash[left].searchsorted(run.first[0]))]] if run.size else [left]
        for chunk, part in run.parts(hash, left):
            at = chunk.match(keyed, hash[part], names, part)
            there = at >= 0
            there[there] = chunk.count[at[there]] > 0
            found.append(part[there])
            count.append(chunk.count[at[there]])
            rows.append(keyed.padded(chunk.rows.take(pa.array(chunk.placed(at[there])))))
            missed.append(part[at < 0])
        left = np.concatenate(missed)
        if not left.size:
            break
    return Found(np.concatenate(found), np.concatenate(count), concatenated(keyed, rows))


def concatenated(keyed: Keyed, rows: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(rows) == 1:
        return rows[0]
    columns = [
        pa.concat_arrays([one.column(n) for one in rows]) if rows else pa.array([], field.type)
        for n, field in enumerate(keyed.schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=keyed.schema)


def _taken(columns: Sequence[pa.Array], at: Ints) -> list[pa.Array]:
    places = pa.array(at)
    return [column.take(places) for column in columns]


# Making


def run_of_rows(keyed: Keyed, held: Sequence[Held]) -> Run:
    """Keys that differ, from rows that may be older than the last columns."""
    rows = [keyed.capture.padded(one.row) for one in held]
    columns = zip(*rows, strict=True) if rows else [()] * len(keyed.columns)
    arrays = [to_array(values, column.type) for values, column in zip(columns, keyed.columns, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=keyed.schema)
    return run_of(keyed, batch, np.array([one.count for one in held], np.int32))


def run_of(keyed: Keyed, rows: pa.RecordBatch, count: Counts) -> Run:
    """Keys that differ."""
    hash = keyed.hashes(keyed.names(rows)) if rows.num_rows else np.empty(0, np.uint64)
    order = np.argsort(hash, kind="stable")
    return Run.of([Chunk(hash[order], count[order], order, rows)])


def merged(runs: Sequence[Run], keyed: Keyed, *, is_whole: bool, adds: bool = False) -> Iterator[Chunk]:
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


def _slices(run: Run, low: int, high: int) -> Iterator[Chunk]:
    for chunk in run.chunks:
        begin = int(chunk.hash.searchsorted(np.uint64(low)))
        end = len(chunk.hash) if high > (1 << 64) - 1 else int(chunk.hash.searchsorted(np.uint64(high)))
        if begin < end:
            at = slice(begin, end)
            if chunk.place is None:
                yield Chunk(chunk.hash[at], chunk.count[at], None, chunk.rows.slice(begin, end - begin))
            else:
                yield Chunk(chunk.hash[at], chunk.count[at], None, chunk.rows.take(pa.array(chunk.place[at])))


def _merged(newest_first: Sequence[Chunk], keyed: Keyed, is_whole: bool, adds: bool) -> Chunk:
    if not newest_first:
        return Chunk(np.empty(0, np.uint64), np.empty(0, np.int32), None, concatenated(keyed, []))
    rows = concatenated(keyed, [keyed.padded(chunk.rows) for chunk in newest_first])
    hash = np.concatenate([chunk.hash for chunk in newest_first])
    count = np.concatenate([chunk.count for chunk in newest_first])
    order = np.argsort(hash, kind="stable")
    starts = _starts(hash, rows, order, keyed)
    if adds:
        count[order[starts]] = np.add.reduceat(count[order], np.flatnonzero(starts))
    order = order[starts]
    if is_whole:
        order = order[count[order] > 0]
    return Chunk(hash[order], count[order], None, rows.take(pa.array(order)))


def _starts(hash: Uint64s, rows: pa.RecordBatch, order: Ints, keyed: Keyed) -> Bools:
    """Where another key begins, in an order that this puts right: all of one key together, the newest first."""
    starts = np.ones(len(order), np.bool_)
    starts[1:] = hash[order[1:]] != hash[order[:-1]]
    again = np.flatnonzero(~starts)
    names = keyed.names(rows)
    if not again.size or keyed.same(_taken(names, order[again]), _taken(names, order[again - 1])).all():
        return starts
    groups = np.flatnonzero(starts)
    for begin, end in zip(groups, [*groups[1:], len(order)], strict=True):
        if end - begin > 1:
            _part(order, starts, int(begin), int(end), rows, keyed)
    return starts


def _part(order: Ints, starts: Bools, begin: int, end: int, rows: pa.RecordBatch, keyed: Keyed) -> None:
    """Rows of one hash, by their keys."""
    by_key: dict[bytes, list[int]] = {}
    for at in order[begin:end].tolist():
        chunk = Chunk(np.empty(0, np.uint64), np.empty(0, np.int32), None, rows)
        by_key.setdefault(keyed.capture.key(chunk.row(keyed, at)), []).append(at)
    order[begin:end] = [at for one in by_key.values() for at in one]
    place = begin
    for one in by_key.values():
        starts[place : place + len(one)] = [True] + [False] * (len(one) - 1)
        place += len(one)
