"""Names for the columns of relations: unique in the whole tree, and the same each time the same text is bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.model.value import Type
from headwater.sql.bind.scope import Bound
from headwater.sql.dialect import Dialect
from headwater.sql.ir.expr import ColumnRef, Expr
from headwater.sql.ir.relation import RelColumn


@dataclass(slots=True)
class Names:
    used: set[str] = field(default_factory=set)

    def prefix(self, wanted: str) -> str:
        """An alias as it is; the second of that name is `o~2`."""
        name, number = wanted, 1
        while name.lower() in self.used:
            number += 1
            name = f"{wanted}~{number}"
        self.used.add(name.lower())
        return name

    def fresh(self, kind: str) -> str:
        """`agg1`, `agg2`, …"""
        name = self.spare(kind)
        self.used.add(name)
        return name

    def spare(self, kind: str) -> str:
        """The same, not taken yet."""
        number = 1
        while f"{kind}{number}" in self.used:
            number += 1
        return f"{kind}{number}"


def computed(dialect: Dialect, name: str, expr: Expr, collation: str | None = None) -> RelColumn:
    """The column an expression becomes."""
    return RelColumn(name, expr.type or Type.INTEGER, dialect.types.sql_type(expr), collation or "BINARY")


def reference(column: RelColumn) -> ColumnRef:
    return ColumnRef(column.name, column.type, column.sql_type, column.collation)


def renamed(dialect: Dialect, bound: Bound, name: str) -> RelColumn:
    return computed(dialect, name, bound.expr, bound.collating.name)
