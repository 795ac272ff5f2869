"""Edits of one template on their way to the outbox, as numbers beside a pool of rows.

It never decides what is emitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Int8s, Int64s
from headwater.model.encoding.keys import Uint64s
from headwater.model.value import Type

RESULT, INSERT, UPDATE, DELETE = 0, 1, 2, 3
NOWHERE = -1  # no row, no place: NULL in Arrow
# instance, tx, kind, old_hash, new_hash, old_index, index, and the places of the old and the new row in the pool
Edit = tuple[int, int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Edits of one template, as arrays: `old` and `new` are places in `pool`, the projected rows."""

    instance: Int64s
    tx: Int64s
    kind: Int8s
    old_hash: Uint64s
    new_hash: Uint64s
    old_index: Int64s
    index: Int64s
    old: Int64s
    new: Int64s
    pool: pa.RecordBatch
    types: tuple[Type, ...]

    def __len__(self) -> int:
        return len(self.instance)

    @property
    def numbers(self) -> list[Edit]:
        columns = (self.instance, self.tx, self.kind, self.old_hash, self.new_hash)
        places = (self.old_index, self.index, self.old, self.new)
        return list(zip(*(column.tolist() for column in (*columns, *places)), strict=True))

    @property
    def block(self) -> Block:
        return self


@dataclass(frozen=True, slots=True)
class FewEdits:
    """As a `Block`, with the numbers of each edit together."""

    numbers: list[Edit]
    pool: pa.RecordBatch
    types: tuple[Type, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def block(self) -> Block:
        instance, tx, kind, old_hash, new_hash, old_index, index, old, new = zip(*self.numbers, strict=True)
        return Block(
            np.array(instance, np.int64),
            np.array(tx, np.int64),
            np.array(kind, np.int8),
            np.array(old_hash, np.uint64),
            np.array(new_hash, np.uint64),
            np.array(old_index, np.int64),
            np.array(index, np.int64),
            np.array(old, np.int64),
            np.array(new, np.int64),
            self.pool,
            self.types,
        )


def result_block(
    instance: int, tx: int, hashes: Uint64s, places: Int64s, pool: pa.RecordBatch, types: tuple[Type, ...]
) -> Block:
    """A whole result, in order: row `i` is at `places[i]` of the pool and has `hashes[i]`."""
    count = len(hashes)
    nowhere = np.full(count, NOWHERE, np.int64)
    return Block(
        np.full(count, instance, np.int64),
        np.full(count, tx, np.int64),
        np.full(count, RESULT, np.int8),
        np.zeros(count, np.uint64),
        hashes,
        nowhere,
        np.arange(count),
        nowhere,
        places,
        pool,
        types,
    )
