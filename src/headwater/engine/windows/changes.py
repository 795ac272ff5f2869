"""Changes: the removals and additions of a transaction paired into logical changes of rows (law 4).

A row that was removed and added again under the same identity changed; so did one that the rename map leads from an old
identity to a new one. The rest came or went. It never looks at a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools, Int64s
from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.delta import Delta
from headwater.engine.windows.row_identity import Identified, Multiset, identify_keyed, identify_multiset
from headwater.model.encoding.keys import Uint64s
from headwater.model.size import SMALL

ABSENT = -1


@dataclass(frozen=True, slots=True)
class Changes:
    """A step of one table, by `tx`. Row `i` is `rows[i]` with identity `id[i]`; change `j` leads from row `old[j]` to
    row `new[j]` at `tx[j]`, with −1 for no row."""

    rows: pa.RecordBatch
    id: Uint64s
    old: Int64s
    new: Int64s
    tx: Int64s

    def __len__(self) -> int:
        return len(self.tx)

    def of_rows(self) -> tuple[Int64s, Bools]:
        """Of each row the change it is part of, −1 for none, and whether it came with it."""
        change, came = np.full(len(self.id), ABSENT, np.int64), np.zeros(len(self.id), np.bool_)
        for side in (self.old, self.new):
            at = np.flatnonzero(side >= 0)
            change[side[at]] = at
        came[self.new[self.new >= 0]] = True
        return change, came


def changes_of(shape: TableSchema, delta: Delta, multiset: Multiset | None) -> Changes:
    """`multiset` counts the rows of a key-less table. With a key there is at most one − and one + of a row in a tx."""
    rows = shape.rows_of(delta.batch)
    tx, diff = (delta.batch.column(delta.batch.num_columns - n).to_numpy() for n in (2, 1))
    if multiset is not None:
        found = identify_multiset(shape.table, rows, tx, diff, multiset)
        rows, tx = rows.take(pa.array(found.place)), tx[found.place]
    else:
        found = identify_keyed(shape, rows, diff)
    pair_id, renamed = _pair_ids(tx, found, delta.renames)
    return _paired(rows, tx, found, pair_id, renamed)


def _pair_ids(tx: Int64s, found: Identified, renames: pa.RecordBatch | None) -> tuple[Uint64s, Int64s]:
    """For each row the identity it is to be paired under, and whether a rename says so."""
    if renames is None and found.id is found.name:
        return found.id, np.zeros(len(tx), np.int64)
    pair_id, renamed = found.id.copy(), np.zeros(len(tx), np.int64)
    named = zip(*(column.to_pylist() for column in renames.columns), strict=True) if renames is not None else ()
    gone: dict[tuple[int, int], list[int]] = {}
    came: dict[tuple[int, int], list[int]] = {}
    for row in _concerned(tx, found, renames).tolist():
        at, name, sign = int(tx[row]), int(found.name[row]), found.sign[row]
        (came if sign > 0 else gone).setdefault((at, name), []).append(row)
    kept_name = (
        (*key, key[1]) for key, rows in came.items() for _ in rows
    )  # a key-less row that changed beneath its collation
    for at, old, new in [*named, *kept_name]:
        sources, targets = gone.get((at, old)), came.get((at, new))
        if sources and targets:
            target = targets.pop()
            pair_id[target], renamed[target] = found.id[sources.pop()], 1
    return pair_id, renamed


def _concerned(tx: Int64s, found: Identified, renames: pa.RecordBatch | None) -> Int64s:
    """With a key, the identity of a row that no rename tells of says it all."""
    if found.id is not found.name or renames is None:
        return np.arange(len(tx))
    old, new = renames.column(1).to_numpy(), renames.column(2).to_numpy()
    return np.flatnonzero(np.isin(found.name, np.concatenate((old, new))))


def _paired(rows: pa.RecordBatch, tx: Int64s, found: Identified, pair_id: Uint64s, renamed: Int64s) -> Changes:
    """Sorted so that a removal stands just before the addition it belongs to: by a rename first, else by identity."""
    return (_small_pairs if len(tx) <= SMALL.paired_rows else _large_pairs)(rows, tx, found, pair_id, renamed)


def _small_pairs(rows: pa.RecordBatch, tx: Int64s, found: Identified, pair_id: Uint64s, renamed: Int64s) -> Changes:
    """What `_large_pairs` gives, row by row."""
    each = zip(tx.tolist(), pair_id.tolist(), found.sign.tolist(), renamed.tolist(), strict=True)
    ordered = sorted((at, who, 0 if sign < 0 else 2 - named, n) for n, (at, who, sign, named) in enumerate(each))
    pairs: list[tuple[int, int, int]] = []
    before: tuple[int, int] | None = None  # whose removal came just now
    for at, who, kind, row in ordered:
        if kind == 0:
            pairs.append((row, ABSENT, at))
        elif before == (at, who):
            pairs[-1] = (pairs[-1][0], row, at)
        else:
            pairs.append((ABSENT, row, at))
        before = (at, who) if kind == 0 else None
    table = np.array(pairs, np.int64).reshape(len(pairs), 3)
    return Changes(rows, found.id, table[:, 0], table[:, 1], table[:, 2])


def _large_pairs(rows: pa.RecordBatch, tx: Int64s, found: Identified, pair_id: Uint64s, renamed: Int64s) -> Changes:
    removal = found.sign < 0
    order = np.lexsort((np.where(removal, 0, 2 - renamed), pair_id, tx))
    same = (tx[order][1:] == tx[order][:-1]) & (pair_id[order][1:] == pair_id[order][:-1])
    second = np.zeros(len(order), np.bool_)
    second[1:] = same & removal[order][:-1] & ~removal[order][1:]
    lead = order[~second]
    follower = np.full(len(order), ABSENT, np.int64)
    follower[:-1][second[1:]] = order[1:][second[1:]]
    follower = follower[~second]
    gone = removal[lead]
    return Changes(rows, found.id, np.where(gone, lead, ABSENT), np.where(gone, follower, lead), tx[lead])
