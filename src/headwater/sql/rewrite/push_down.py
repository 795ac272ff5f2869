"""Where a condition is tested: below a join where that is exact, in ON of an inner join, else above. Never reorders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from headwater.sql.ir.conjunction import chain, parts
from headwater.sql.ir.expr import ColumnRef, Expr
from headwater.sql.ir.relation import Exists, Filter, Join, Mark, Project, Relation, Scan, columns_of
from headwater.sql.ir.walk import names_in


def placed(relation: Relation, conjuncts: Sequence[Expr]) -> Relation:
    if isinstance(relation, Scan) and conjuncts:
        return Filter(relation, chain("and", conjuncts))
    return reduce(_place, conjuncts, relation)


def _place(relation: Relation, conjunct: Expr) -> Relation:
    match relation:
        case Join():
            return _beside(relation, conjunct)
        case Exists() | Mark() if _within(conjunct, relation.left):
            return replace(relation, left=_place(relation.left, conjunct))
        case Project() if _passes(conjunct, relation):
            return replace(relation, input=_place(relation.input, conjunct))
        case Filter():
            return _filtered(relation, conjunct)
        case _:
            return Filter(relation, conjunct)


def _beside(join: Join, conjunct: Expr) -> Relation:
    """Only rows that a join may pad must not be filtered before it."""
    if join.kind in ("inner", "left") and _within(conjunct, join.left):
        return replace(join, left=_place(join.left, conjunct))
    if join.kind in ("inner", "right") and _within(conjunct, join.right):
        return replace(join, right=_place(join.right, conjunct))
    if join.kind == "inner":
        return replace(join, on=conjunct if join.on is None else chain("and", [*parts("and", join.on), conjunct]))
    return Filter(join, conjunct)


def _filtered(relation: Filter, conjunct: Expr) -> Filter:
    below = _place(relation.input, conjunct)
    if not isinstance(below, Filter):
        return Filter(below, relation.predicate)
    return Filter(relation.input, chain("and", [*parts("and", relation.predicate), conjunct]))


def _within(conjunct: Expr, relation: Relation) -> bool:
    return names_in(conjunct) <= {column.name for column in columns_of(relation)}


def _passes(conjunct: Expr, project: Project) -> bool:
    """Only columns that keep their name through the projection."""
    kept = {output.name for output in project.outputs if _kept(output.expr, output.name)}
    return names_in(conjunct) <= kept


def _kept(expr: Expr, name: str) -> bool:
    return isinstance(expr, ColumnRef) and expr.name == name
