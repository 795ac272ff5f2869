"""What one dialect of SQL means where others mean something else: how it reads, binds, compares, orders and writes.

The binder asks its dialect and never its name. Whatever a dialect is not sure of it refuses: then the origin is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlglot import exp

    from headwater.model.schema import Column, Table
    from headwater.model.value import Row, Type
    from headwater.sql.bind.order_by import Term
    from headwater.sql.bind.scope import Bound, Scope
    from headwater.sql.contracts.requery import DialectRequery
    from headwater.sql.contracts.syntax import DialectSyntax
    from headwater.sql.evaluation import Evaluator
    from headwater.sql.ir.expr import Expr, OrderKey
    from headwater.sql.ir.relation import RelColumn
    from headwater.sql.ir.sql_type import SqlType
    from headwater.sql.syntax.span import Span


class Dialect(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def syntax(self) -> DialectSyntax: ...

    @property
    def requery(self) -> DialectRequery: ...

    @property
    def takes_first(self) -> bool:
        """Whether a subquery as a value is the first of its rows, not an error where it has several."""

    @property
    def evaluator(self) -> Evaluator: ...

    @property
    def aggregates(self) -> frozenset[str]:
        """Those that groups may keep."""

    # Names

    def find(self, tables: Mapping[str, Table], node: exp.Table, sql: str) -> Table | None:
        """The table that is meant, and the node such that it is written as meant."""

    def result_name(self, node: exp.Expr, expr: Expr) -> str:
        """Of a result column without an alias."""

    def sees_alias(self, node: exp.Column) -> bool:
        """Whether a name may be an alias of the result, where it stands."""

    def sorts_by_result(self, item: exp.Expr) -> str | None:
        """The name by which ORDER BY finds a result, before any column of that name."""

    def rowid(self, table: Table) -> Column | None:
        """The column that is the row's own number by another name; None where there is none."""

    def is_rowid(self, name: str) -> bool:
        """Whether a name, in lower case, means the row's own number where no column has it."""

    def whole_number(self, text: str) -> int | None:
        """The value of a numeric literal; None where it is no integer."""

    # Expressions

    def is_aggregate(self, name: str, args: int) -> bool:
        """Whether a call, by its name in lower case and its number of arguments, is one of an aggregate."""

    def bind(self, scope: Scope, node: exp.Expr) -> Bound: ...
    def bind_result(self, scope: Scope, node: exp.Expr) -> Bound:
        """The same of a result column: nothing that it meets will say any more what it is."""

    def collated(self, scope: Scope, inner: Callable[[], Bound], node: exp.Collate) -> Bound | None:
        """A result of the query under COLLATE in ORDER BY; None where only columns stand there."""

    def compare(self, scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound: ...
    def marked(self, column: RelColumn) -> Bound:
        """The truth that a mark join found."""

    # Types

    def scanned(self, column: Column) -> tuple[SqlType, str]:
        """SQL type and collation of a table's column."""

    def sql_type(self, expr: Expr) -> SqlType:
        """Of the column that an expression becomes."""

    def united(self, left: Expr, right: Expr) -> tuple[Type | None, SqlType, bool] | None:
        """Type and SQL type of a set operation's column, and whether it is clear how it is compared. None: they have
        no one type."""

    def looks_alike(self, bound: Bound) -> bool:
        """Whether equal values of it look the same: only such can be grouped by."""

    def aggregated(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> Sequence[Bound]:
        """The arguments of an aggregate as it takes them; the node says the same."""

    def arranged(
        self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound], rows: tuple[OrderKey, ...]
    ) -> tuple[OrderKey, ...]:
        """The total order in which an aggregate takes its values, where it shows; the node says the same. `rows` is the
        order of FROM, if that has one."""

    def orders(self, bound: Bound) -> bool:
        """Whether its values are ordered as here where nothing but its name is written."""

    def aggregate(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> tuple[Type, SqlType]:
        """Type and SQL type of an aggregate's result; refuses what it cannot keep."""

    def listed(self, scope: Scope, rows: Sequence[Sequence[exp.Expr]]) -> tuple[list[tuple[Type, SqlType]], list[Row]]:
        """VALUES: type and SQL type of each column, and the rows."""

    # Order and frame

    def order_key(self, scope: Scope, ordered: exp.Ordered, bound: Bound) -> OrderKey: ...
    def tie(self, scope: Scope, name: str, node: exp.Expr, bound: Bound, at: Span | None) -> Term:
        """What tells two rows apart by a column, in an order that is the same here and there."""

    def finer(self, node: exp.Expr, bound: Bound) -> list[Term]:
        """Without a key two rows may be equal by their collations, or as 1 and 1.0 are, and yet differ."""

    def count(self, scope: Scope, node: exp.Expr, word: str) -> int | None:
        """The number of LIMIT or OFFSET; None where all rows are meant."""
