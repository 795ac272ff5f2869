"""The output of a relation: its updates as the delta of a table, one change per (tx, identity), with renames.

A row that leaves and one that comes are one changed row where a base table's key changed, or where the preserved side
of a join stayed and its partner did not. Rows left over are paired by ever shorter prefixes of their identity, in the
order of the rest of it. It never pairs rows of two transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.operators.identity_columns import Identity
from headwater.engine.rows.arrays import Bools, Int64s, Ints, firsts
from headwater.engine.rows.batch import Batch
from headwater.engine.rows.delta import RENAMES, Delta
from headwater.model.encoding.keys import Uint64s, encode_columns, hash_all, hash_columns
from headwater.model.schema import Table

Renames = Mapping[str, Mapping[tuple[int, int], int]]  # base table → (tx, old key hash) → new key hash


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that came or went with no counterpart of its own identity."""

    tx: int
    parts: tuple[object, ...]
    encoded: tuple[bytes, ...]
    hash: int


class Root:
    def __init__(self, table: Table, identity: Identity | None) -> None:
        self._table = table
        self._identity = identity
        self._schema = pa.schema([*table.arrow, pa.field("tx", pa.int64()), pa.field("diff", pa.int8())])

    def delta(self, batch: Batch, renames: Renames) -> Delta | None:
        batch = batch.consolidated()
        if not len(batch):
            return None
        batch = _in_order(_single(batch))
        pairs = [] if self._identity is None else list(self._pairs(batch, renames))
        columns = [*batch.rows.columns, pa.array(batch.tx), pa.array(batch.diff.astype(np.int8))]
        return Delta(pa.RecordBatch.from_arrays(columns, schema=self._schema), _renames_batch(pairs))

    def _pairs(self, batch: Batch, renames: Renames) -> Iterator[tuple[int, int, int]]:
        """(tx, old_hash, new_hash) of rows whose identity changed."""
        identity = self._identity or ()
        if len(identity) == 1 and not renames.get(identity[0].table or ""):
            return  # a row of another identity is another row
        hashes = self._hashes(batch)
        lone = _both_ways(batch, np.flatnonzero(_lone(batch.tx, hashes) | _renamed(batch.tx, renames)))
        if not len(lone):
            return
        part, hashes = batch.take(lone), hashes[lone]
        if identity and not renames:
            agreeing = self._agreeing(part)
            part, hashes = part.take(agreeing), hashes[agreeing]
        rows = self._lone_rows(part, hashes, renames)
        gone = [row for row, diff in zip(rows, part.diff.tolist(), strict=True) if diff < 0]
        came = [row for row, diff in zip(rows, part.diff.tolist(), strict=True) if diff > 0]
        for kept in _preserved(len(identity)):
            gone, came, paired = _paired(gone, came, kept)
            yield from ((old.tx, old.hash, new.hash) for old, new in paired if old.hash != new.hash)

    def _agreeing(self, batch: Batch) -> Ints:
        """The rows that agree in the first or the last part of their identity with one that goes the other way. No
        others have a counterpart."""
        identity, found = self._identity or (), np.zeros(len(batch), np.bool_)
        for names in {identity[0].columns, identity[-1].columns}:
            found |= _on_both_sides(batch, hash_all(_encoded(batch.rows, self._table, names)))
        return np.flatnonzero(found)

    def _hashes(self, batch: Batch) -> Uint64s:
        """What renames call the rows: the hash of the identity columns, as the log does."""
        columns = [self._table.column(name) for name in self._table.identity]
        arrays = [batch.rows.column(self._table.index(name)) for name in self._table.identity]
        return hash_columns(arrays, [column.type for column in columns], [column.collation for column in columns])

    def _lone_rows(self, batch: Batch, hashes: Uint64s, renames: Renames) -> list[_Row]:
        identity = self._identity or ()
        encoded = [_encoded(batch.rows, self._table, part.columns) for part in identity]
        known = [
            _followed(batch, codes, renames.get(part.table or ""))
            for part, codes in zip(identity, encoded, strict=True)
        ]
        count = len(batch)
        parts = list(zip(*known, strict=True)) if known else [()] * count
        codes = list(zip(*encoded, strict=True)) if encoded else [()] * count
        each = zip(batch.tx.tolist(), parts, codes, hashes.tolist(), strict=True)
        return [_Row(tx, part, code, hash) for tx, part, code, hash in each]


