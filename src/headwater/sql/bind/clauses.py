"""What a SELECT is made of while it is bound: named results, attachments, answers of inner queries. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from sqlglot import exp

from headwater.model.schema import Table
from headwater.sql.bind.column_names import Names
from headwater.sql.bind.limit import limit, offset
from headwater.sql.bind.order_by import Term, identity_terms
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.dialect import Dialect
from headwater.sql.ir.expr import Expr, OrderKey
from headwater.sql.ir.relation import Aggregate, Exists, Join, Mark, Relation, RelColumn
from headwater.sql.ir.walk import substituted
from headwater.sql.syntax.parameters import Params
from headwater.sql.syntax.span import span

Named = tuple[str, Bound]
Purpose = Literal["rows", "set", "existence"]  # what of an inner query counts: its bag, its set, whether it has any


@dataclass(frozen=True, slots=True)
class Common:
    """A common table expression, and those its own body may name."""

    node: exp.CTE
    around: Environment


Environment = Mapping[str, Common]


@dataclass(frozen=True, slots=True)
class Whole:
    """What all parts of one statement share. `lift_scalars`: constants asked of the rows below an aggregate without
    GROUP BY may be left to the plan too."""

    sql: str
    tables: Mapping[str, Table]
    params: Params
    names: Names = field(default_factory=Names)
    lift_scalars: bool = True

    @property
    def dialect(self) -> Dialect:
        return self.params.dialect


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a subquery adds to the relation its expression stands over."""

    kind: Literal["semi", "anti", "mark", "scalar"]
    right: Relation
    on: Expr | None
    column: RelColumn | None = None
    null_aware: bool = False

    def over(self, left: Relation) -> Relation:
        match self.kind:
            case "scalar":
                return Join("left", left, self.right, self.on)
            case "mark":
                assert self.column is not None
                return Mark(left, self.right, self.on, self.column, self.null_aware)
            case "semi" | "anti":
                return Exists(left, self.right, self.on, self.kind == "anti", self.null_aware)

    def moved(self, replacements: Mapping[Expr, Expr]) -> Attachment:
        return replace(self, on=None if self.on is None else substituted(self.on, replacements))


@dataclass(frozen=True, slots=True)
class InnerQuery:
    """A query inside another: its rows, the columns it shows, and the conjuncts that speak of the query around it.

    `order` is what its rows come in where somebody may ask: it is total.
    """

    relation: Relation
    columns: tuple[tuple[str, Bound], ...]
    correlated: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """A SELECT up to its results. `order` are the user's terms, `ties` what tells its rows apart after them.

    `liftable` are conjuncts of the outermost query that ask of a column, or of an aggregate, by constants and were left
    for the plan; their columns pass through to the relation unchanged. `scalar`: aggregates and no GROUP BY, so one
    row, also over nothing.
    """

    node: exp.Select
    scope: Scope
    relation: Relation
    results: tuple[Named, ...]
    order: tuple[Term, ...]
    group_ties: tuple[tuple[exp.Expr, Bound], ...]
    correlated: tuple[Expr, ...] = ()
    liftable: tuple[tuple[Expr, exp.Expr], ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    grouped: bool = False
    scalar: bool = False

    @property
    def ties(self) -> tuple[Term, ...]:
        """Asked for only where they count: there may be no order that is the same here and there."""
        at = span(self.node)
        if not self.grouped:
            return tuple(identity_terms(self.scope, at))
        tie = self.scope.dialect.order.tie
        return tuple(tie(self.scope, "of a group", node, key, at) for node, key in self.group_ties)

    @property
    def distinct(self) -> bool:
        return bool(self.node.args.get("distinct"))

    @property
    def framed(self) -> bool:
        return bool(self.node.args.get("limit"))

    @property
    def limit(self) -> int | None:
        return limit(replace(self.scope, clause=None), self.node.args.get("limit"))

    @property
    def offset(self) -> int:
        return offset(replace(self.scope, clause=None), self.node.args.get("offset"))


class Binder(Protocol):
    """What binds a query inside another: FROM and subqueries ask it."""

    whole: Whole

    def answer(
        self, node: exp.Expr, around: Environment, outer: Scope | None, purpose: Purpose = "rows"
    ) -> InnerQuery: ...
    def selected(self, node: exp.Select, around: Environment, outer: Scope | None) -> BoundSelect: ...
