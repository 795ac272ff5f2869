"""join: inner, left, right and full, on any condition.

Inner is bilinear: ΔA⋈B + A⋈ΔB + ΔA⋈ΔB, where a pair comes with the later of its two changes. That is exact at every tx,
also for a row that changes several times in a step. Outer is inner and, padded, what the anti join leaves over.
A step in which both sides change much under one key is taken in halves (`hot_keys.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.engine.operators.failures import Failures
from headwater.engine.operators.join import hot_keys
from headwater.engine.operators.join.condition import Pairs
from headwater.engine.operators.join.match_counts import UNKNOWN, UNMATCHED, Matches
from headwater.engine.operators.join.sides import KeyedUpdates, Sides
from headwater.engine.rows.arrays import at_once
from headwater.engine.rows.batch import Batch, nothing, table_of, together
from headwater.engine.rows.hashes import combined
from headwater.engine.rows.work import Work
from headwater.engine.state.bag import BagRun
from headwater.engine.state.persistence import State
from headwater.engine.state.table.scan_index import ScanIndexes
from headwater.model.schema import Table
from headwater.sql.ir.relation import Join, columns_of

_ABSENT = np.uint64(0x6E6F626F64796865)  # stands for the partner of a padded row


class JoinOperator:
    def __init__(
        self, join: Join, left: Table, right: Table, work: Work, failures: Failures, scans: ScanIndexes | None = None
    ) -> None:
        self.table = table_of(columns_of(join))
        self._sides = Sides.of(join, left, right, work, scans, null_aware=False)
        self._failures, self._work = failures, work
        self._schema = self.table.arrow
        self.counts, self.rows = False, 0  # whether its rows are counted, and how many there are
        self._left = Matches(self._sides, work, None) if join.kind in ("left", "full") else None
        self._right = Matches(self._sides.flipped(), work, None) if join.kind in ("right", "full") else None

    def step(self, inputs: list[Batch]) -> Batch:
        left, right = self._sides.left.keyed(inputs[0]), self._sides.right.keyed(inputs[1])
        halves = hot_keys.halves(left, right)
        if halves is not None:
            return together([self.step(each) for each in halves], self.table)
        parts = self._inner(left, right) if self._sides.filled else [self._first(left, right)]
        if self._left is not None:
            parts.append(self._padded(self._left.step(left, right).only(UNMATCHED, UNKNOWN), left_is_there=True))
        if self._right is not None:
            parts.append(self._padded(self._right.step(right, left).only(UNMATCHED, UNKNOWN), left_is_there=False))
        self._sides.absorb(left, right)
        joined = together(parts, self.table).consolidated()
        if self.counts:
            self.rows += int(joined.diff.sum())
        return joined

    def _first(self, left: KeyedUpdates, right: KeyedUpdates) -> Batch:
        """Of rows that come all at once, each once, no pair comes twice."""
        once = left.batch.settled and right.batch.settled and at_once(left.batch.tx, right.batch.tx)
        matched = self._matched(self._sides.pairs(left.batch, self._sides.right.in_step(left, right)))
        return replace(matched, settled=once)

    def _inner(self, left: KeyedUpdates, right: KeyedUpdates) -> list[Batch]:
        sides, parts = self._sides, []
        if len(left.batch):
            parts.append(self._matched(sides.pairs(left.batch, sides.right.at_rest(left))))
        if len(right.batch):
            parts.append(self._matched(sides.pairs(right.batch, sides.left.at_rest(right), of_right=True)))
        if len(left.batch) and len(right.batch):
            parts.append(self._matched(sides.pairs(left.batch, sides.right.in_step(left, right))))
        return parts

    def _matched(self, pairs: Pairs) -> Batch:
        if not len(pairs):
            return nothing(self.table)
        for run, places in pairs.found.parts:
            made = (pairs.asked.rows, run.rows) if isinstance(run, BagRun) else (pairs.asked.rows,)
            self._work.budget.charge_rows(len(places), *made)
        tested, tx, diff = self._sides.condition.test(pairs), pairs.tx, pairs.diff
        if tested.failed:
            whole = pa.RecordBatch.from_arrays(pairs.columns(), schema=self._schema)
            self._failures.note(tested.failed, whole, tx, diff)
        kept = tested.true
        asked, found = pairs.asked.id[pairs.found.query], pairs.found.id
        id = combined(found, asked) if pairs.swapped else combined(asked, found)
        if kept.all():
            return Batch(pa.RecordBatch.from_arrays(pairs.columns(), schema=self._schema), id, tx, diff)
        rows = pa.RecordBatch.from_arrays(pairs.columns(kept=kept), schema=self._schema)
        return Batch(rows, id[kept], tx[kept], diff[kept])

    def _padded(self, batch: Batch, *, left_is_there: bool) -> Batch:
        other = self._sides.right.table if left_is_there else self._sides.left.table
        nulls = [pa.nulls(len(batch), column.type.arrow) for column in other.columns]
        columns = [*batch.rows.columns, *nulls] if left_is_there else [*nulls, *batch.rows.columns]
        absent = np.full(len(batch), _ABSENT)
        id = combined(batch.id, absent) if left_is_there else combined(absent, batch.id)
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self._schema), id, batch.tx, batch.diff)

    def state(self) -> list[State]:
        marks = [matches.tally for matches in (self._left, self._right) if matches is not None]
        return [*self._sides.bags(), *marks]

    def resume(self) -> None:
        """All state is in bags and tallies."""