def _followed(batch: Batch, encoded: list[bytes], renames: Mapping[tuple[int, int], int] | None) -> list[object]:
    """The part's key hash; that of a row that leaves is the one its base row has now."""
    hashes = hash_all(encoded).tolist()
    if not renames:
        return list(hashes)
    each = zip(batch.tx.tolist(), hashes, batch.diff.tolist(), strict=True)
    return [renames.get((tx, hash), hash) if diff < 0 else hash for tx, hash, diff in each]


def _preserved(parts: int) -> Iterator[tuple[int, ...]]:
    """Which parts must agree: all, then ever fewer from the left; at last the last alone (a full join's right)."""
    yield tuple(range(parts))
    for end in range(parts - 1, 0, -1):
        yield tuple(range(end))
    if parts > 1:
        yield (parts - 1,)


def _paired(
    gone: list[_Row], came: list[_Row], kept: Sequence[int]
) -> tuple[list[_Row], list[_Row], list[tuple[_Row, _Row]]]:
    """Pairs of rows of one tx that agree in these parts, in the order of their identities; and what is left."""
    there: dict[tuple[object, ...], list[_Row]] = {}
    for row in sorted(came, key=lambda row: row.encoded, reverse=True):
        there.setdefault((row.tx, *(row.parts[n] for n in kept)), []).append(row)
    left: list[_Row] = []
    pairs: list[tuple[_Row, _Row]] = []
    for row in sorted(gone, key=lambda row: row.encoded):
        partners = there.get((row.tx, *(row.parts[n] for n in kept)))
        if partners:
            pairs.append((row, partners.pop()))
        else:
            left.append(row)
    return left, [row for rows in there.values() for row in rows], pairs


def _lone(tx: Int64s, hashes: Uint64s) -> Bools:
    """Rows whose identity appears once in their transaction."""
    order = np.lexsort((hashes, tx))
    at, id = tx[order], hashes[order]
    same = (at[1:] == at[:-1]) & (id[1:] == id[:-1])
    lone = np.ones(len(order), np.bool_)
    lone[1:] &= ~same
    lone[:-1] &= ~same
    placed = np.zeros(len(order), np.bool_)
    placed[order[lone]] = True
    return placed


def _on_both_sides(batch: Batch, hash: Uint64s) -> Bools:
    """Rows whose hash is that of some that leave and of some that come in their transaction."""
    order = np.lexsort((hash, batch.tx))
    first = firsts((batch.tx[order], hash[order]))
    count, leaves = np.diff(np.append(first, len(order))), np.add.reduceat(batch.diff[order] < 0, first, dtype=np.int64)
    found = np.zeros(len(order), np.bool_)
    found[order] = np.repeat((leaves > 0) & (leaves < count), count)
    return found


def _both_ways(batch: Batch, rows: Int64s) -> Int64s:
    """Those of transactions in which rows both leave and come: others have nobody to pair with."""
    tx, leaves = batch.tx[rows], batch.diff[rows] < 0
    if leaves.all() or not leaves.any():
        return rows[:0]
    kept: Int64s = rows[np.isin(tx, tx[leaves]) & np.isin(tx, tx[~leaves])]
    return kept


def _renamed(tx: Int64s, renames: Renames) -> Bools:
    """Rows of transactions in which a base row took another's key: there the same identity may mean another row."""
    times = [at for each in renames.values() for at, _ in each]
    return np.isin(tx, times) if times else np.zeros(len(tx), np.bool_)


def _encoded(rows: pa.RecordBatch, table: Table, names: Sequence[str]) -> list[bytes]:
    if not names:
        return [b""] * rows.num_rows
    columns = [table.column(name) for name in names]
    arrays = [rows.column(table.index(name)) for name in names]
    return encode_columns(arrays, [column.type for column in columns], [column.collation for column in columns])


def _single(batch: Batch) -> Batch:
    """Each row as often as it came or went."""
    times = np.abs(batch.diff)
    if (times == 1).all():
        return batch
    repeated = batch.take(np.repeat(np.arange(len(batch)), times))
    return Batch(repeated.rows, repeated.id, repeated.tx, np.sign(repeated.diff))


def _in_order(batch: Batch) -> Batch:
    """By tx; what left before what came; else by row hash."""
    order = np.lexsort((batch.id, batch.diff, batch.tx))
    return batch if (order == np.arange(len(order))).all() else batch.take(order)


def _renames_batch(pairs: list[tuple[int, int, int]]) -> pa.RecordBatch | None:
    if not pairs:
        return None
    columns = zip(*sorted(pairs), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RENAMES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RENAMES)
