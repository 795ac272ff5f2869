"""PostgreSQL's ORDER BY: how a term orders, and what tells two rows apart that it leaves equal."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headwater.dialects.postgres.types.bpchar import as_text, is_padded
from headwater.dialects.postgres.types.kind import (
    DEFAULT,
    INTERVAL,
    PLAIN,
    REALS,
    TEXT,
    PostgresKind,
    display_name,
    is_enum,
    is_text,
)
from headwater.dialects.postgres.types.kinds import kind_of
from headwater.dialects.postgres.types.numeric import has_scale, is_numeric
from headwater.model.errors import UnsupportedQuery
from headwater.model.value import Type
from headwater.sql.bind.order_by import Term
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Cast, Expr, OrderKey
from headwater.sql.syntax.span import Span, span

_C = exp.Identifier(this="C", quoted=True)


@dataclass(frozen=True, slots=True)
class PostgresOrder:
    """A `DialectOrder`."""

    def is_same(self, bound: Bound) -> bool:
        kind = kind_of(bound.expr)
        return kind in PLAIN or has_scale(kind)

    def key(self, scope: Scope, ordered: exp.Ordered, bound: Bound) -> OrderKey:
        descending, nulls_first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
        bound = Bound(as_text(bound.expr, kind_of(bound.expr)))
        kind = kind_of(bound.expr)
        if kind not in PLAIN | {INTERVAL, *REALS} and not is_numeric(kind):
            raise _unordered(scope, kind, span(ordered))
        return OrderKey(bound.expr, descending, nulls_first)

    def tie(self, scope: Scope, name: str, node: exp.Expr, bound: Bound, at: Span | None) -> Term:
        """By its bytes, or those of its text: any order will do that is the same here and there."""
        kind, expr = kind_of(bound.expr), bound.expr
        if kind in PLAIN or has_scale(kind):
            return Term(OrderKey(expr), node)
        if expr.type is not Type.TEXT and not (is_numeric(kind) or kind in REALS):
            raise _unordered(scope, kind, at)
        text = node if is_text(kind) else exp.Cast(this=node, to=exp.Var(this="text"))
        return Term(OrderKey(_by_bytes(expr, kind)), exp.Collate(this=text, expression=_C.copy()))

    def finer(self, node: exp.Expr, bound: Bound) -> list[Term]:
        return []


def _by_bytes(expr: Expr, kind: PostgresKind) -> Expr:
    """What `CAST(… AS text) COLLATE "C"` is bound as."""
    if not is_text(kind):
        expr = as_text(expr, kind) if is_padded(kind) else Cast(expr, DEFAULT, Type.TEXT)
    return expr if kind_of(expr) == TEXT else Cast(expr, TEXT, Type.TEXT)


def _unordered(scope: Scope, kind: PostgresKind, at: Span | None) -> UnsupportedQuery:
    if is_text(kind):
        return scope.refusal(
            f"only PostgreSQL knows the order of the collation {kind.collation}",
            at,
            'add COLLATE "C" to order by bytes',
        )
    if is_enum(kind):
        return scope.refusal(
            "only PostgreSQL knows the order of an enum", at, "CAST it to text to order by its letters"
        )
    return scope.refusal(f"ordering by {display_name(kind)} is not supported yet", at)


POSTGRES_ORDER = PostgresOrder()
