"""PostgreSQL's types of columns: of tables, of expressions and of set operations."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.dialects.postgres.types.kind import UNKNOWN
from headwater.dialects.postgres.types.kinds import common_kind, is_plain, kind_of, kind_of_column
from headwater.model.schema import Column
from headwater.model.value import Type
from headwater.sql.bind.scope import Bound
from headwater.sql.ir.expr import Expr
from headwater.sql.ir.sql_type import SqlType


@dataclass(frozen=True, slots=True)
class PostgresTypes:
    """A `DialectTypes`."""

    def scanned(self, column: Column) -> tuple[SqlType, str]:
        return kind_of_column(column), "BINARY"

    def sql_type(self, expr: Expr) -> SqlType:
        return kind_of(expr)

    def united(self, left: Expr, right: Expr) -> tuple[Type | None, SqlType, bool] | None:
        kind = common_kind([left, right])
        if kind is None or left.type is not right.type or UNKNOWN in (kind_of(left), kind_of(right)):
            return None
        return left.type, kind, True

    def looks_alike(self, bound: Bound) -> bool:
        return is_plain(kind_of(bound.expr))


POSTGRES_TYPES = PostgresTypes()
