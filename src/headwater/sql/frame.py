"""ORDER BY, LIMIT and OFFSET of one SELECT: keys that mean something, counts that are known. Never sorts."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from sqlglot import exp

from headwater.model.value import Value
from headwater.sql import literal, types
from headwater.sql.expr import Call, Case, Cast, ColumnRef, Const, Expr, OrderKey
from headwater.sql.grammar import Plus
from headwater.sql.operators import bind_expr
from headwater.sql.parse import span
from headwater.sql.render import render
from headwater.sql.scope import Bound, Scope


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


def order_key(scope: Scope, ordered: exp.Ordered, bound: Bound) -> OrderKey:
    collation = bound.collating.name or "BINARY"
    if collation not in types.COLLATIONS:
        raise scope.refusal(
            f"the collation {collation} is not supported yet", span(ordered), "add COLLATE BINARY or COLLATE NOCASE"
        )
    return OrderKey(bound.expr, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")), collation)


def ordinal(node: exp.Expr) -> int | None:
    """SQLite counts only a written integer, perhaps signed; a parameter is a constant like any other."""
    if isinstance(node, exp.Neg | Plus):
        inner = ordinal(node.this)
        return inner if inner is None or isinstance(node, Plus) else -inner
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    value = literal.read_number(node.name)
    return value if isinstance(value, int) and value < 1 << 31 else None


def limit(scope: Scope, node: exp.Limit | None) -> int | None:
    """A negative limit is none."""
    count = -1 if node is None else _count(scope, node.expression, "LIMIT")
    return count if count >= 0 else None


def offset(scope: Scope, node: exp.Offset | None) -> int:
    return 0 if node is None else max(_count(scope, node.expression, "OFFSET"), 0)


def _count(scope: Scope, node: exp.Expr, word: str) -> int:
    nothing = replace(scope, sources=(), shared={}, spelled={}, outer=None)
    expr = bind_expr(nothing, node).expr
    try:
        value: Value = literal.with_affinity(literal.evaluate(render(expr)), "NUMERIC")
    except sqlite3.Error as error:
        raise scope.error(f"{word}: {error}", span(node)) from None
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63:
        value = int(value)
    if not isinstance(value, int):
        raise scope.error(f"expected an integer for {word}, found {literal.write(value)}", span(node))
    return value
