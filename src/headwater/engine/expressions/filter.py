"""RowFilter: which rows a WHERE clause lets through. It keeps no state, and does not touch `tx` and `diff`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.rows.arrays import Bools
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Type
from headwater.sql.ir.expr import Case, Const, Expr


@dataclass(frozen=True, slots=True)
class Filtered:
    """`passed` is None where every row did. A failed row did not pass."""

    passed: Bools | None
    failed: dict[int, str]


class RowFilter:
    def __init__(self, where: Expr | None, table: Table) -> None:
        self._test = Expressions([_as_truth(where)], table) if where is not None else None

    def apply(self, batch: pa.RecordBatch) -> Filtered:
        if self._test is None:
            return Filtered(None, {})
        if batch.num_rows <= SMALL.expression_rows:
            return self._apply_few(self._test, batch)
        evaluated = self._test.evaluate(batch)
        passed = np.asarray(evaluated.columns[0].fill_null(0)) != 0  # NULL where it failed
        return Filtered(None if passed.all() else passed, evaluated.failed)

    @staticmethod
    def _apply_few(test: Expressions, batch: pa.RecordBatch) -> Filtered:
        """Without a column for what is only asked for its truth."""
        selected = test.select(batch)
        passed = [bool(row and row[0]) for row in selected.rows]  # a failed row is empty
        return Filtered(None if all(passed) else np.array(passed, np.bool_), selected.failed)


def _as_truth(where: Expr) -> Expr:
    """CASE asks for truth as WHERE does: of texts and blobs too, and with an AND that stops at what is false."""
    return Case(((where, Const(1, Type.INTEGER)),), Const(0, Type.INTEGER), Type.INTEGER)
