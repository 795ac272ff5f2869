"""Lifting: which constants of a query become parameters, so that queries that differ only in them share a template.

A top-level conjunct `column = constant` is lifted, once per column. Everything else stays in the template.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.model.value import Type, Value, type_of
from headwater.sql.expr import Call, ColumnRef, Const, Expr
from headwater.sql.literal import INTEGER_MAX, INTEGER_MIN
from headwater.sql.render import render_operand


@dataclass(frozen=True, slots=True)
class Lifted:
    """`keys` are columns with their values, by column name; `rest` the other conjuncts, in canonical order."""

    keys: tuple[tuple[str, Value], ...]
    rest: tuple[Expr, ...]


def lift(conjuncts: Iterable[Expr]) -> Lifted:
    keys: dict[str, Value] = {}
    rest: list[Expr] = []
    for conjunct in canonical(conjuncts):
        found = _equality(conjunct)
        if found is None or found[0] in keys:
            rest.append(conjunct)
        else:
            keys[found[0]] = found[1]
    return Lifted(tuple(sorted(keys.items(), key=lambda key: key[0])), tuple(rest))


def canonical(conjuncts: Iterable[Expr]) -> list[Expr]:
    """Sorted by their text, each once: AND does not mind."""
    by_text = {render_operand(conjunct): conjunct for conjunct in conjuncts}
    return [by_text[text] for text in sorted(by_text)]


def _equality(conjunct: Expr) -> tuple[str, Value] | None:
    """The column and value of a liftable conjunct: compared by the column's own collation, of the column's own type."""
    match conjunct:
        case Call(name="=", args=(ColumnRef() as column, Const() as constant)) if (
            conjunct.collation == column.collation
        ):
            value = fitted(constant.value, column.type)
            return None if value is None else (column.name, value)
        case _:
            return None


def fitted(value: Value, type: Type) -> Value:
    """The value as a column of that type would hold it, or None where no such column can ever equal it."""
    if (
        isinstance(value, float)
        and type is not Type.REAL
        and value.is_integer()
        and INTEGER_MIN <= value <= INTEGER_MAX
    ):
        value = int(value)
    match type:
        case Type.INTEGER:
            return value if isinstance(value, int) else None
        case Type.REAL:
            return _as_real(value)
        case Type.TEXT:
            return value if isinstance(value, str) else None
        case Type.BLOB:
            return value if isinstance(value, bytes) else None
        case Type.ANY:
            return value
        case _:
            return value if type_of(value) is type else None


def _as_real(value: Value) -> float | None:
    """An integer that no double holds equals no REAL."""
    if isinstance(value, int):
        return float(value) if int(float(value)) == value else None
    return value if isinstance(value, float) else None
