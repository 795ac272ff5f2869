"""Expressions over a batch: Arrow columns out, and the rows that failed.

Plain columns pass through. A few rows go to the dialect's own evaluation row by row, which is faster for them; many
rows go to Arrow kernels where these are exact, and row by row where they are not or a batch puts them in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow as pa

from headwater.dialects.registry import DIALECTS
from headwater.engine.expressions.kernels import kernels_of
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.time.interval import Interval
from headwater.model.value import Row, Type, to_array
from headwater.model.verbatim import Verbatim
from headwater.sql.evaluation import RowEvaluator, Selected
from headwater.sql.ir.expr import ColumnRef, Expr

_PYTHON = {
    Type.INTEGER: (int,),
    Type.REAL: (float,),
    Type.TEXT: (str,),
    Type.BLOB: (bytes,),
    Type.BOOLEAN: (bool,),
    Type.NUMERIC: (Decimal,),
    Type.DATE: (date, Verbatim),
    Type.TIME: (time, Verbatim),
    Type.TIMESTAMP: (datetime, Verbatim),
    Type.TIMESTAMPTZ: (datetime, Verbatim),
    Type.INTERVAL: (Interval,),
    Type.UUID: (UUID,),
    Type.JSON: (Verbatim,),
    Type.OTHER: (tuple, Verbatim),
}


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A column per expression. A place in `failed` holds NULL in every computed column, and why."""

    columns: list[pa.Array]
    failed: dict[int, str]


class Expressions:
    """Several expressions over the rows of one table, evaluated together."""

    def __init__(self, exprs: Sequence[Expr], table: Table) -> None:
        self.types = [static_type(expr) for expr in exprs]
        self._passed = {n: table.index(expr.name) for n, expr in enumerate(exprs) if isinstance(expr, ColumnRef)}
        self._computed = [n for n in range(len(exprs)) if n not in self._passed]
        computed = [exprs[n] for n in self._computed]
        evaluator = DIALECTS[table.dialect].evaluator
        self._exact = evaluator.rows(computed, table) if computed else None
        self._kernels = kernels_of(computed, table)

    def evaluate(self, batch: pa.RecordBatch) -> Evaluated:
        columns: list[pa.Array] = [None] * len(self.types)
        for n, place in self._passed.items():
            columns[n] = batch.column(place)
        failed: dict[int, str] = {}
        if self._exact is not None:
            computed, failed = self._compute(self._exact, batch)
            for n, column in zip(self._computed, computed, strict=True):
                columns[n] = column
        return Evaluated(columns, failed)

    def select(self, batch: pa.RecordBatch) -> Selected:
        """Rows of values, where all expressions are computed ones."""
        assert self._exact is not None
        return self._exact.select(batch)

    def _compute(self, exact: RowEvaluator, batch: pa.RecordBatch) -> tuple[list[pa.Array], dict[int, str]]:
        kernels = [kernel for kernel in self._kernels if kernel is not None]
        if len(kernels) == len(self._kernels) and batch.num_rows > SMALL.expression_rows:
            try:
                return [kernel.evaluate(batch) for kernel in kernels], {}
            except pa.ArrowInvalid:
                pass  # in doubt: the exact one decides
        selected = exact.select(batch)
        return conformed(selected.rows, [self.types[n] for n in self._computed], selected.failed)


def conformed(rows: list[Row], types: list[Type], failed: dict[int, str]) -> tuple[list[pa.Array], dict[int, str]]:
    """Rows of values as columns of their static types; a value of another type is a failure of its row."""
    rows = [(None,) * len(types) if place in failed else row for place, row in enumerate(rows)] if failed else rows
    strangers = {} if all(_conforms(row, types) for row in rows) else _strangers(rows, types)
    if strangers:
        rows = [(None,) * len(types) if place in strangers else row for place, row in enumerate(rows)]
    columns = [to_array([row[n] for row in rows], type) for n, type in enumerate(types)]
    return columns, {**failed, **strangers}


def _conforms(row: Row, types: list[Type]) -> bool:
    return all(
        value is None or type is Type.ANY or value.__class__ in _PYTHON[type]
        for value, type in zip(row, types, strict=True)
    )


def _strangers(rows: list[Row], types: list[Type]) -> dict[int, str]:
    return {place: _complaint(row, types) for place, row in enumerate(rows) if not _conforms(row, types)}


def _complaint(row: Row, types: list[Type]) -> str:
    value, type = next((v, t) for v, t in zip(row, types, strict=True) if not _conforms((v,), [t]))
    if type is Type.INTEGER and isinstance(value, float):
        return f"integer overflow: the result is {value!r}"
    return f"expected a value of type {type.value}, found {value!r}"


def static_type(expr: Expr) -> Type:
    return expr.type or Type.ANY
