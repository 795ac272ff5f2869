"""Bag: the rows of an operator's input by a key, each with its count.

Immutable runs sorted by key hash, newest last; the weights of a row add up over the runs. Runs of similar size are
merged, so that a row is rewritten at most about log2(n) times. It never compares values: a hash finds candidates.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools, Int64s, Ints, at_once, firsts, picked, same
from headwater.engine.rows.batch import Batch, nothing
from headwater.engine.rows.work import Work
from headwater.engine.state.lsm import push
from headwater.engine.state.run_file import held
from headwater.engine.state.sort_hashes import rising, rising_by
from headwater.engine.state.spans import spans
from headwater.model.budget import Budget
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table

Contents = Hashable


@dataclass(slots=True)
class BagRun:
    """`tx` is all zero in a bag at rest. `file` is set once the run is on disk; `mapped`: it is nowhere else.

    Entry i is row i, or row `place[i]` where the rows still lie as they came: they are put in order by a merge."""

    hash: Uint64s
    id: Uint64s
    weight: Int64s
    tx: Int64s
    rows: pa.RecordBatch
    file: str | None = None
    place: Ints | None = None
    mapped: bool = False

    def __len__(self) -> int:
        return len(self.hash)

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return 0 if self.mapped else held(self.hash, self.id, self.weight, self.tx, self.rows, self.place)

    def under(self, schema: pa.Schema) -> BagRun:
        """The same run, its columns under other names."""
        return replace(self, rows=pa.RecordBatch.from_arrays(self.rows.columns, schema=schema))

    def taken(self, at: Ints, columns: Sequence[int] | None = None) -> pa.RecordBatch:
        """The rows of these entries."""
        rows = self.rows if columns is None else self.rows.select(columns)
        return rows.take(pa.array(at if self.place is None else self.place[at]))

    def sorted_rows(self) -> pa.RecordBatch:
        return self.rows if self.place is None else self.rows.take(pa.array(self.place))


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Rows that were copied already, from the store of their table."""

    rows: pa.RecordBatch

    def taken(self, at: Ints, columns: Sequence[int] | None = None) -> pa.RecordBatch:
        """All of them, or some, in the order in which they are here."""
        rows = self.rows if columns is None else self.rows.select(columns)
        return rows if len(at) == rows.num_rows else rows.take(pa.array(at))


@dataclass(frozen=True, slots=True)
class BagMatches:
    """Pairs of a query and a row that may answer it. Rows of a bag are copied only when they are asked for."""

    query: Ints
    id: Uint64s
    weight: Int64s
    tx: Int64s
    parts: list[tuple[BagRun | GatheredRows, Ints]]
    schema: pa.Schema

    def __len__(self) -> int:
        return len(self.query)

    def filter(self, kept: Bools) -> BagMatches:
        if kept.all():
            return self
        cuts = np.cumsum([len(places) for _, places in self.parts])[:-1]
        parts = [(run, places[mine]) for (run, places), mine in zip(self.parts, np.split(kept, cuts), strict=True)]
        return BagMatches(self.query[kept], self.id[kept], self.weight[kept], self.tx[kept], parts, self.schema)

    def rows(self, kept: Bools | None = None, columns: Sequence[int] | None = None) -> pa.RecordBatch:
        taken: list[pa.RecordBatch] = []
        start = 0
        for run, places in self.parts:
            wanted = places if kept is None else places[kept[start : start + len(places)]]
            start += len(places)
            taken.append(run.taken(wanted, columns))
        if not taken:
            fields = [self.schema.field(n) for n in (range(len(self.schema)) if columns is None else columns)]
            return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in fields], schema=pa.schema(fields))
        return taken[0] if len(taken) == 1 else pa.concat_batches(taken)


@dataclass(slots=True)
class Bag:
    """`contents` are the same for bags that hold the same rows at all times; None where that is not known."""

    table: Table
    work: Work
    contents: Contents | None = None
    runs: list[BagRun] = field(default_factory=list)
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        self.schema = self.table.arrow

    def absorb(self, hash: Uint64s, batch: Batch, order: Ints | None = None) -> None:
        """`order` sorts the key hashes, where that is known already."""
        run = run_of(hash, batch, order) if len(batch) else None
        if not run:
            return
        push(self.runs, run, _merged, self.work)

    @property
    def filled(self) -> bool:
        """Whether it may hold anything."""
        return bool(self.runs)

    def probe(self, wanted: Uint64s, order: Ints | None = None) -> BagMatches:
        """The rows under each of these key hashes; one that was taken back may come with weights that cancel."""
        found = probe(self.runs, wanted, self.schema, self.work.budget, order)
        self.work.gathered += len(found)
        return found

    def everything(self, count: int) -> BagMatches:
        """All rows, for each of so many queries."""
        found = everything(self.runs, count, self.schema, self.work.budget)
        self.work.gathered += len(found)
        return found

    def all(self) -> Batch:
        if not self.runs:
            return nothing(self.table)
        whole = self.runs[0] if len(self.runs) == 1 else _merged(self.runs)
        return Batch(whole.sorted_rows(), whole.id, whole.tx, whole.weight)

    def __len__(self) -> int:
        return sum(map(len, self.runs))


