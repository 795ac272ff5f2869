"""Batch: what operators pass on: rows with their identity, the transaction and the weight of each update.

`diff` may be any number, and a batch may have several updates of a row in one transaction until it is consolidated. It
never says which removal belongs to which addition: `operators/output.py` does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools, Int64s, Ints, firsts
from headwater.engine.rows.hashes import row_hash
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Column, Table
from headwater.sql.ir.relation import RelColumn


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


def table_of(columns: Sequence[RelColumn], key: tuple[str, ...] = (), name: str = "") -> Table:
    described = tuple(Column(c.name, c.type, c.declared, c.collation) for c in columns)
    table = Table(name, described, key)
    dialect = next((c.sql_type.dialect for c in columns if c.sql_type is not None), table.dialect)
    return replace(table, dialect=dialect)


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
