"""Conditions without a column: written as a comparison that is computed for each row, or refused."""

from __future__ import annotations

from sqlglot import exp

from headwater.model.errors import UnsupportedQuery
from headwater.sql.ir.conjunction import operands
from headwater.sql.syntax.nodes import Joined

_EQUATIONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CONDITIONS: dict[type[exp.Expr], str] = {Joined: "on", exp.Anonymous: "filter"}


def spell_constant_conditions(tree: exp.Expr, sql: str) -> None:
    """WHERE TRUE becomes WHERE 1 = 1. Any other condition without a column is refused: the binder could not type it."""
    for node in tree.find_all(exp.Where, exp.Having, Joined, exp.Anonymous):
        condition = node.this if isinstance(node, exp.Where | exp.Having) else node.args.get(_CONDITIONS[type(node)])
        for part in list(operands(condition, exp.And)) if condition is not None else ():
            if isinstance(part, exp.Boolean):
                part.replace(_spelled(part))
            elif not _is_clear(part):
                raise UnsupportedQuery("a condition without a column is not supported yet", sql=sql)


def _is_clear(part: exp.Expr) -> bool:
    if next(part.find_all(exp.Column, exp.Subquery, exp.Star), None) is not None:
        return True
    sides = (part.this, part.args.get("expression"))
    return isinstance(part, _EQUATIONS) and all(isinstance(side, exp.Literal) and side.is_int for side in sides)


def _spelled(truth: exp.Boolean) -> exp.EQ:
    spelled = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(1 if truth.this else 0))
    spelled.meta.update(truth.meta)
    return spelled
