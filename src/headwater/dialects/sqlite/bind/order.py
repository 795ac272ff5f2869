"""SQLite's ORDER BY: how a term orders, and what tells two rows apart that it leaves equal."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headwater.model.value import Type
from headwater.sql.bind.order_by import Term
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.collation import COLLATIONS
from headwater.sql.ir.expr import Call, OrderKey
from headwater.sql.syntax.span import Span, span


@dataclass(frozen=True, slots=True)
class SqliteOrder:
    """A `DialectOrder`."""

    def is_same(self, bound: Bound) -> bool:
        return True

    def key(self, scope: Scope, ordered: exp.Ordered, bound: Bound) -> OrderKey:
        collation = bound.collating.name or "BINARY"
        if collation not in COLLATIONS:
            raise scope.refusal(
                f"the collation {collation} is not supported yet", span(ordered), "add COLLATE BINARY or COLLATE NOCASE"
            )
        return OrderKey(bound.expr, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")), collation)

    def tie(self, scope: Scope, name: str, node: exp.Expr, bound: Bound, at: Span | None) -> Term:
        collation = bound.collating.name or "BINARY"
        if collation not in COLLATIONS:
            raise scope.refusal(
                f"the column {name} is collated {collation}, which is not supported yet",
                at,
                "leave out ORDER BY and LIMIT",
            )
        return Term(OrderKey(bound.expr, collation=collation), node)

    def finer(self, node: exp.Expr, bound: Bound) -> list[Term]:
        terms = []
        if (bound.collating.name or "BINARY") != "BINARY":
            binary = exp.Collate(this=node.copy(), expression=exp.to_identifier("BINARY"))
            terms.append(Term(OrderKey(bound.expr), binary))
        if bound.expr.type is Type.ANY:
            typeof = exp.Anonymous(this="typeof", expressions=[node.copy()])
            terms.append(Term(OrderKey(Call("typeof", (bound.expr,), Type.TEXT)), typeof))
        return terms


SQLITE_ORDER = SqliteOrder()
