"""SQLite's evaluator: by SQLite itself, or by Arrow kernels where these are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headwater.dialects.sqlite.affinity import NUMERIC_AFFINITIES, Affinity, affinity
from headwater.dialects.sqlite.kernels.aggregates import FINISHES, Sum
from headwater.dialects.sqlite.kernels.arrow import compile_kernel
from headwater.dialects.sqlite.kernels.exact import SqliteKernel
from headwater.model.schema import Table
from headwater.model.value import Type, Value
from headwater.sql.evaluation import Accumulator, Kernel, RowEvaluator
from headwater.sql.ir.expr import Cast, ColumnRef, Expr
from headwater.sql.ir.relation import Aggregate, RelColumn

_NUMBERS = (Type.INTEGER, Type.REAL)


class SqliteEvaluator:
    def rows(self, exprs: Sequence[Expr], table: Table) -> RowEvaluator:
        return SqliteKernel(exprs, table)

    def kernel(self, expr: Expr, table: Table) -> Kernel | None:
        return compile_kernel(expr, table)

    def plain_kernel(self, condition: Expr, table: Table) -> Kernel | None:
        return compile_kernel(condition, table)

    def compares_unchanged(self, one: ColumnRef, other: ColumnRef) -> bool:
        """No affinity is applied that could change a value."""
        if _numeric(one) != _numeric(other):
            plain = other if _numeric(one) else one
            return plain.type in (*_NUMBERS, Type.BLOB)
        if _is_text(one) != _is_text(other):
            plain = other if _is_text(one) else one
            return plain.type in (Type.TEXT, Type.BLOB)
        return True

    def looks_alike(self, column: RelColumn) -> bool:
        """In a column of ANY type 1 and 1.0 are equal."""
        return column.collation == "BINARY" if column.type is Type.TEXT else column.type is not Type.ANY

    def arguments(self, aggregate: Aggregate) -> Sequence[Expr]:
        """group_concat joins texts, and makes texts of other values."""
        if aggregate.function != "group_concat":
            return aggregate.args
        return [Cast(arg, Affinity.TEXT, Type.TEXT) for arg in aggregate.args]

    def sum(self, aggregate: Aggregate) -> Callable[[], Accumulator]:
        return partial(Sum, FINISHES[aggregate.function])

    def average(self, total: int, count: int) -> Value:
        return total / count


def _numeric(ref: ColumnRef) -> bool:
    return affinity(ref) in NUMERIC_AFFINITIES


def _is_text(ref: ColumnRef) -> bool:
    return affinity(ref) is Affinity.TEXT
