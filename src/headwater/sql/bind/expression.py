"""Expressions, bound by the rules of their dialect. Aggregates and subqueries go to the clause that they stand in."""

from __future__ import annotations

from sqlglot import exp

from headwater.sql.bind.scope import Bound, Clause, Scope
from headwater.sql.dialect import Dialect
from headwater.sql.syntax.span import Span, span


def bind_expr(scope: Scope, node: exp.Expr) -> Bound:
    """The one entry: the dialect has a rule for each kind of node."""
    return scope.dialect.binder.bind(scope, node)


def compare(scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound:
    return scope.dialect.binder.compare(scope, name, left, right, at)


def is_aggregate(dialect: Dialect, node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and dialect.aggregates.is_aggregate(node.name.lower(), len(node.expressions))


def scalar(scope: Scope, node: exp.Subquery) -> Bound:
    return clause(scope, node).scalar(scope, node)


def existence(scope: Scope, node: exp.Exists) -> Bound:
    return clause(scope, node).exists(scope, node)


def clause(scope: Scope, node: exp.Expr) -> Clause:
    if scope.clause is None:
        raise scope.refusal("a subquery is not supported here", span(node), "pass the value as a parameter")
    return scope.clause
