"""Heap: the rows of a table, each once, at a place that indexes refer to.

Rows are appended to immutable chunks; neighbours of similar size become one, which moves no row to another place. A
row that goes is only marked. When more rows are gone than there are, a vacuum leaves them out, and the others move up.
It never looks into a row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools, Ints
from headwater.engine.rows.conform import conform
from headwater.engine.rows.work import Work
from headwater.engine.state.lsm import due
from headwater.engine.state.run_file import held
from headwater.engine.state.table.place_index import Places
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table

PLACES_MAX = 1 << 32


@dataclass(slots=True)
class HeapChunk:
    """Rows with their identities, at places that follow one another. `file` is set once the chunk is on disk; `mapped`:
    it is nowhere else."""

    id: Uint64s
    rows: pa.RecordBatch
    file: str | None = None
    mapped: bool = False

    def __len__(self) -> int:
        return len(self.id)

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return 0 if self.mapped else held(self.id, self.rows)


@dataclass(slots=True)
class DeathRun:
    """Places of rows that are gone, rising."""

    place: Places
    file: str | None = None
    mapped: bool = False

    def __len__(self) -> int:
        return len(self.place)

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return 0 if self.mapped else held(self.place)


@dataclass(slots=True)
class Heap:
    """`live` tells of each place whether its row is there; `size` is how many places there are, `gone` how many of them
    are of rows that went. The tail are the newest rows: batches, and places in them. `deaths` are those that are
    noted for the disk, `dying` those since."""

    table: Table
    work: Work
    run_rows_min: int
    chunks: list[HeapChunk] = field(default_factory=list)
    deaths: list[DeathRun] = field(default_factory=list)
    dying: list[int] = field(default_factory=list)
    size: int = 0
    gone: int = 0
    live: Bools = field(default_factory=lambda: np.ones(16, np.bool_))
    _starts: list[int] = field(default_factory=list)  # the first place of each chunk
    _tail: list[tuple[pa.RecordBatch, int]] = field(default_factory=list)
    _tail_ids: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """How many rows there are."""
        return self.size - self.gone

    def append(self, rows: pa.RecordBatch, at: int, id: int) -> int:
        """One row of a batch, which is kept for it until there are enough for a chunk. Its place."""
        self._tail.append((rows, at))
        self._tail_ids.append(id)
        return self._grown(1)

    def extend(self, rows: pa.RecordBatch, id: Uint64s) -> Ints:
        """Many rows. Their places."""
        self.settle()
        start = self._grown(len(id))
        self._push(HeapChunk(id, rows))
        return np.arange(start, self.size)

    def _grown(self, count: int) -> int:
        start, self.size = self.size, self.size + count
        if self.size > PLACES_MAX:
            raise OverflowError(f"{self.table.name} has more than {PLACES_MAX:,} rows")
        if self.size > len(self.live):
            live = np.ones(max(self.size, len(self.live) * 3 // 2), np.bool_)
            live[:start] = self.live[:start]
            self.live = live
        return start

    def settle(self) -> None:
        """The tail becomes a chunk."""
        if self._tail:
            rows = assembled(self._tail, self.table)
            chunk = HeapChunk(np.array(self._tail_ids, np.uint64), rows)
            self._tail, self._tail_ids = [], []
            self._push(chunk)

    @property
    def full(self) -> bool:
        """Whether the tail is long enough for a chunk."""
        return len(self._tail) >= self.run_rows_min

    def _push(self, chunk: HeapChunk) -> None:
        self.chunks.append(chunk)
        if (count := due(self.chunks)) > 1:
            newest = self.chunks[-count:]
            self.work.rewritten += sum(map(len, newest))
            id = np.concatenate([each.id for each in newest])
            self.chunks[-count:] = [HeapChunk(id, pa.concat_batches([each.rows for each in newest]))]
        self._number()

    def _number(self) -> None:
        self._starts = list(accumulate(map(len, self.chunks), initial=0))[:-1]

    def remove(self, place: int) -> None:
        self.live[place] = False
        self.dying.append(place)
        self.gone += 1

    def remove_all(self, places: Ints) -> None:
        """Each of them lives."""
        self.live[places] = False
        self.dying += places.tolist()
        self.gone += len(places)

    def id_at(self, place: int) -> int:
        start = self._tail_start
        if place >= start:
            return self._tail_ids[place - start]
        number = bisect_right(self._starts, place) - 1
        return int(self.chunks[number].id[place - self._starts[number]])

    @property
    def _tail_start(self) -> int:
        return self.size - len(self._tail)

    def ids(self, places: Ints) -> Uint64s:
        """The identities of the rows at these places."""
        if (span := self._span(places)) is not None:
            chunk, start, end = span
            return chunk.id[start:end]
        if len(self.chunks) == 1 and not self._tail:
            return self.chunks[0].id[places]
        whole = np.empty(len(places), np.uint64)
        for mask, number in self._parts(places):
            there = places[mask]
            whole[mask] = (
                self.chunks[number].id[there - self._starts[number]]
                if number < len(self.chunks)
                else np.array([self._tail_ids[at - self._tail_start] for at in there.tolist()], np.uint64)
            )
        return whole

    def _span(self, places: Ints) -> tuple[HeapChunk, int, int] | None:
        """Where the places follow one another in one chunk: which, from where and to where."""
        if not len(places) or not self.chunks:
            return None
        first, last = int(places[0]), int(places[-1])
        if last - first != len(places) - 1 or (places[1:] <= places[:-1]).any():
            return None
        number = bisect_right(self._starts, first) - 1
        start = self._starts[number]
        return (
            (self.chunks[number], first - start, last + 1 - start) if last < start + len(self.chunks[number]) else None
        )

    def _parts(self, places: Ints) -> list[tuple[Ints, int]]:
        """Which of the places are in which chunk; one number too high is the tail."""
        starts = [*self._starts, self._tail_start]
        number = np.searchsorted(np.array(starts), places, "right") - 1
        present = np.flatnonzero(np.bincount(number, minlength=len(starts)))
        return [(np.flatnonzero(number == each), int(each)) for each in present]

    def rows(self, places: Ints, columns: Sequence[int] | None = None) -> pa.RecordBatch:
        """The rows at these places, in that order; all their columns, or some."""
        if (span := self._span(places)) is not None:
            chunk, start, end = span
            return _chosen(chunk.rows, columns).slice(start, end - start)
        if len(self.chunks) == 1 and not self._tail:
            return _chosen(self.chunks[0].rows, columns).take(pa.array(places))
        if len(places) <= 2:
            return _chosen(self.few(places.tolist()), columns)
        order, rows = self.gather(places, columns)
        return rows if order is None else rows.take(pa.array(np.argsort(order)))

    def gather(self, places: Ints, columns: Sequence[int] | None = None) -> tuple[Ints | None, pa.RecordBatch]:
        """The rows at these places as they lie: row i is of place `order[i]`, or i where that is None."""
        taken, order = [], []
        for mask, number in self._parts(places):
            if number < len(self.chunks):
                some = _chosen(self.chunks[number].rows, columns)
                taken.append(some.take(pa.array(places[mask] - self._starts[number])))
            else:
                start = self._tail_start
                recent = assembled([self._tail[at - start] for at in places[mask].tolist()], self.table)
                taken.append(_chosen(recent, columns))
            order.append(mask)
        return (None, taken[0]) if len(taken) == 1 else (np.concatenate(order), pa.concat_batches(taken))

    def few(self, places: Sequence[int]) -> pa.RecordBatch:
        """The rows at a few places, in that order."""
        return assembled([self._located(place) for place in places], self.table)

    def _located(self, place: int) -> tuple[pa.RecordBatch, int]:
        start = self._tail_start
        if place >= start:
            return self._tail[place - start]
        number = bisect_right(self._starts, place) - 1
        return self.chunks[number].rows, place - self._starts[number]

    def all(self) -> tuple[Uint64s, pa.RecordBatch]:
        """Every row with its identity, by place."""
        self.settle()
        if not self.chunks:
            return np.zeros(0, np.uint64), assembled([], self.table)
        one = len(self.chunks) == 1
        id = self.chunks[0].id if one else np.concatenate([each.id for each in self.chunks])
        rows = self.chunks[0].rows if one else pa.concat_batches([each.rows for each in self.chunks])
        if not self.gone:
            return id, rows
        live = self.live[: self.size]
        return id[live], rows.filter(pa.array(live))

    @property
    def places(self) -> Ints:
        """Of every row."""
        return np.flatnonzero(self.live[: self.size])

    def vacuum(self) -> tuple[Bools, Ints]:
        """Leaves out the rows that are gone. Which places lived, and where the row of each of these is now."""
        self.settle()
        live = self.live[: self.size]
        target: Ints = np.cumsum(live) - 1
        self.work.rewritten += len(self)
        parts = [
            (chunk, live[start : start + len(chunk)]) for chunk, start in zip(self.chunks, self._starts, strict=True)
        ]
        self.chunks = [
            chunk if kept.all() else HeapChunk(chunk.id[kept], chunk.rows.filter(pa.array(kept)))
            for chunk, kept in parts
            if kept.any()
        ]
        self.size, self.gone = len(self), 0
        self.live, self.deaths, self.dying = np.ones(max(self.size, 16), np.bool_), [], []
        self._number()
        return live, target

    def note_deaths(self) -> None:
        """Those that are not noted yet become a run, for the disk."""
        if self.dying:
            self.deaths.append(DeathRun(np.sort(np.array(self.dying, np.uint32))))
            self.dying = []
            if (count := due(self.deaths)) > 1:
                newest = self.deaths[-count:]
                self.work.reindexed += sum(map(len, newest))
                self.deaths[-count:] = [DeathRun(np.sort(np.concatenate([run.place for run in newest])))]

    def restore(self, chunks: list[HeapChunk], deaths: list[DeathRun]) -> None:
        """What was saved, into a heap that is still empty."""
        self.chunks, self.deaths = chunks, deaths
        self._grown(sum(map(len, chunks)))
        for run in deaths:
            self.live[run.place] = False
        self.gone = sum(map(len, deaths))
        self._number()

    def replace(self, rows: pa.RecordBatch, table: Table) -> None:
        """The rows, all of them there, with other columns."""
        self.table = table
        if self.size:
            self.chunks = [HeapChunk(self.all()[0], rows)]
            self._number()

    def define(self, table: Table) -> None:
        """The table's new schema, for rows held already."""
        self.settle()
        self.table = table
        self.chunks = [HeapChunk(chunk.id, conform(chunk.rows, table)) for chunk in self.chunks]


