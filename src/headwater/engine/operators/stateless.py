"""Operators without state: scan, values, filter, project and UNION ALL. They do not touch `tx` and `diff`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.expressions.filter import RowFilter
from headwater.engine.operators.failures import Failures
from headwater.engine.rows.arrays import Int64s
from headwater.engine.rows.batch import Batch, identified, nothing, table_of, together
from headwater.engine.rows.conform import repacked
from headwater.engine.state.persistence import State
from headwater.model.schema import Table
from headwater.model.value import Type, to_array
from headwater.sql.ir.expr import ColumnRef
from headwater.sql.ir.relation import Filter, Project, Scan, Values


class Stateless:
    def state(self) -> list[State]:
        return []

    def resume(self) -> None:
        """Nothing to make again."""


class ScanOperator(Stateless):
    """Its input holds the base table's columns."""

    def __init__(self, scan: Scan, table: Table) -> None:
        self.table = table_of(scan.columns)
        self._places = [table.index(name) for name in scan.names]
        self._have = [table.column(name).type for name in scan.names]
        self._schema = self.table.arrow
        self._keyed = bool(scan.key)

    def read(self, rows: pa.RecordBatch, tx: Int64s, diff: Int64s) -> Batch:
        columns = [rows.column(place) for place in self._places]
        fitted = fit(columns, self._have, self.table, self._schema)
        settled = self._keyed and bool((diff > 0).all())  # a row with a key comes once in a transaction
        return identified(fitted, self.table, tx, diff, settled=settled)


class ValuesOperator(Stateless):
    """All its rows come with the first step."""

    def __init__(self, values: Values) -> None:
        self.table = table_of(values.columns)
        columns = list(zip(*values.rows, strict=True)) or [()] * len(values.columns)
        arrays = [to_array(each, column.type) for each, column in zip(columns, values.columns, strict=True)]
        self._rows = pa.RecordBatch.from_arrays(arrays, schema=self.table.arrow)

    def first(self, tx: int) -> Batch:
        count = self._rows.num_rows
        return identified(self._rows, self.table, np.full(count, tx), np.ones(count, np.int64)).consolidated()


class FilterOperator(Stateless):
    def __init__(self, filter: Filter, table: Table, failures: Failures) -> None:
        self.table = table
        self._test = RowFilter(filter.predicate, table)
        self._failures = failures

    def step(self, inputs: list[Batch]) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return batch
        filtered = self._test.apply(batch.rows)
        self._failures.note(filtered.failed, batch.rows, batch.tx, batch.diff)
        return batch if filtered.passed is None else batch.filter(filtered.passed)


class ProjectOperator(Stateless):
    """A row that fails is left out: while it is there, the relation has no right answer."""

    def __init__(self, project: Project, table: Table, failures: Failures) -> None:
        self.table = table_of(project.columns)
        self._expressions = Expressions([output.expr for output in project.outputs], table)
        self._schema = self.table.arrow
        self._failures = failures
        kept = {output.expr.name for output in project.outputs if isinstance(output.expr, ColumnRef)}
        self._same_rows = kept == set(table.names)

    def step(self, inputs: list[Batch]) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return nothing(self.table)
        evaluated = self._expressions.evaluate(batch.rows)
        rows = fit(evaluated.columns, self._expressions.types, self.table, self._schema)
        if self._same_rows:
            projected = Batch(rows, batch.id, batch.tx, batch.diff, batch.settled)
        else:
            projected = identified(rows, self.table, batch.tx, batch.diff)
        if evaluated.failed:
            self._failures.note(evaluated.failed, batch.rows, batch.tx, batch.diff)
            kept = np.ones(len(batch), np.bool_)
            kept[list(evaluated.failed)] = False
            projected = projected.filter(kept)
        return projected if self._same_rows else projected.consolidated()


class UnionAllOperator(Stateless):
    """Columns by place, under new names."""

    def __init__(self, table: Table, inputs: Sequence[Table]) -> None:
        self.table = table
        self._schema = table.arrow
        self._have = [[column.type for column in each.columns] for each in inputs]

    def step(self, inputs: list[Batch]) -> Batch:
        return together(self.renamed(inputs), self.table).consolidated()

    def renamed(self, inputs: list[Batch]) -> list[Batch]:
        pairs = zip(inputs, self._have, strict=True)
        return [
            identified(fit(batch.rows.columns, have, self.table, self._schema), self.table, batch.tx, batch.diff)
            for batch, have in pairs
        ]


def fit(columns: Sequence[pa.Array], have: Sequence[Type], table: Table, schema: pa.Schema) -> pa.RecordBatch:
    """Columns under the names and types of a table."""
    pairs = zip(columns, have, table.columns, strict=True)
    arrays = [array if type is want.type else repacked(array, type, want.type) for array, type, want in pairs]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
