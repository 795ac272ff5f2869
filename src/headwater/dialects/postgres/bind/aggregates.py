"""PostgreSQL's aggregates: which groups may keep, what they take and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.dialects.postgres.bind.ordered_aggregates import COLLECTING, arranged, collected, taken
from headwater.dialects.postgres.types.column_types import POSTGRES_TYPES
from headwater.dialects.postgres.types.kind import (
    BOOL,
    BYTEA,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    PLAIN,
    REALS,
    UUID,
    PostgresKind,
    display_name,
    is_integer,
)
from headwater.dialects.postgres.types.kinds import kind_of
from headwater.dialects.postgres.types.numeric import has_scale, is_numeric, scale_of, scaled
from headwater.model.value import Type
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Call, Const, OrderKey
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.syntax.span import span

_SUMS = (INT2, INT4)
_TRUTHS = ("bool_and", "bool_or", "every")
_AGGREGATES = frozenset({"avg", "count", "max", "min", "sum", *_TRUTHS, *COLLECTING})
_UNSIGNED = Const(0.0, Type.REAL)


@dataclass(frozen=True, slots=True)
class PostgresAggregates:
    """A `DialectAggregates`."""

    kept: frozenset[str] = _AGGREGATES

    def is_aggregate(self, name: str, args: int) -> bool:
        return name in self.kept

    def _counts_once(self, bound: Bound) -> bool:
        kind = kind_of(bound.expr)
        return POSTGRES_TYPES.looks_alike(bound) or is_numeric(kind) or kind in REALS

    def arguments(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> Sequence[Bound]:
        """Which zero is the least or the largest PostgreSQL leaves open: it is shown without a sign."""
        if node.name not in ("min", "max") or kind_of(args[0].expr) != FLOAT8:
            return taken(scope, node, args)
        match args[0].expr:
            case Call(name="float8 +", args=(_, other)) if other == _UNSIGNED:
                return args
        arg = node.expressions[0]
        arg.replace(exp.Add(this=arg.copy(), expression=exp.Literal.number("0.0")))
        return [Bound(Call("float8 +", (args[0].expr, _UNSIGNED), Type.REAL))]

    def order(
        self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound], rows: tuple[OrderKey, ...]
    ) -> tuple[OrderKey, ...]:
        return arranged(scope, node, args)

    def result(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> tuple[Type, SqlType]:
        name, kind = node.name, kind_of(args[0].expr) if args else PostgresKind("")
        distinct = bool(node.args.get("distinct"))
        if name == "count" and not (distinct and not self._counts_once(args[0])):
            return Type.INTEGER, INT8
        if name in _TRUTHS and kind == BOOL:
            return Type.BOOLEAN, BOOL
        if name == "sum" and kind in _SUMS:
            return Type.INTEGER, INT8
        if name in ("min", "max") and kind in PLAIN - {BOOL, UUID, BYTEA} and args[0].expr.type is not None:
            return args[0].expr.type, kind
        found = collected(node, args) if name in COLLECTING else _aggregated(name, kind, distinct)
        if found is not None:
            return found
        raise scope.refusal(
            f"the aggregate {name}({display_name(kind)}) is not supported yet", span(node), "the source computes it"
        )


def _aggregated(name: str, kind: PostgresKind, distinct: bool) -> tuple[Type, PostgresKind] | None:
    """Of numbers. Which of 1.0 and 1.00 is the larger, or counts once, PostgreSQL leaves open."""
    if kind == FLOAT8 and (name in ("min", "max") or (name in ("sum", "avg") and not distinct)):
        return Type.REAL, kind
    if not (is_integer(kind) or is_numeric(kind)):
        return None
    if name in ("min", "max"):
        return (Type.NUMERIC, kind) if has_scale(kind) else None
    if distinct and is_numeric(kind) and not has_scale(kind):
        return None
    return {"sum": (Type.NUMERIC, scaled(scale_of(kind))), "avg": (Type.NUMERIC, NUMERIC)}.get(name)


POSTGRES_AGGREGATES = PostgresAggregates()
