"""What a dialect says of ORDER BY: how a term orders, and what tells two rows apart that it leaves equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlglot import exp

    from headwater.sql.bind.order_by import Term
    from headwater.sql.bind.scope import Bound, Scope
    from headwater.sql.ir.expr import OrderKey
    from headwater.sql.syntax.span import Span


class DialectOrder(Protocol):
    def key(self, scope: Scope, ordered: exp.Ordered, bound: Bound) -> OrderKey: ...
    def is_same(self, bound: Bound) -> bool:
        """Whether its values are ordered as here where nothing but its name is written."""

    def tie(self, scope: Scope, name: str, node: exp.Expr, bound: Bound, at: Span | None) -> Term:
        """What tells two rows apart by a column, in an order that is the same here and there."""

    def finer(self, node: exp.Expr, bound: Bound) -> list[Term]:
        """Without a key two rows may be equal by their collations, or as 1 and 1.0 are, and yet differ."""
