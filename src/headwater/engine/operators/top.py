"""top: ORDER BY with LIMIT and OFFSET, per partition. It keeps every row, so a frame that runs short needs no re-query.

A row's place is its encoded sort key, its row hash and a number among its equals. A change beyond the frame's end costs
its place in the order and nothing else. OFFSET without LIMIT is everything but a frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.engine.expression import Expressions
from headwater.engine.operators.bag import Bag
from headwater.engine.operators.batch import Batch, firsts, nothing, together
from headwater.engine.operators.failures import Failures
from headwater.engine.operators.identity import identity_of
from headwater.engine.operators.kept import State
from headwater.engine.operators.ordered import Ordered
from headwater.engine.work import Work
from headwater.model.keys import Uint64s, encode_columns
from headwater.model.schema import Table
from headwater.sql.expr import ColumnRef
from headwater.sql.relation import Top

_ID_BYTES, _COPY_BYTES = 8, 4
_ONLY = bytes(_COPY_BYTES)


@dataclass(slots=True)
class _Partition:
    """`copies`: how often the row at each place is there; None where no row comes twice."""

    copies: dict[bytes, int] | None
    ordered: Ordered = field(default_factory=Ordered)
    frame: list[bytes] = field(default_factory=list)

    def change(self, place: bytes, diff: int) -> None:
        """A place is a sort key with the row's hash."""
        if self.copies is not None:
            self._recount(self.copies, place, diff)
        elif diff > 0:
            self.ordered.insert(place + _ONLY)
        else:
            self.ordered.remove(place + _ONLY)

    def _recount(self, copies: dict[bytes, int], place: bytes, diff: int) -> None:
        had = copies.get(place, 0)
        for copy in range(had, had + diff):
            self.ordered.insert(place + copy.to_bytes(_COPY_BYTES, "big"))
        for copy in range(had + diff, had):
            self.ordered.remove(place + copy.to_bytes(_COPY_BYTES, "big"))
        copies[place] = had + diff
        if not had + diff:
            del copies[place]

    def fill(self, changes: list[tuple[bytes, int]]) -> None:
        """All rows of an empty partition at once."""
        if self.copies is not None:
            self.copies.update(changes)
        self.ordered = Ordered(
            place + copy.to_bytes(_COPY_BYTES, "big") for place, times in changes for copy in range(times)
        )


class TopOperator:
    def __init__(self, top: Top, table: Table, work: Work, failures: Failures) -> None:
        self.table = table
        self._order = top.order
        self._parts = [expr.collation if isinstance(expr, ColumnRef) else "BINARY" for expr in top.partition]
        self._expressions = Expressions([*top.partition, *(key.expr for key in top.order)], table)
        self._all_but = top.limit is None
        self._start = 0 if self._all_but else top.offset
        self._end = top.offset + (top.limit or 0)
        self._unique = identity_of(top.input) is not None
        self._failures = failures
        self._bag = Bag(table, work)
        self._partitions: dict[bytes, _Partition] = {}

    def step(self, inputs: list[Batch]) -> Batch:
        batch = inputs[0].consolidated()
        if not len(batch):
            return nothing(self.table)
        partitions, places, batch = self._placed(batch)
        moved = self._moves(partitions, places, batch)
        out = self._rows_of(moved, batch)
        self._bag.absorb(batch.id, batch)
        if self._all_but:
            out = together([batch, Batch(out.rows, out.id, out.tx, -out.diff)], self.table)
        return out.consolidated()

    def _placed(self, batch: Batch) -> tuple[list[bytes], list[bytes], Batch]:
        """The partition and the place of each row. A row that fails has none."""
        evaluated = self._expressions.evaluate(batch.rows)
        columns = evaluated.columns
        if evaluated.failed:
            self._failures.note(evaluated.failed, batch.rows, batch.tx, batch.diff)
            kept = np.ones(len(batch), np.bool_)
            kept[list(evaluated.failed)] = False
            columns, batch = [column.filter(pa.array(kept)) for column in columns], batch.filter(kept)
        n, types = len(self._parts), self._expressions.types
        partitions = encode_columns(columns[:n], types[:n], self._parts) if n else [b""] * len(batch)
        order = self._order
        keys = (
            encode_columns(
                columns[n:],
                types[n:],
                [key.collation for key in order],
                [key.descending for key in order],
                [key.nulls_first for key in order],
            )
            if order
            else [b""] * len(batch)
        )
        ids = batch.id.astype(">u8").tobytes()
        places = [key + ids[at * _ID_BYTES : (at + 1) * _ID_BYTES] for at, key in enumerate(keys)]
        return partitions, places, batch

    def _moves(self, partitions: list[bytes], places: list[bytes], batch: Batch) -> list[tuple[int, int, int]]:
        """(row hash, tx, diff) of rows that enter or leave a frame."""
        numbers: dict[bytes, int] = {}
        number = np.fromiter((numbers.setdefault(each, len(numbers)) for each in partitions), np.int64, len(batch))
        order = np.lexsort((batch.diff, batch.tx, number))
        cuts = [*firsts((number[order], batch.tx[order])).tolist(), len(order)]
        rows, diff, tx = order.tolist(), batch.diff.tolist(), batch.tx.tolist()
        moved: list[tuple[int, int, int]] = []
        for start, end in pairwise(cuts):
            first = rows[start]
            changes = [(places[row], diff[row]) for row in rows[start:end]]
            self._change(partitions[first], tx[first], changes, moved)
        return moved

    def _change(
        self, name: bytes, tx: int, changes: list[tuple[bytes, int]], moved: list[tuple[int, int, int]]
    ) -> None:
        """One partition, one transaction."""
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = _Partition(None if self._unique else {})
        frame = partition.frame
        full = len(frame) == self._end - self._start
        if not partition.ordered:
            partition.fill(changes)
        else:
            for place, diff in changes:
                partition.change(place, diff)
        if not partition.ordered:
            del self._partitions[name]
        elif full and frame and min(changes)[0] > frame[-1]:
            return
        partition.frame = partition.ordered.slice(self._start, self._end)
        before, after = set(frame), set(partition.frame)
        moved.extend((_id(key), tx, -1) for key in frame if key not in after)
        moved.extend((_id(key), tx, 1) for key in partition.frame if key not in before)

    def _rows_of(self, moved: list[tuple[int, int, int]], batch: Batch) -> Batch:
        """Rows of the step itself, or of those that were there."""
        if not moved:
            return nothing(self.table)
        ids, txs, diffs = zip(*moved, strict=True)
        id: Uint64s = np.array(ids, np.uint64)
        known, place = np.unique(batch.id, return_index=True)
        missing = np.setdiff1d(id, known)
        found = self._bag.probe(missing)
        pool = pa.concat_batches([batch.rows.take(pa.array(place)), found.rows()])
        pool_id = np.concatenate((known, found.id))
        order = np.argsort(pool_id, kind="stable")
        at = order[np.searchsorted(pool_id[order], id)]
        return Batch(pool.take(pa.array(at)), id, np.array(txs, np.int64), np.array(diffs, np.int64))

    def state(self) -> list[State]:
        return [self._bag]

    def resume(self) -> None:
        """The order is made again from the rows."""
        everything = self._bag.all()
        if not len(everything):
            return
        partitions, places, batch = self._placed(everything)
        self._moves(partitions, places, batch)


def _id(key: bytes) -> int:
    return int.from_bytes(key[-_ID_BYTES - _COPY_BYTES : -_COPY_BYTES], "big")
