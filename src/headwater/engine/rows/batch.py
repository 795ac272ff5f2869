"""The batch operators pass on: rows, who they are, when they changed and by how much.

`Batch` is a bag of updates: `diff` may be any number, and a row may be named more than once in a transaction until it
is consolidated. It never says which update belongs to which: that is the root's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.rows.hashes import row_hash
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Column, Table
from headwater.sql.ir.relation import RelColumn

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]
Int64s = npt.NDArray[np.int64]
_MANY = 4096


@dataclass(frozen=True, slots=True)
class Batch:
    """`id` is the same for rows that nobody could tell apart, within one relation. `settled`: known to name no row
    twice in a transaction."""

    rows: pa.RecordBatch
    id: Uint64s
    tx: Int64s
    diff: Int64s
    settled: bool = False

    def __len__(self) -> int:
        return len(self.id)

    def take(self, places: Ints) -> Batch:
        return Batch(self.rows.take(pa.array(places)), self.id[places], self.tx[places], self.diff[places])

    def filter(self, kept: Bools) -> Batch:
        if kept.all():
            return self
        rows = self.rows.filter(pa.array(kept))
        return Batch(rows, self.id[kept], self.tx[kept], self.diff[kept], self.settled)

    def consolidated(self) -> Batch:
        """Each (tx, id) once, with what its diffs come to; what cancels is gone. In no order that means anything."""
        if self.settled or len(self) < 2:
            return self
        order = np.lexsort((self.id, self.tx))
        tx, id = self.tx[order], self.id[order]
        first = firsts((tx, id))
        if len(first) == len(self) and self.diff.all():
            return replace(self, settled=True)
        diff = np.add.reduceat(self.diff[order], first)
        kept = diff != 0
        places = first[kept]
        return Batch(self.rows.take(pa.array(order[places])), id[places], tx[places], diff[kept], settled=True)


def same(number: int, count: int) -> Int64s:
    """One number, so many times; many of them take no room."""
    return np.full(count, number, np.int64) if count < _MANY else np.broadcast_to(np.int64(number), count)


def picked(numbers: Int64s, places: Ints) -> Int64s:
    """The numbers at these places."""
    return numbers[places] if _each_its_own(numbers) else same(int(numbers[0]), len(places))


def latest(a: Int64s, b: Int64s) -> Int64s:
    return np.maximum(a, b) if _each_its_own(a, b) else same(max(int(a[0]), int(b[0])), len(a))


def product(a: Int64s, b: Int64s) -> Int64s:
    return a * b if _each_its_own(a, b) else same(int(a[0]) * int(b[0]), len(a))


def _each_its_own(*numbers: Int64s) -> bool:
    """False where each is one number, so many times, as `same` makes it."""
    return any(each.strides[0] for each in numbers)


def at_once(*times: Int64s) -> bool:
    """Whether everything happens in one transaction."""
    moments = {int(tx[0]) for tx in times if len(tx)}
    return len(moments) < 2 and all(bool((tx == tx[:1]).all()) for tx in times)


def firsts(keys: Sequence[npt.NDArray[np.generic]]) -> Ints:
    """Where a new value begins, in arrays that are sorted by these keys."""
    new = np.zeros(len(keys[0]), np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def table_of(columns: Sequence[RelColumn], key: tuple[str, ...] = (), name: str = "") -> Table:
    return Table(name, tuple(Column(c.name, c.type, c.declared, c.collation) for c in columns), key)


def identified(rows: pa.RecordBatch, table: Table, tx: Int64s, diff: Int64s, *, settled: bool = False) -> Batch:
    return Batch(rows, row_hash(rows, [column.type for column in table.columns]), tx, diff, settled)


@functools.lru_cache(maxsize=1024)
def nothing(table: Table) -> Batch:
    rows = pa.RecordBatch.from_arrays([pa.nulls(0, c.type.arrow) for c in table.columns], schema=table.arrow)
    return Batch(rows, np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64), settled=True)


def together(batches: Sequence[Batch], table: Table) -> Batch:
    """The updates of all of them, which are of one relation."""
    some = [batch for batch in batches if len(batch)]
    if len(some) < 2:
        return some[0] if some else nothing(table)
    return Batch(
        pa.concat_batches([batch.rows for batch in some]),
        np.concatenate([batch.id for batch in some]),
        np.concatenate([batch.tx for batch in some]),
        np.concatenate([batch.diff for batch in some]),
    )
