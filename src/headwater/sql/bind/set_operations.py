"""UNION, INTERSECT, EXCEPT and VALUES as relations. Their sides must agree in type: a column has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.value import Type
from headwater.sql.bind.clauses import InnerQuery, Named, Whole
from headwater.sql.bind.column_names import reference
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.collation import Collating
from headwater.sql.ir.expr import Const
from headwater.sql.ir.relation import Relation, RelColumn, SetKind, SetOperation, Values
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.ir.walk import names_in
from headwater.sql.syntax.span import span

Projecting = Callable[[Relation, Sequence[Named], Sequence[Type | None]], tuple[Relation, tuple[Named, ...]]]
_KINDS: dict[type[exp.Expr], SetKind] = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}


def combined(
    whole: Whole, node: exp.SetOperation, sides: Sequence[InnerQuery], project: Projecting, vague: set[str]
) -> tuple[Relation, tuple[Named, ...]]:
    united = [_united(whole, node, *pair) for pair in zip(*(side.columns for side in sides), strict=True)]
    types = [type for type, _, _ in united]
    left, right = (project(side.relation, side.columns, types)[0] for side in sides)
    prefix = whole.names.fresh("set")
    pairs = zip(sides[0].columns, sides[1].columns, united, strict=True)
    columns = tuple(
        _column(f"{prefix}.{place}", mine, theirs, found, vague) for place, (mine, theirs, found) in enumerate(pairs, 1)
    )
    every = not node.args.get("distinct")
    relation = SetOperation(_KINDS[type(node)], every, left, right, columns)
    named = zip(sides[0].columns, sides[1].columns, columns, strict=True)
    return relation, tuple(
        (mine[0], Bound(reference(column), _collating(mine, theirs))) for mine, theirs, column in named
    )


def _united(whole: Whole, node: exp.Expr, left: Named, right: Named) -> tuple[Type | None, SqlType, bool]:
    found = whole.dialect.types.united(left[1].expr, right[1].expr)
    if found is None:
        raise UnsupportedQuery(
            f"{left[0]} holds values of several types in this compound query",
            sql=whole.sql,
            at=span(node),
            hint="CAST both sides to one type",
        )
    return found


def _column(
    name: str, left: Named, right: Named, found: tuple[Type | None, SqlType, bool], vague: set[str]
) -> RelColumn:
    type, sql_type, clear = found
    sides = [bound for _, bound in (left, right) if bound.expr != Const(None, None)]
    collations = {bound.collating.name or "BINARY" for bound in sides}
    if len(collations) > 1 or not clear or names_in(*(bound.expr for bound in sides)) & vague:
        vague.add(name)
    return RelColumn(name, type or Type.INTEGER, sql_type, _collating(left, right).name or "BINARY")


def _collating(left: Named, right: Named) -> Collating:
    """The first side that has a collation says how the whole is ordered."""
    return Collating(left[1].collating.name or right[1].collating.name)


def listed_values(whole: Whole, node: exp.Values) -> tuple[Relation, tuple[Named, ...]]:
    written = [row.expressions for row in node.expressions]
    if len({len(row) for row in written}) > 1:
        raise SqlError("all VALUES must have the same number of terms", sql=whole.sql, at=span(node))
    types, rows = whole.dialect.binder.values(Scope(whole.sql, (), whole.params), written)
    prefix = whole.names.fresh("values")
    columns = tuple(RelColumn(f"{prefix}.{at}", *each) for at, each in enumerate(types, 1))
    results = tuple((f"column{at}", Bound(reference(column))) for at, column in enumerate(columns, 1))
    return Values(columns, tuple(rows)), results
