"""string_agg and array_agg: what they take, and the order in which they take it. Binds, never evaluates.

Behind the user's own order stand the keys of the rows, so that it is total; the text says so too. With DISTINCT the
values themselves are the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headwater.dialects.postgres.bind.coercion import coerced
from headwater.dialects.postgres.types.bpchar import as_text
from headwater.dialects.postgres.types.kind import INTERVAL, JSON, JSONB, PLAIN, REALS, TEXT, PostgresKind, is_text
from headwater.dialects.postgres.types.kinds import is_plain, kind_of
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.model.value import Type
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.limit import is_constant
from headwater.sql.bind.order_by import Term, distinct_terms, identity_terms
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Expr, OrderKey
from headwater.sql.syntax.span import span

COLLECTING = ("array_agg", "string_agg")
_COLLECTED = PLAIN | {*REALS, INTERVAL, JSON, JSONB}


def taken(scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> Sequence[Bound]:
    """The arguments: string_agg takes two texts."""
    if node.name != "string_agg":
        return args
    value, separator = (arg.expr for arg in args)
    value = as_text(value, kind_of(value))
    _spell_cast(node)
    return [Bound(value), Bound(coerced(scope, separator, TEXT, span(node)))]


def _spell_cast(node: exp.Anonymous) -> None:
    """PostgreSQL puts a cast of its own under COLLATE, and then finds no such value in an order."""
    value = node.expressions[0]
    if isinstance(value, exp.Collate) and not isinstance(value.this, exp.Cast):
        value.set("this", exp.Cast(this=value.this.copy(), to=exp.Var(this="text")))


def collected(node: exp.Anonymous, args: Sequence[Bound]) -> tuple[Type, PostgresKind] | None:
    """Type and kind of the result; None where we do not know it."""
    value, kind = args[0].expr, kind_of(args[0].expr)
    if node.args.get("distinct") and not is_plain(kind):
        return None
    if node.name == "array_agg":
        known = kind in _COLLECTED or is_text(kind) or is_numeric(kind)
        return (Type.OTHER, PostgresKind("array", element=kind)) if known else None
    return (Type.TEXT, kind) if is_text(kind) and _is_separator(args[1].expr, value) else None


def _is_separator(expr: Expr, value: Expr) -> bool:
    """One that brings no collation of its own."""
    return is_constant(expr) or kind_of(expr) == kind_of(value)


def arranged(scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> tuple[OrderKey, ...]:
    written = node.args.get("order")
    if node.name not in COLLECTING:
        if written:
            raise scope.refusal(f"{node.name}() with an order is not supported yet", span(node), "leave it out")
        return ()
    inner = Scope(scope.sql, scope.sources, scope.params, shared=scope.shared, outer=scope.outer, clause=scope.clause)
    terms = [*_terms(inner, written)]
    if node.args.get("distinct"):
        terms = _of_values(inner, node, terms, args)
    else:
        terms = distinct_terms([*terms, *identity_terms(inner, span(node))])
    node.set("order", exp.Order(expressions=[term.written() for term in terms]))
    return tuple(term.key for term in terms)


def _terms(scope: Scope, written: exp.Order | None) -> Iterator[Term]:
    """Numbers are constants here, and no alias of a result is seen."""
    for ordered in written.expressions if written else ():
        bound = bind_expr(scope, ordered.this)
        if not is_constant(bound.expr):
            yield Term(scope.dialect.order.key(scope, ordered, bound), ordered.this)


def _of_values(scope: Scope, node: exp.Anonymous, terms: list[Term], args: Sequence[Bound]) -> list[Term]:
    """PostgreSQL lets DISTINCT be ordered by the arguments alone, of which the separator must be a constant."""
    value = exp.Ordered(this=node.expressions[0].copy(), desc=False, nulls_first=False)
    terms = distinct_terms(terms or [Term(scope.dialect.order.key(scope, value, args[0]), value.this)])
    if len(terms) > 1 or terms[0].key.expr != args[0].expr or not all(is_constant(arg.expr) for arg in args[1:]):
        raise scope.refusal(f"this order of {node.name}(DISTINCT …) is not supported yet", span(node))
    return terms
