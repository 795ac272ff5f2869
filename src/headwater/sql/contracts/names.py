"""What a dialect says of names: which table or result they mean, and how results without one are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from headwater.model.schema import Column, Table
    from headwater.sql.ir.expr import Expr


class DialectNames(Protocol):
    def table(self, tables: Mapping[str, Table], node: exp.Table, sql: str) -> Table | None:
        """The table that is meant, and the node such that it is written as meant."""

    def result(self, node: exp.Expr, expr: Expr) -> str:
        """Of a result column without an alias."""

    def sees_alias(self, node: exp.Column) -> bool:
        """Whether a name may be an alias of the result, where it stands."""

    def sorts_by_result(self, item: exp.Expr) -> str | None:
        """The name by which ORDER BY finds a result, before any column of that name."""

    def rowid(self, table: Table) -> Column | None:
        """The column that is the row's own number by another name; None where there is none."""

    def is_rowid(self, name: str) -> bool:
        """Whether a name, in lower case, means the row's own number where no column has it."""
