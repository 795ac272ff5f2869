"""What a dialect says of expressions: what they mean, and which type they have. Evaluates no row.

Whatever a dialect is not sure of it refuses: then the source is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from headwater.model.value import Row, Type
    from headwater.sql.bind.scope import Bound, Scope
    from headwater.sql.ir.relation import RelColumn
    from headwater.sql.ir.sql_type import SqlType
    from headwater.sql.syntax.span import Span


class DialectBinder(Protocol):
    @property
    def takes_first(self) -> bool:
        """Whether a subquery as a value is the first of its rows, not an error where it has several."""

    def bind(self, scope: Scope, node: exp.Expr) -> Bound: ...
    def bind_result(self, scope: Scope, node: exp.Expr) -> Bound:
        """The same of a result column: nothing that it meets will say any more what it is."""

    def collated(self, scope: Scope, inner: Callable[[], Bound], node: exp.Collate) -> Bound | None:
        """A result of the query under COLLATE in ORDER BY; None where only columns stand there."""

    def compare(self, scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound: ...
    def marked(self, column: RelColumn) -> Bound:
        """The truth that a mark join found."""

    def values(self, scope: Scope, rows: Sequence[Sequence[exp.Expr]]) -> tuple[list[tuple[Type, SqlType]], list[Row]]:
        """VALUES: type and SQL type of each column, and the rows."""

    def count(self, scope: Scope, node: exp.Expr, word: str) -> int | None:
        """The number of LIMIT or OFFSET; None where all rows are meant."""
