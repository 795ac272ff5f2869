"""Ask: what a conjunct asks of one column by constants alone. This is what a plan can make parameters of.

Only comparisons by the column's own collation count. It never says whether a constant fits the column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headwater.model.value import Row, Type, Value, type_of
from headwater.sql.ir.expr import Call, ColumnRef, Const, Expr

Op = Literal["=", "in", ">", ">=", "<", "<="]


@dataclass(frozen=True, slots=True)
class Ask:
    """`values` are one constant, or those of an IN list."""

    column: ColumnRef
    op: Op
    values: Row

    @property
    def expr(self) -> Expr:
        constants = (Const(value, type_of(value)) for value in self.values)
        return Call(self.op, (self.column, *constants), Type.INTEGER, self.column.collation)


def asks(conjunct: Expr) -> tuple[Ask, ...]:
    """BETWEEN asks twice; what is no such conjunct, not at all."""
    match conjunct:
        case Call(args=(ColumnRef() as column, *others)) if conjunct.collation == column.collation:
            values = tuple(other.value for other in others if isinstance(other, Const))
            return tuple(_asked(conjunct.name, column, values)) if len(values) == len(others) else ()
        case _:
            return ()


def _asked(name: str, column: ColumnRef, values: tuple[Value, ...]) -> Iterator[Ask]:
    match name:
        case "=" | "in" | ">" | ">=" | "<" | "<=":
            yield Ask(column, name, values)
        case "between":
            low, high = values
            yield Ask(column, ">=", (low,))
            yield Ask(column, "<=", (high,))
