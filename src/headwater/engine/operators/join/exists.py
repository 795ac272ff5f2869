"""exists: semi joins, anti joins (with NOT IN's NULL rule) and marks, all read from the match counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.engine.operators.failures import Failures
from headwater.engine.operators.join import hot_keys
from headwater.engine.operators.join.match_counts import MATCHED, UNKNOWN, UNMATCHED, Matches
from headwater.engine.operators.join.sides import Sides
from headwater.engine.rows.batch import Batch, table_of, together
from headwater.engine.rows.hashes import combined
from headwater.engine.rows.work import Work
from headwater.engine.state.persistence import State
from headwater.engine.state.table.scan_index import ScanIndexes
from headwater.model.schema import Table
from headwater.model.value import Type, to_array
from headwater.sql.ir.relation import Exists, Mark, columns_of


class ExistsOperator:
    def __init__(
        self,
        exists: Exists,
        left: Table,
        right: Table,
        work: Work,
        failures: Failures,
        scans: ScanIndexes | None = None,
    ) -> None:
        self.table = left
        aware = exists.anti and exists.null_aware
        self._sides = Sides.of(exists, left, right, work, scans, null_aware=aware)
        self._matches = Matches(self._sides, work, failures)
        anti = (UNMATCHED,) if exists.null_aware else (UNMATCHED, UNKNOWN)
        self._marks = anti if exists.anti else (MATCHED,)

    def step(self, inputs: list[Batch]) -> Batch:
        left, right = self._sides.left.keyed(inputs[0]), self._sides.right.keyed(inputs[1])
        halves = hot_keys.halves(left, right)
        if halves is not None:
            return together([self.step(each) for each in halves], self.table)
        marked = self._matches.step(left, right)
        self._sides.absorb(left, right)
        return marked.only(*self._marks).consolidated()

    def state(self) -> list[State]:
        return [*self._sides.bags(), self._matches.tally]

    def resume(self) -> None:
        """All state is in bags and tallies."""


class MarkOperator:
    def __init__(
        self, mark: Mark, left: Table, right: Table, work: Work, failures: Failures, scans: ScanIndexes | None = None
    ) -> None:
        self.table = table_of(columns_of(mark))
        self._schema = self.table.arrow
        self._type = mark.column.type
        self._null_aware = mark.null_aware
        self._sides = Sides.of(mark, left, right, work, scans, null_aware=mark.null_aware)
        self._matches = Matches(self._sides, work, failures)

    def step(self, inputs: list[Batch]) -> Batch:
        left, right = self._sides.left.keyed(inputs[0]), self._sides.right.keyed(inputs[1])
        halves = hot_keys.halves(left, right)
        if halves is not None:
            return together([self.step(each) for each in halves], self.table)
        marked = self._matches.step(left, right)
        self._sides.absorb(left, right)
        mark = marked.mark if self._null_aware else np.where(marked.mark == UNKNOWN, UNMATCHED, marked.mark)
        column = pa.array(mark.astype(np.int64), mask=mark == UNKNOWN)
        if self._type is not Type.INTEGER:
            column = to_array(column.to_pylist(), self._type)
        rows = pa.RecordBatch.from_arrays([*marked.batch.rows.columns, column], schema=self._schema)
        id = combined(marked.batch.id, mark.astype(np.uint64))
        return Batch(rows, id, marked.batch.tx, marked.batch.diff).consolidated()

    def state(self) -> list[State]:
        return [*self._sides.bags(), self._matches.tally]

    def resume(self) -> None:
        """All state is in bags and tallies."""
