"""PostgreSQL's evaluator: by rules of its own, row by row, or by Arrow kernels where these are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial

from headwater.dialects.postgres.kernels.aggregates import IntegerSum, NumericSum, RealSum, Truths
from headwater.dialects.postgres.kernels.arrow import compile_condition, compile_plain
from headwater.dialects.postgres.kernels.exact import PostgresKernel
from headwater.dialects.postgres.kernels.numeric import divided
from headwater.dialects.postgres.types.kind import kind_of_type
from headwater.dialects.postgres.types.numeric import has_scale
from headwater.model.schema import Table
from headwater.model.value import Type, Value
from headwater.sql.evaluation import Accumulator, Kernel, RowEvaluator
from headwater.sql.ir.expr import ColumnRef, Expr
from headwater.sql.ir.relation import Aggregate, RelColumn


class PostgresEvaluator:
    def rows(self, exprs: Sequence[Expr], table: Table) -> RowEvaluator:
        return PostgresKernel(exprs, table)

    def kernel(self, expr: Expr, table: Table) -> Kernel | None:
        return compile_condition(expr, table)

    def plain_kernel(self, condition: Expr, table: Table) -> Kernel | None:
        return compile_plain(condition, table)

    def compares_unchanged(self, one: ColumnRef, other: ColumnRef) -> bool:
        """Casts are written down: what is compared as a column is compared as it is."""
        return True

    def looks_alike(self, column: RelColumn) -> bool:
        """A double has two zeros, a number without a scale of its own any digits behind the point, and an interval of a
        day is equal to one of 24 hours."""
        match column.type:
            case Type.TEXT:
                return column.collation == "BINARY"
            case Type.NUMERIC:
                return has_scale(kind_of_type(column.sql_type))
            case _:
                return column.type not in (Type.REAL, Type.INTERVAL)

    def arguments(self, aggregate: Aggregate) -> Sequence[Expr]:
        return aggregate.args

    def sum(self, aggregate: Aggregate) -> Callable[[], Accumulator]:
        match aggregate.function:
            case "bool_and" | "bool_or" | "every" as name:
                return partial(Truths, name != "bool_or")
            case name if aggregate.column.type is Type.NUMERIC:
                return partial(NumericSum, name == "avg")
            case name if aggregate.column.type is Type.REAL:
                return partial(RealSum, name == "avg")
            case _:
                return IntegerSum

    def average(self, total: int, count: int) -> Value:
        return divided(Decimal(total), Decimal(count))
