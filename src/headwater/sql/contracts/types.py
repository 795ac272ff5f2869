"""What a dialect says of the types of columns: of tables, of expressions and of set operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headwater.model.schema import Column
    from headwater.model.value import Type
    from headwater.sql.bind.scope import Bound
    from headwater.sql.ir.expr import Expr
    from headwater.sql.ir.sql_type import SqlType


class DialectTypes(Protocol):
    def scanned(self, column: Column) -> tuple[SqlType, str]:
        """SQL type and collation of a table's column."""

    def sql_type(self, expr: Expr) -> SqlType:
        """Of the column that an expression becomes."""

    def united(self, left: Expr, right: Expr) -> tuple[Type | None, SqlType, bool] | None:
        """Type and SQL type of a set operation's column, and whether it is clear how it is compared. None: they have
        no one type."""

    def looks_alike(self, bound: Bound) -> bool:
        """Whether equal values of it look the same: only such can be grouped by."""
