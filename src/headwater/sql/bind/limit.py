"""LIMIT, OFFSET and numbered results of one SELECT: counts that are known. Never sorts."""

from __future__ import annotations

from sqlglot import exp

from headwater.sql.bind.scope import Scope
from headwater.sql.dialect import Dialect
from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr
from headwater.sql.syntax.nodes import Plus


def is_constant(expr: Expr) -> bool:
    """No column inside: the same for every row."""
    match expr:
        case ColumnRef():
            return False
        case Const():
            return True
        case Cast():
            return is_constant(expr.arg)
        case Call():
            return all(is_constant(arg) for arg in expr.args)
        case Case():
            return is_constant(expr.default) and all(is_constant(part) for pair in expr.whens for part in pair)


def ordinal(dialect: Dialect, node: exp.Expr) -> int | None:
    """Only a written integer counts, perhaps signed; a parameter is a constant like any other."""
    if isinstance(node, exp.Neg | Plus):
        inner = ordinal(dialect, node.this)
        return inner if inner is None or isinstance(node, Plus) else -inner
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    value = dialect.syntax.whole_number(node.name)
    return value if value is not None and value < 1 << 31 else None


def limit(scope: Scope, node: exp.Limit | None) -> int | None:
    return None if node is None else scope.dialect.binder.count(scope, node.expression, "LIMIT")


def offset(scope: Scope, node: exp.Offset | None) -> int:
    return 0 if node is None else scope.dialect.binder.count(scope, node.expression, "OFFSET") or 0