@dataclass(frozen=True, slots=True)
class Passing:
    """A step's updates, times kept."""

    runs: list[BagRun]
    schema: pa.Schema
    budget: Budget

    @classmethod
    def of(cls, hash: Uint64s, batch: Batch, order: Ints | None, schema: pa.Schema, budget: Budget) -> Passing:
        if not len(batch):
            return cls([], schema, budget)
        order = rising(hash) if order is None else order
        diff, tx = picked(batch.diff, order), picked(batch.tx, order)
        return cls([BagRun(hash[order], batch.id[order], diff, tx, batch.rows, place=order)], schema, budget)

    def probe(self, wanted: Uint64s, order: Ints | None = None) -> BagMatches:
        return probe(self.runs, wanted, self.schema, self.budget, order)

    def everything(self, count: int) -> BagMatches:
        return everything(self.runs, count, self.schema, self.budget)


def probe(
    runs: Sequence[BagRun], wanted: Uint64s, schema: pa.Schema, budget: Budget, order: Ints | None = None
) -> BagMatches:
    """`order` sorts what is wanted, where that is known: neighbours are then found near each other."""
    hits = [(run, *spans(run.hash, wanted, order, budget)) for run in runs]
    return _found([hit for hit in hits if len(hit[1])], schema)


def everything(runs: Sequence[BagRun], count: int, schema: pa.Schema, budget: Budget) -> BagMatches:
    budget.charge_pairs(count * sum(map(len, runs)))
    hits = [(run, np.repeat(np.arange(count), len(run)), np.tile(np.arange(len(run)), count)) for run in runs]
    return _found(hits, schema)


def joined(parts: Sequence[BagMatches]) -> BagMatches:
    if len(parts) == 1:
        return parts[0]
    return BagMatches(
        np.concatenate([part.query for part in parts]),
        np.concatenate([part.id for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.tx for part in parts]),
        [each for part in parts for each in part.parts],
        parts[0].schema,
    )


def _found(hits: list[tuple[BagRun, Ints, Ints]], schema: pa.Schema) -> BagMatches:
    if not hits:
        empty = np.zeros(0, np.int64)
        return BagMatches(empty, empty.view(np.uint64), empty, empty, [], schema)
    each = [
        BagMatches(query, run.id[places], picked(run.weight, places), picked(run.tx, places), [(run, places)], schema)
        for run, query, places in hits
    ]
    return each[0] if len(each) == 1 else joined(each)


def run_of(hash: Uint64s, batch: Batch, order: Ints | None) -> BagRun:
    """Updates as a bag at rest holds them."""
    if not batch.settled or not at_once(batch.tx):
        return _summed(hash, batch.id, batch.diff, batch.rows)
    order = rising(hash) if order is None else order
    weight = same(1, len(batch)) if (batch.diff == 1).all() else picked(batch.diff, order)
    return BagRun(hash[order], batch.id[order], weight, same(0, len(batch)), batch.rows, place=order)


def _summed(hash: Uint64s, id: Uint64s, weight: Int64s, rows: pa.RecordBatch, places: Ints | None = None) -> BagRun:
    """Each (key hash, row hash) once. `places`: where an entry's row is, if not at its own place."""
    order = rising_by(hash, id)
    hash, id = hash[order], id[order]
    first = firsts((hash, id))
    weight = np.add.reduceat(weight[order], first) if len(first) else weight
    kept = weight != 0
    first, weight = first[kept], weight[kept]
    place = order[first] if places is None else places[order[first]]
    whole = BagRun(hash[first], id[first], weight, same(0, len(first)), rows, place=place)
    if len(first) < rows.num_rows or places is not None:
        whole.rows, whole.place = whole.sorted_rows(), None
    return whole


def _merged(runs: Sequence[BagRun]) -> BagRun:
    return _summed(
        np.concatenate([run.hash for run in runs]),
        np.concatenate([run.id for run in runs]),
        np.concatenate([run.weight for run in runs]),
        pa.concat_batches([run.rows for run in runs]),
        _places(runs),
    )


def _places(runs: Sequence[BagRun]) -> Ints:
    """Of each entry in the rows of all runs."""
    sizes = list(map(len, runs))
    places: Ints = np.concatenate([np.arange(len(run)) if run.place is None else run.place for run in runs])
    places += np.repeat(np.cumsum(sizes) - sizes, sizes)
    return places
