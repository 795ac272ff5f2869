"""The edits of a template as one Arrow batch, in canonical order.

Edits have: instance int64, tx int64, kind int8, old_hash and new_hash uint64 (0 = absent), old_index and index int64
(NULL where the template is unordered; a RESULT row's index is its place), then `old.<i>` and `new.<i>` for each output.
Where there are many edits, all of results, there is no `old.<i>`. They are sorted by tx and instance; a RESULT comes
after a diff of the same tx; then by old_index, index, old_hash, new_hash. An emission with no edits is an empty result,
an error or a close. It never decides what is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.emissions.block import NOWHERE, RESULT, Block, Edit, FewEdits
from headwater.engine.rows.arrays import Int64s, Ints
from headwater.engine.rows.conform import repacked
from headwater.model.size import SMALL
from headwater.model.value import COUNTED, FewRows, Type
from headwater.model.value import field as typed_field

_OLD_ROWS_MIN = 17  # part of the format: results with fewer rows have their empty old rows
_BOTH, _NEW = ("old", "new"), ("new",)
FIXED = 7  # columns, before those of the rows


@lru_cache(maxsize=4096)
def edits_schema(types: tuple[Type, ...], sides: tuple[str, ...] = _BOTH) -> pa.Schema:
    fixed = [
        pa.field("instance", pa.int64()),
        pa.field("tx", pa.int64()),
        pa.field("kind", pa.int8()),
        pa.field("old_hash", pa.uint64()),
        pa.field("new_hash", pa.uint64()),
        pa.field("old_index", pa.int64()),
        pa.field("index", pa.int64()),
    ]
    rows = [typed_field(f"{side}.{n}", type) for side in sides for n, type in enumerate(types)]
    return pa.schema([*fixed, *rows])


def edits_of(parts: Sequence[Block | FewEdits]) -> pa.RecordBatch:
    """Edits in canonical order. Where a column turned ANY between two parts, all are packed."""
    types = _widest([part.types for part in parts])
    alike = [_whole(list(some)) for _, some in groupby(parts, key=lambda part: part.types)]
    if len(alike) == 1 and len(alike[0]) >= _OLD_ROWS_MIN and (alike[0].block.kind == RESULT).all():
        return _large_batch(alike[0].block, types, _NEW)
    batches = [_columns(part, types) for part in alike]
    return batches[0] if len(batches) == 1 else _without_old(_sorted(pa.concat_batches(batches)))


def _without_old(edits: pa.RecordBatch) -> pa.RecordBatch:
    """Results have no rows of before: where they are many, these are left out."""
    first, count = edits.schema.get_field_index("old.0"), edits.num_columns
    if first < 0 or edits.num_rows < _OLD_ROWS_MIN or not (np.asarray(edits.column("kind")) == RESULT).all():
        return edits
    return edits.select([*range(first), *range(first + (count - first) // 2, count)])


def _whole(parts: list[Block | FewEdits]) -> Block | FewEdits:
    """Parts of the same types as one: a hundred thousand new subscriptions are as many blocks."""
    if len(parts) == 1:
        return parts[0]
    blocks = [part.block for part in parts]
    sizes = [block.pool.num_rows for block in blocks]
    base = np.repeat(np.cumsum(sizes) - sizes, [len(block) for block in blocks])
    old, new = (np.concatenate([getattr(block, side) for block in blocks]) for side in ("old", "new"))
    return Block(
        np.concatenate([block.instance for block in blocks]),
        np.concatenate([block.tx for block in blocks]),
        np.concatenate([block.kind for block in blocks]),
        np.concatenate([block.old_hash for block in blocks]),
        np.concatenate([block.new_hash for block in blocks]),
        np.concatenate([block.old_index for block in blocks]),
        np.concatenate([block.index for block in blocks]),
        np.where(old < 0, NOWHERE, old + base),
        np.where(new < 0, NOWHERE, new + base),
        pa.concat_batches([block.pool for block in blocks]),
        blocks[0].types,
    )


def _widest(all_types: Sequence[tuple[Type, ...]]) -> tuple[Type, ...]:
    if len(all_types) == 1:
        return all_types[0]
    columns: list[set[Type]] = [set(column) for column in zip(*all_types, strict=True)]
    return tuple(column.pop() if len(column) == 1 else Type.ANY for column in columns)


def _columns(part: Block | FewEdits, types: tuple[Type, ...]) -> pa.RecordBatch:
    is_small = len(part) <= SMALL.edit_rows and part.pool.num_rows <= SMALL.edit_rows
    if is_small and part.types == types and _are_pythons(types):
        return _small_batch(part.numbers, part.pool, types)
    return _large_batch(part.block, types)


def _small_batch(edits: list[Edit], pool: pa.RecordBatch, types: tuple[Type, ...]) -> pa.RecordBatch:
    """What `_large_batch` gives, row by row."""
    if types:
        images = [*zip(*(column.to_pylist() for column in pool.columns), strict=True), (None,) * len(types)]
    else:  # a pool without columns has no number of rows
        images = [()] * (2 + max(max(edit[-2:]) for edit in edits))
    return _converter(types).of(
        (*numbers, None if old_index < 0 else old_index, None if index < 0 else index, *images[old], *images[new])
        for *numbers, old_index, index, old, new in (sorted(edits, key=_place) if len(edits) > 1 else edits)
    )


def _place(edit: Edit) -> tuple[int, ...]:
    """By which edits are in canonical order."""
    instance, tx, kind, old_hash, new_hash, old_index, index, _, _ = edit
    return tx, instance, kind == RESULT, old_index, index, old_hash, new_hash


@lru_cache(maxsize=4096)
def _are_pythons(types: tuple[Type, ...]) -> bool:
    """Whether all that Arrow holds of them, Python has too: not so of moments, which may be infinity."""
    return COUNTED.keys().isdisjoint(types)


@lru_cache(maxsize=4096)
def _converter(types: tuple[Type, ...]) -> FewRows:
    return FewRows(edits_schema(types))


def _large_batch(block: Block, types: tuple[Type, ...], which: tuple[str, ...] = _BOTH) -> pa.RecordBatch:
    keys = (
        block.tx,
        block.instance,
        block.kind == RESULT,
        block.old_index,
        block.index,
        block.old_hash,
        block.new_hash,
    )
    fixed: list[npt.NDArray[Any]] = [block.instance, block.tx, block.kind, block.old_hash, block.new_hash]
    indexes, sides = [block.old_index, block.index], [getattr(block, side) for side in which]
    if not _in_order(keys):
        order = _canonical(*keys)
        fixed, indexes, sides = ([column[order] for column in each] for each in (fixed, indexes, sides))
    images = [_image(block.pool, side) for side in sides]
    rows = [side.columns if block.types == types else _widened(side, block.types, types) for side in images]
    arrays = [*map(pa.array, fixed), *map(_nullable, indexes), *(column for side in rows for column in side)]
    return pa.RecordBatch.from_arrays(arrays, schema=edits_schema(types, which))


def _in_order(keys: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether rows lie by their keys already, as those of a first result do: they need not be copied."""
    equal = np.ones(len(keys[0]) - 1, np.bool_)
    for key in keys:
        if (equal & (key[1:] < key[:-1])).any():
            return False
        equal &= key[1:] == key[:-1]
        if not equal.any():
            return True
    return True


