"""SQLite's aggregates: which groups may keep, what they take and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.dialects.sqlite.affinity import computed_affinity
from headwater.dialects.sqlite.functions import AGGREGATES
from headwater.dialects.sqlite.types import SQLITE_TYPES
from headwater.model.value import Type
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import OrderKey
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.syntax.span import span

_NUMBERS = (Type.INTEGER, Type.REAL, None)
_AGGREGATES = frozenset({"avg", "count", "group_concat", "max", "min", "sum", "total"})


@dataclass(frozen=True, slots=True)
class SqliteAggregates:
    """A `DialectAggregates`."""

    kept: frozenset[str] = _AGGREGATES

    def is_aggregate(self, name: str, args: int) -> bool:
        """min() and max() of several arguments are scalar functions."""
        return name in AGGREGATES and (name not in ("min", "max") or args == 1)

    def arguments(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> Sequence[Bound]:
        return args

    def order(
        self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound], rows: tuple[OrderKey, ...]
    ) -> tuple[OrderKey, ...]:
        """group_concat takes rows as they come: of one table, in the order of its key."""
        if node.name.lower() != "group_concat":
            return ()
        if scope.outer is not None:
            # SQLite may read the rows by an index of its own making, whatever order they were put in.
            raise scope.refusal(
                "group_concat() in a subquery has no certain order", span(node), "write it as a join with a group"
            )
        if not rows or node.args.get("distinct"):
            raise scope.refusal(
                "group_concat() over joins, groups or DISTINCT has no certain order",
                span(node),
                "concatenate the rows of one table",
            )
        return rows

    def result(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> tuple[Type, SqlType]:
        name = node.name.lower()
        type = args[0].expr.type if args else None
        if name in ("sum", "avg", "total") and type not in _NUMBERS:
            raise scope.refusal(f"{name}() of what is no number is not supported yet", span(node), "CAST it to REAL")
        if name in ("min", "max") and not SQLITE_TYPES.looks_alike(args[0]):
            raise scope.refusal(
                f"{name}() of values that are equal and yet look different has no one answer",
                span(node),
                "add COLLATE BINARY, or CAST to one type",
            )
        result = _result(name, type)
        return result, computed_affinity(result)


def _result(name: str, type: Type | None) -> Type:
    match name:
        case "count":
            return Type.INTEGER
        case "avg" | "total":
            return Type.REAL
        case "group_concat":
            return Type.TEXT
        case _:
            return type or Type.INTEGER


SQLITE_AGGREGATES = SqliteAggregates()
