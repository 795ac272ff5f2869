"""top: ORDER BY with LIMIT and OFFSET, per partition. It keeps every row, so a frame that runs short needs no re-query.

A row's place is its encoded sort key and its row hash. `OrderedKeys` holds all places and may be on disk. Memory holds
the head of each partition that changes: a frame and some more. A change beyond the frame's end costs its place in the
order and nothing else. OFFSET without LIMIT is everything but a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import add

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.operators.failures import Failures
from headwater.engine.rows.arrays import at_once, firsts
from headwater.engine.rows.batch import Batch, nothing, together
from headwater.engine.rows.work import Work
from headwater.engine.state.bag import Bag
from headwater.engine.state.ordered_keys import OrderedKeys, OrderedKeysPart, OrderedKeysRun, Times
from headwater.engine.state.ordered_keys_head import OrderedKeysHead
from headwater.engine.state.persistence import State
from headwater.model.encoding.keys import BEHIND, Uint64s, encode_columns, encode_whole, hash_columns
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.sql.ir.expr import ColumnRef
from headwater.sql.ir.relation import Top

_NAME_BYTES = _ID_BYTES = 8


@dataclass(slots=True)
class _Partition:
    """`frame`: how often which row is in it; `last`: the last of them."""

    head: OrderedKeysHead
    frame: dict[bytes, int]
    full: bool

    @property
    def last(self) -> bytes:
        return next(reversed(self.frame), b"")


@dataclass(frozen=True, slots=True)
class _Moved:
    """Rows that enter or leave a frame."""

    id: list[int]
    tx: list[int]
    diff: list[int]

    def add(self, key: bytes, tx: int, diff: int) -> None:
        if diff:
            self.id.append(int.from_bytes(key[-_ID_BYTES:], "big"))
            self.tx.append(tx)
            self.diff.append(diff)


class TopOperator:
    def __init__(self, top: Top, table: Table, work: Work, failures: Failures, limits: Limits = DEFAULT) -> None:
        self.table = table
        self._order = top.order
        self._parts = [expr.collation if isinstance(expr, ColumnRef) else "BINARY" for expr in top.partition]
        self._expressions = Expressions([*top.partition, *(key.expr for key in top.order)], table)
        self._all_but = top.limit is None
        self._start = 0 if self._all_but else top.offset
        self._end = top.offset + (top.limit or 0)
        self._failures = failures
        self._bag = Bag(table, work)
        self._places = OrderedKeys(work)
        self._partitions: dict[bytes, _Partition] = {}
        self._room = self._room_max = limits.head_rows_max

    def step(self, inputs: list[Batch]) -> Batch:
        batch = inputs[0].consolidated()
        columns, batch = self._failures.passing(self._expressions, batch) if len(batch) else ([], batch)
        if not len(batch):
            return nothing(self.table)
        names = self._names(columns, len(batch))
        first = not self._places and at_once(batch.tx)
        moved = self._filled(names, columns, batch) if first else self._moves(names, columns, batch)
        out = self._rows_of(moved, batch)
        self._bag.absorb(batch.id, batch)
        if self._all_but:
            out = together([batch, Batch(out.rows, out.id, out.tx, -out.diff)], self.table)
        return out.consolidated()

    def _names(self, columns: list[pa.Array], count: int) -> Uint64s:
        """The partition of each row."""
        n = len(self._parts)
        if not n:
            return np.zeros(count, np.uint64)
        return hash_columns(columns[:n], self._expressions.types[:n], self._parts)

    def _how(self) -> tuple[Sequence[str], Sequence[bool], Sequence[bool]]:
        order = self._order
        return [key.collation for key in order], [key.descending for key in order], [key.nulls_first for key in order]

    # The first rows, all at once

    def _filled(self, names: Uint64s, columns: list[pa.Array], batch: Batch) -> _Moved:
        """Nothing was there before: the frames are read off the sorted places."""
        n, types = len(self._parts), self._expressions.types
        keys = [encode_whole(columns[n:], types[n:], *self._how())] if self._order else []
        parts = [_binary(names), *keys, pa.scalar(BEHIND, pa.large_binary()), _binary(batch.id)]
        run = self._places.fill(pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary())), batch.diff)
        return self._framed(run, int(batch.tx[0]))

    def _framed(self, run: OrderedKeysRun, tx: int) -> _Moved:
        begin = firsts((run.names(),))
        past = np.cumsum(run.weight)
        before = past - run.weight
        base = np.repeat(before[begin], np.diff(np.append(begin, len(run))))
        times = np.minimum(past - base, self._end) - np.maximum(before - base, self._start)
        inside = np.flatnonzero(times > 0)
        id = [int.from_bytes(run[at][-_ID_BYTES:], "big") for at in inside.tolist()]
        return _Moved(id, [tx] * len(id), times[inside].tolist())

    # Changes, one transaction after the other

    def _moves(self, names: Uint64s, columns: list[pa.Array], batch: Batch) -> _Moved:
        order = np.lexsort((batch.diff, batch.tx, names))
        cuts = [*firsts((names[order], batch.tx[order])).tolist(), len(order)]
        rows, diff, tx = order.tolist(), batch.diff.tolist(), batch.tx.tolist()
        keys, name = self._keys(columns, batch.id), names.tolist()
        moved = _Moved([], [], [])
        for start, end in pairwise(cuts):
            first = rows[start]
            changes = [(keys[row], diff[row]) for row in rows[start:end]]
            self._change(name[first].to_bytes(_NAME_BYTES, "big"), tx[first], changes, moved)
        return moved

    def _keys(self, columns: list[pa.Array], id: Uint64s) -> list[bytes]:
        """The place of each row in its partition."""
        n, types = len(self._parts), self._expressions.types
        ids = [BEHIND + each for each in id.astype(">u8").view(f"V{_ID_BYTES}").tolist()]
        return list(map(add, encode_columns(columns[n:], types[n:], *self._how()), ids)) if self._order else ids

    def _change(self, name: bytes, tx: int, changes: list[Times], moved: _Moved) -> None:
        """One partition, one transaction."""
        partition = self._partitions.get(name) or self._open(name)
        known = len(partition.head)
        for key, diff in changes:
            partition.head.change(key, diff)
        partition.head.fill()
        if not partition.full or min(changes)[0] <= partition.last:
            self._reframe(partition, tx, moved)
        self._room -= len(partition.head) - known
        if not partition.head.rows:
            del self._partitions[name]
            self._room += 1
        elif self._room < 0:
            self._partitions, self._room = {}, self._room_max

    def _open(self, name: bytes) -> _Partition:
        head = OrderedKeysHead(OrderedKeysPart(self._places, name), self._end)
        partition = self._partitions[name] = _Partition(head, {}, full=False)
        self._reframe(partition, 0, _Moved([], [], []))
        self._room -= 1 + len(head)
        return partition

    def _reframe(self, partition: _Partition, tx: int, moved: _Moved) -> None:
        before = partition.frame
        partition.frame = after = dict(_between(partition.head, self._start, self._end))
        partition.full = partition.head.rows >= self._end > self._start
        for key, times in before.items():
            moved.add(key, tx, min(after.get(key, 0) - times, 0))
        for key, times in after.items():
            moved.add(key, tx, max(times - before.get(key, 0), 0))

    def _rows_of(self, moved: _Moved, batch: Batch) -> Batch:
        """Rows of the step itself, or of those that were there."""
        if not moved.id:
            return nothing(self.table)
        id: Uint64s = np.array(moved.id, np.uint64)
        known, place = np.unique(batch.id, return_index=True)
        missing = np.setdiff1d(id, known)
        found = self._bag.probe(missing)
        pool = pa.concat_batches([batch.rows.take(pa.array(place)), found.rows()])
        pool_id = np.concatenate((known, found.id))
        order = np.argsort(pool_id, kind="stable")
        at = order[np.searchsorted(pool_id[order], id)]
        return Batch(pool.take(pa.array(at)), id, np.array(moved.tx, np.int64), np.array(moved.diff, np.int64))

    def state(self) -> list[State]:
        return [self._bag, self._places]

    def resume(self) -> None:
        """Heads are read when they are needed."""


def _binary(numbers: Uint64s) -> pa.Array:
    """In eight bytes each, in the order of the numbers."""
    raw = np.ascontiguousarray(numbers.astype(">u8"))
    ends = np.arange(0, 8 * (len(raw) + 1), 8)
    return pa.Array.from_buffers(pa.large_binary(), len(raw), [None, pa.py_buffer(ends), pa.py_buffer(raw)])


def _between(keys: Iterable[Times], start: int, end: int) -> Iterable[Times]:
    """The rows at places [start, end), each with how often it is there among them."""
    at = 0
    for key, times in keys:
        if at >= end:
            return
        inside = min(at + times, end) - max(at, start)
        if inside > 0:
            yield key, inside
        at += times