def assembled(entries: Sequence[tuple[pa.RecordBatch, int]], table: Table) -> pa.RecordBatch:
    """One batch of rows that lie in several, copying no others."""
    if len(entries) == 1:
        return entries[0][0].slice(entries[0][1], 1)
    parts: dict[int, tuple[pa.RecordBatch, list[int], list[int]]] = {}
    for n, (rows, place) in enumerate(entries):
        _, places, targets = parts.setdefault(id(rows), (rows, [], []))
        places.append(place)
        targets.append(n)
    if not parts:
        empty = [pa.nulls(0, column.type.arrow) for column in table.columns]
        return pa.RecordBatch.from_arrays(empty, schema=table.arrow)
    taken = [_taken(rows, places) for rows, places, _ in parts.values()]
    if len(taken) == 1:
        return taken[0]
    order = [n for _, _, each in parts.values() for n in each]
    whole = pa.concat_batches(taken)
    return whole if order == list(range(len(order))) else whole.take(pa.array(np.argsort(order)))


def _chosen(rows: pa.RecordBatch, columns: Sequence[int] | None) -> pa.RecordBatch:
    return rows if columns is None else rows.select(columns)


def _taken(rows: pa.RecordBatch, places: list[int]) -> pa.RecordBatch:
    return rows.slice(places[0], 1) if len(places) == 1 else rows.take(pa.array(places, pa.int64()))
