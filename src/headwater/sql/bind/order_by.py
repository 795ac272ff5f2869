"""The order of a SELECT inside or around others: the user's keys, then what tells its rows apart.

Both as bound keys and as terms of the syntax tree, so that the text says what the engine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.model.value import Type
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.limit import is_constant, ordinal
from headwater.sql.bind.scope import Bound, Scope, ScopeTable
from headwater.sql.dialect import Dialect
from headwater.sql.ir.expr import Const, OrderKey
from headwater.sql.syntax.span import Span, span


@dataclass(frozen=True, slots=True)
class Term:
    """A key, and how the text says it."""

    key: OrderKey
    node: exp.Expr

    def written(self) -> exp.Ordered:
        key = self.key
        return exp.Ordered(this=self.node.copy(), desc=key.descending, nulls_first=key.nulls_first)


def user_terms(scope: Scope, order: exp.Order | None, results: Sequence[tuple[str, Bound]]) -> Iterator[Term]:
    """An alias first, then the number of a result column, then any expression; constants order nothing."""
    for ordered in order.expressions if order else ():
        bound = _bound(scope, ordered.this, results)
        if not is_constant(bound.expr):
            yield Term(scope.dialect.order.key(scope, ordered, bound), ordered.this)


def _bound(scope: Scope, node: exp.Expr, results: Sequence[tuple[str, Bound]]) -> Bound:
    if isinstance(node, exp.Collate):
        found = scope.dialect.binder.collated(scope, lambda: _bound(scope, node.this, results), node)
        return found or bind_expr(scope, node)
    number = _number(scope, node, results)
    if number is None:
        return bind_expr(scope, node)
    if not 1 <= number <= len(results):
        raise scope.error(f"ORDER BY {number}: there are {len(results)} result columns", span(node))
    return results[number - 1][1]


def _number(scope: Scope, node: exp.Expr, results: Sequence[tuple[str, Bound]]) -> int | None:
    """A name that stands for a result becomes its number: that no column added later can take away."""
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in scope.spelled:
        place = list(scope.spelled).index(node.name.lower())
        number = _places(scope, results)[place]
        node.replace(exp.Literal.number(number))
        return number
    return ordinal(scope.dialect, node)


def _places(scope: Scope, results: Sequence[tuple[str, Bound]]) -> list[int]:
    names = [name.lower() for name, _ in results]
    return [names.index(alias) + 1 for alias in scope.spelled]


def distinct_terms(terms: Iterator[Term] | Sequence[Term]) -> list[Term]:
    """A term that repeats an earlier one decides nothing, whatever its direction."""
    seen: dict[tuple[object, str], Term] = {}
    for term in terms:
        seen.setdefault((term.key.expr, term.key.collation), term)
    return list(seen.values())


def identity_terms(scope: Scope, at: Span | None) -> Iterator[Term]:
    """What tells the rows of FROM apart: the keys of its tables; all columns where there is no key."""
    names = [source.name.lower() for source in scope.sources]
    for source in scope.sources:
        if names.count(source.name.lower()) > 1:
            raise scope.refusal(f"two tables are named {source.name}", at, "give one another name: … AS name")
        yield from _of_source(scope, source, at)


def _of_source(scope: Scope, source: ScopeTable, at: Span | None) -> Iterator[Term]:
    keyed = source.table is not None and bool(source.table.key)
    wanted = source.table.key if keyed and source.table else tuple(name for name, _ in source.columns)
    columns = [column for name in wanted if (column := source.find(name))]
    for name, bound in columns:
        yield scope.dialect.order.tie(scope, name, _column(source.name, name), bound, at)
    for name, bound in () if keyed else columns:
        yield from scope.dialect.order.finer(_column(source.name, name), bound)


def _column(table: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


def result_terms(
    dialect: Dialect, results: Sequence[tuple[str, Bound]], refuse: Callable[[str, str], Exception]
) -> Iterator[Term]:
    """The rows of a set told apart by all their columns, which are named by number."""
    for number, (name, bound) in enumerate(results, 1):
        if isinstance(bound.expr, Const):
            continue
        if not dialect.order.is_same(bound):
            raise refuse(f"telling rows apart by {name}, whose order only the source knows", "order by nothing")
        if bound.expr.type is Type.ANY:
            raise refuse(f"ordering by {name}, which holds values of several types", "CAST it to one type")
        collation = bound.collating.name or "BINARY"
        node: exp.Expr = exp.Literal.number(number)
        yield Term(OrderKey(bound.expr, collation=collation), node)
        if collation != "BINARY":
            finer = exp.Collate(this=node.copy(), expression=exp.to_identifier("BINARY"))
            yield Term(OrderKey(bound.expr), finer)
