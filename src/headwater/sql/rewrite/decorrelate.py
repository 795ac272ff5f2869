"""Subqueries in expressions, decorrelated: EXISTS and IN become semi, anti and mark joins, scalar ones left joins.

What cannot be said as a join exactly is refused. A scalar subquery is its first row, in its effective order.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headwater.model.errors import UnsupportedQuery
from headwater.model.value import ALIKE, Type
from headwater.sql.bind.clauses import Attachment, Binder, BoundSelect, Environment, InnerQuery
from headwater.sql.bind.column_names import reference, renamed
from headwater.sql.bind.expression import bind_expr, compare
from headwater.sql.bind.group_by import is_unique, over_nothing
from headwater.sql.bind.order_by import distinct_terms
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.conjunction import chain, parts
from headwater.sql.ir.expr import Call, Case, ColumnRef, Const, Expr, Output
from headwater.sql.ir.relation import Filter, Project, Relation, RelColumn, Scan, Top, columns_of
from headwater.sql.ir.walk import names_in, substituted
from headwater.sql.syntax.span import span

_NUMBERS = (Type.INTEGER, Type.REAL)
_ONE_LOOK = ALIKE | {Type.TEXT, Type.BLOB}
_HINT = "write it as a join"
_TRUE, _FALSE = Const(1, Type.INTEGER), Const(0, Type.INTEGER)


def as_condition(binder: Binder, around: Environment, scope: Scope, node: exp.Expr) -> Expr | Attachment:
    """A conjunct of WHERE: where it is EXISTS or IN itself, no mark is needed."""
    negated = isinstance(node, exp.Not)
    inner = node.this if negated else node
    if isinstance(inner, exp.Exists):
        attachment, _ = existing(binder, around, scope, inner)
    elif isinstance(inner, exp.In) and inner.args.get("query"):
        attachment, _ = member(binder, around, scope, inner, bind_expr(scope, inner.this))
    else:
        return bind_expr(scope, node).expr
    null_aware = negated and attachment.null_aware
    return replace(attachment, kind="anti" if negated else "semi", column=None, null_aware=null_aware)


def existing(binder: Binder, around: Environment, scope: Scope, node: exp.Exists) -> tuple[Attachment, Bound]:
    answer = binder.answer(node.this.this, around, scope, "existence")
    column = _marking(binder)
    return Attachment("mark", answer.relation, _all(answer.correlated), column), scope.dialect.binder.marked(column)


def member(binder: Binder, around: Environment, scope: Scope, node: exp.In, needle: Bound) -> tuple[Attachment, Bound]:
    """A row the condition leaves open is not looked at: only the equality may be NULL."""
    answer = binder.answer(node.args["query"].this, around, scope, "set")
    _check_width(scope, node, answer)
    equal = compare(scope, "=", needle, answer.columns[0][1], span(node)).expr
    asked = [Case(((condition, _TRUE),), _FALSE, Type.INTEGER) for condition in answer.correlated]
    column = _marking(binder)
    attachment = Attachment("mark", answer.relation, chain("and", [equal, *asked]), column, True)
    return attachment, scope.dialect.binder.marked(column)


def _marking(binder: Binder) -> RelColumn:
    whole = binder.whole
    return RelColumn(f"{whole.names.fresh('sub')}.mark", Type.INTEGER, whole.dialect.types.sql_type(_TRUE))


def _all(conditions: tuple[Expr, ...]) -> Expr | None:
    return chain("and", conditions) if conditions else None


def _check_width(scope: Scope, node: exp.Expr, answer: InnerQuery | BoundSelect) -> None:
    columns = answer.columns if isinstance(answer, InnerQuery) else answer.results
    if len(columns) != 1:
        raise scope.error(f"expected a subquery with 1 column, found {len(columns)}", span(node))


# Scalar subqueries


def scalar(binder: Binder, around: Environment, scope: Scope, node: exp.Subquery) -> tuple[Attachment, Bound]:
    query = node.this
    if not isinstance(query, exp.Select):
        raise scope.refusal("a compound query as a value is not supported yet", span(node), _HINT)
    selected = binder.selected(query, around, scope)
    _check_width(scope, node, selected)
    if selected.scalar:
        return _aggregated(scope, node, selected)
    return _first(binder, scope, node, selected)


def _aggregated(scope: Scope, node: exp.Subquery, selected: BoundSelect) -> tuple[Attachment, Bound]:
    """One row for each value of what it is correlated by; where there is none, it is the row over nothing."""
    if selected.framed and (selected.limit == 0 or selected.offset):
        raise _refused(scope, node, "a frame around one row")
    if selected.correlated and selected.node.args.get("having"):
        raise _refused(scope, node, "HAVING in a correlated subquery")
    expr = selected.results[0][1].expr
    if selected.correlated:
        expr = substituted(expr, over_nothing(selected.aggregates))
    return Attachment("scalar", selected.relation, _all(selected.correlated)), Bound(expr)


def _first(binder: Binder, scope: Scope, node: exp.Subquery, selected: BoundSelect) -> tuple[Attachment, Bound]:
    local = frozenset(column.name for column in columns_of(selected.relation))
    result = selected.results[0][1]
    if selected.distinct or selected.limit == 0:
        raise _refused(scope, node, "this form of scalar subquery")
    if not names_in(result.expr) <= local:
        raise _refused(scope, node, "a scalar subquery of outer columns")
    pairs = [correlation(conjunct, local) for conjunct in selected.correlated]
    if any(pair is None for pair in pairs):
        raise _refused(scope, node, "a scalar subquery correlated by other than equality")
    mine = tuple(pair[0] for pair in pairs if pair is not None)
    relation = selected.relation
    certain = _at_most_one(binder, relation, mine)
    if not (certain or scope.dialect.binder.takes_first or selected.limit == 1):
        raise _refused(scope, node, "a scalar subquery that may have several rows")
    if selected.offset or not certain:
        relation = _topmost(selected, mine)
    relation, bound = _valued(binder, relation, result)
    return Attachment("scalar", relation, _all(selected.correlated)), bound


def _topmost(selected: BoundSelect, partition: tuple[Expr, ...]) -> Relation:
    terms = distinct_terms([*selected.order, *selected.ties])
    selected.node.set("order", exp.Order(expressions=[term.written() for term in terms]) if terms else None)
    return Top(selected.relation, tuple(term.key for term in terms), 1, selected.offset, partition)


def _valued(binder: Binder, relation: Relation, result: Bound) -> tuple[Relation, Bound]:
    """The result as a column, so that it is NULL where there is no row. A subquery has an affinity, no collation."""
    if isinstance(result.expr, ColumnRef):
        return relation, Bound(result.expr)
    column = renamed(binder.whole.dialect, Bound(result.expr), f"{binder.whole.names.fresh('sub')}.value")
    kept = columns_of(relation)
    outputs = [*(Output(each.name, reference(each)) for each in kept), Output(column.name, result.expr)]
    return Project(relation, tuple(outputs), (*kept, column)), Bound(reference(column))


def _at_most_one(binder: Binder, relation: Relation, mine: tuple[Expr, ...]) -> bool:
    """The key of a single table is asked for."""
    fixed = {expr.name for expr in mine if isinstance(expr, ColumnRef)}
    while isinstance(relation, Filter):
        fixed |= {name for conjunct in parts("and", relation.predicate) if (name := _fixed(conjunct))}
        relation = relation.input
    if not isinstance(relation, Scan) or not relation.key:
        return False
    return set(relation.key) <= fixed and is_unique(binder.whole.dialect, binder.whole.tables[relation.table.lower()])


def _fixed(conjunct: Expr) -> str | None:
    match conjunct:
        case Call(name="=", args=(ColumnRef() as column, Const())) if conjunct.collation == column.collation:
            return column.name
        case _:
            return None


def correlation(conjunct: Expr, local: frozenset[str]) -> tuple[Expr, Expr] | None:
    """Both sides of an equality of an inner with an outer expression, where equal values are one value."""
    match conjunct:
        case Call(name="=", args=(left, right), collation="BINARY"):
            sides = (left, right) if names_in(left) <= local else (right, left)
        case _:
            return None
    inner, outer = sides
    separate = bool(names_in(inner)) and names_in(inner) <= local and not names_in(outer) & local
    return sides if separate and _comparable(inner.type, outer.type) else None


def _comparable(left: Type | None, right: Type | None) -> bool:
    return (left in _NUMBERS and right in _NUMBERS) or (left is right and left in _ONE_LOOK)


def _refused(scope: Scope, node: exp.Expr, what: str) -> UnsupportedQuery:
    return scope.refusal(f"{what} is not supported yet", span(node), _HINT)
