"""VALUES: constants in rows, each column of one type as PostgreSQL finds it. Nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from headwater.dialects.postgres.bind.coercion import alike
from headwater.dialects.postgres.types.kind import DEFAULT, TEXT, PostgresKind
from headwater.dialects.postgres.types.kinds import common_kind, type_of_kind
from headwater.dialects.postgres.types.numeric import is_literal
from headwater.model.errors import SqlError
from headwater.model.value import Row, Type, Value
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.scope import Scope
from headwater.sql.ir.expr import Cast, Const, Expr
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.syntax.span import span


def listed(scope: Scope, rows: Sequence[Sequence[exp.Expr]]) -> tuple[list[tuple[Type, SqlType]], list[Row]]:
    """Type and kind of each column, and the rows."""
    columns = [_column(scope, nodes) for nodes in zip(*rows, strict=True)]
    return [(type, kind) for type, kind, _ in columns], list(zip(*(values for _, _, values in columns), strict=True))


def _column(scope: Scope, nodes: Sequence[exp.Expr]) -> tuple[Type, PostgresKind, list[Value]]:
    at = span(nodes[0])
    exprs = alike(scope, [bind_expr(scope, node).expr for node in nodes], at)
    kind = common_kind(exprs) or TEXT
    values = [_value(scope, expr, node) for expr, node in zip(exprs, nodes, strict=True)]
    return type_of_kind(kind), DEFAULT if kind == TEXT else kind, values


def _value(scope: Scope, expr: Expr, node: exp.Expr) -> Value:
    if isinstance(expr, Const):
        return expr.value
    if is_literal(expr):
        assert isinstance(expr, Cast)
        assert isinstance(expr.arg, Const)
        return Decimal(str(expr.arg.value))
    raise _computed(scope, node)


def _computed(scope: Scope, node: exp.Expr) -> SqlError:
    return scope.refusal("VALUES of what must be computed is not supported yet", span(node), "write its value")
