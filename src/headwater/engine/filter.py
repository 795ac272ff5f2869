"""filter: which rows a WHERE clause lets through. Linear: it keeps no state, and `tx` and `diff` pass it by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.expression import Expressions
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.expr import Case, Const, Expr


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
        passed = np.asarray(evaluated.columns[0].fill_null(0)) != 0  # NULL where it failed
        return Filtered(None if passed.all() else passed, evaluated.failed)


def _as_truth(where: Expr) -> Expr:
    """CASE asks for truth as WHERE does: of texts and blobs too, and with an AND that stops at what is false."""
    return Case(((where, Const(1, Type.INTEGER)),), Const(0, Type.INTEGER), Type.INTEGER)
