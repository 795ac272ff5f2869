"""filter: which rows a WHERE clause lets through. Linear: it keeps no state, and `tx` and `diff` pass it by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.expression import Expressions, is_truth
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.expr import Call, Expr


@dataclass(frozen=True, slots=True)
class Filtered:
    """`passed` is None where every row did. A failed row did not pass."""

    passed: npt.NDArray[np.bool_] | None
    failed: dict[int, str]


class Filter:
    def __init__(self, where: Expr | None, table: Table) -> None:
        self._test = Expressions([_as_truth(where)], table) if where is not None else None

    def apply(self, batch: pa.RecordBatch) -> Filtered:
        if self._test is None:
            return Filtered(None, {})
        evaluated = self._test.evaluate(batch)
        passed = np.asarray(evaluated.columns[0].fill_null(0)) != 0
        return Filtered(None if passed.all() else passed, evaluated.failed)


def _as_truth(where: Expr) -> Expr:
    """`NOT NOT x` is SQLite's own word on the truth of a text or a blob."""
    return where if is_truth(where) else Call("not", (Call("not", (where,), Type.INTEGER),), Type.INTEGER)