def _rising(places: npt.NDArray[np.integer]) -> bool:
    """Whether they are 0, 1, 2 and so on."""
    return bool((places == np.arange(len(places))).all())


def _image(pool: pa.RecordBatch, side: Int64s) -> pa.RecordBatch:
    if len(side) == pool.num_rows and _rising(side):
        return pool
    return pool.take(_nullable(side)) if (side >= 0).any() else null_rows(pool.schema, len(side))


def null_rows(schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Rows of NULLs. All their columns are the same zeros, for which a large first result needs no room. Buffers are as
    long as Arrow makes them: however an emission came about, it is the same bytes."""
    zeros = pa.py_buffer(bytes(max(16, 8 * (count + 1))))
    valid, offsets, none = zeros.slice(0, -(-count // 8)), zeros.slice(0, 8 * (count + 1)), zeros.slice(0, 0)

    def column(type: pa.DataType) -> pa.Array:
        held = [offsets, none] if type.num_buffers == 3 else [zeros.slice(0, -(-count * type.bit_width // 8))]
        return pa.Array.from_buffers(type, count, [valid, *held], count)

    return pa.RecordBatch.from_arrays([column(type) for type in schema.types], schema=schema)


def _widened(rows: pa.RecordBatch, have: tuple[Type, ...], types: tuple[Type, ...]) -> list[pa.Array]:
    return [
        column if type is want else repacked(column, type, want)
        for column, type, want in zip(rows.columns, have, types, strict=True)
    ]


def _nullable(places: Int64s) -> pa.Array:
    nowhere = places < 0
    return pa.array(np.where(nowhere, 0, places), mask=nowhere) if nowhere.any() else pa.array(places)


def _canonical(tx: Int64s, instance: Int64s, *keys: npt.NDArray[np.generic]) -> Ints:
    """The further keys are asked only where an emission has several edits."""
    if len(tx) < 2:
        return np.zeros(len(tx), np.intp)
    order = np.lexsort((instance, tx))
    alike = (tx[order][1:] == tx[order][:-1]) & (instance[order][1:] == instance[order][:-1])
    return np.lexsort((*keys[::-1], instance, tx)) if alike.any() else order


def _sorted(batch: pa.RecordBatch) -> pa.RecordBatch:
    instance, tx, kind, old_hash, new_hash = (np.asarray(batch.column(n)) for n in range(5))
    old_index, index = (np.asarray(batch.column(n).fill_null(NOWHERE)) for n in (5, 6))
    order = _canonical(tx, instance, kind == RESULT, old_index, index, old_hash, new_hash)
    return batch if (order == np.arange(len(order))).all() else batch.take(pa.array(order))
