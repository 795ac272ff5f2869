"""PostgreSQL's expressions: what they mean where other databases mean something else. Evaluates no row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.dialects.postgres.bind.coercion import coerced, settled
from headwater.dialects.postgres.bind.comparison import compare
from headwater.dialects.postgres.bind.operators import bind
from headwater.dialects.postgres.bind.values_clause import listed
from headwater.dialects.postgres.types.kind import INT8
from headwater.dialects.postgres.types.kinds import BOOLEAN
from headwater.model.value import Row, Type
from headwater.sql.bind.column_names import reference
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Call, Const
from headwater.sql.ir.relation import RelColumn
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.syntax.span import Span, span


@dataclass(frozen=True, slots=True)
class PostgresBinder:
    """A `DialectBinder`."""

    takes_first: bool = False

    def bind(self, scope: Scope, node: exp.Expr) -> Bound:
        return bind(scope, node)

    def bind_result(self, scope: Scope, node: exp.Expr) -> Bound:
        return Bound(settled(bind(scope, node).expr))

    def compare(self, scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound:
        return compare(scope, name, left, right, at)

    def collated(self, scope: Scope, inner: Callable[[], Bound], node: exp.Collate) -> Bound | None:
        return None

    def marked(self, column: RelColumn) -> Bound:
        return Bound(Call("=", (reference(column), Const(1, Type.INTEGER)), BOOLEAN))

    def values(self, scope: Scope, rows: Sequence[Sequence[exp.Expr]]) -> tuple[list[tuple[Type, SqlType]], list[Row]]:
        return listed(scope, rows)

    def count(self, scope: Scope, node: exp.Expr, word: str) -> int | None:
        nothing = replace(scope, sources=(), shared={}, spelled={}, outer=None)
        value = coerced(scope, bind_expr(nothing, node).expr, INT8, span(node))
        if isinstance(value, Const) and value.value is None:
            return None
        if not isinstance(value, Const) or not isinstance(value.value, int) or value.value < 0:
            raise scope.refusal(f"{word} takes a number that is not negative", span(node))
        return value.value


POSTGRES_BINDER = PostgresBinder()
