"""Bound expressions walked and rewritten. Never evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case ColumnRef() | Const():
            return ()
        case Call():
            return expr.args
        case Cast():
            return (expr.arg,)
        case Case():
            return (*(part for when in expr.whens for part in when), expr.default)
        case _:
            assert_never(expr)


def references(expr: Expr) -> Iterator[ColumnRef]:
    """Every column an expression reads, as often as it does."""
    if isinstance(expr, ColumnRef):
        yield expr
    for child in children(expr):
        yield from references(child)


def names_in(*exprs: Expr | None) -> frozenset[str]:
    return frozenset(ref.name for expr in exprs if expr is not None for ref in references(expr))


def mapped(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same expression over changed children."""
    match expr:
        case ColumnRef() | Const():
            return expr
        case Call():
            return Call(expr.name, tuple(change(arg) for arg in expr.args), expr.type, expr.collation)
        case Cast():
            return Cast(change(expr.arg), expr.sql_type, expr.type)
        case Case():
            whens = tuple((change(condition), change(result)) for condition, result in expr.whens)
            return Case(whens, change(expr.default), expr.type)
        case _:
            assert_never(expr)


def renamed_columns(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The same expression over columns of other names."""
    if isinstance(expr, ColumnRef):
        return replace(expr, name=names[expr.name])
    return mapped(expr, lambda child: renamed_columns(child, names))


def substituted(expr: Expr, replacements: Mapping[Expr, Expr]) -> Expr:
    """Every part that equals a key becomes its value, the largest first. Constants stay what they are."""
    if not isinstance(expr, Const) and expr in replacements:
        return replacements[expr]
    return mapped(expr, lambda child: substituted(child, replacements))
