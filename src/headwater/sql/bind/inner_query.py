"""Subqueries inside an expression: handed to the clause they stand in, in any dialect. It binds nothing itself."""

from __future__ import annotations

from sqlglot import exp

from headwater.sql.bind.scope import Bound, Clause, Scope
from headwater.sql.syntax.span import span


def scalar(scope: Scope, node: exp.Subquery) -> Bound:
    return clause(scope, node).scalar(scope, node)


def existence(scope: Scope, node: exp.Exists) -> Bound:
    return clause(scope, node).exists(scope, node)


def clause(scope: Scope, node: exp.Expr) -> Clause:
    if scope.clause is None:
        raise scope.refusal("a subquery is not supported here", span(node), "pass the value as a parameter")
    return scope.clause
