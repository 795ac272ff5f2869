"""Bound, typed expressions: what `bind` makes and the engine evaluates. Values only; no parsing, no evaluation here.

Types follow the source's rules. In SQLite truth is INTEGER 1, 0 or NULL, and `Type.ANY` means that only the row tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.model.value import Type, Value
from headwater.sql.ir.sql_type import SqlType


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """`sql_type` and `collation` are what it brings into a comparison; without one it is compared by its values."""

    name: str
    type: Type
    sql_type: SqlType | None = None
    collation: str = "BINARY"


@dataclass(frozen=True, slots=True)
class Const:
    """A constant. `type` is None for NULL."""

    value: Value
    type: Type | None


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function, by its lower-case SQL name.

    Operators: + - * / % neg || = <> < <= > >= is isnot and or not in notin between notbetween like notlike
    & | << >> ~ ; `in` takes the needle first, then the items; `like` takes value, pattern and perhaps the escape.
    `glob` takes value and pattern; `pos` is unary plus: the value without its affinity; and, or are balanced trees.
    Anything else is a scalar function: lower, substr, coalesce, …
    `collation` is the one the comparison uses, decided by the binder.
    """

    name: str
    args: tuple[Expr, ...]
    type: Type | None
    collation: str = "BINARY"


@dataclass(frozen=True, slots=True)
class Case:
    """Searched form only: `CASE x WHEN y` is bound as `x = y`."""

    whens: tuple[tuple[Expr, Expr], ...]
    default: Expr
    type: Type | None


@dataclass(frozen=True, slots=True)
class Cast:
    arg: Expr
    sql_type: SqlType
    type: Type | None


Expr = ColumnRef | Const | Call | Case | Cast


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class OrderKey:
    expr: Expr
    descending: bool = False
    nulls_first: bool = True
    collation: str = "BINARY"
