"""Lifting: which constants of a query become parameters, so that queries that differ only in them share a template.

A top-level conjunct that asks of a column by constants alone is lifted: `=`, IN, and a bound from below and from above,
each once per column. Everything else stays in the template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.model.encoding.keys import encode_value
from headwater.model.value import INTEGER_MAX, INTEGER_MIN, Row, Type, Value, type_of
from headwater.plan.template import Selector
from headwater.sql.ir.collation import COLLATIONS
from headwater.sql.ir.expr import Expr
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.ir.predicate import Ask, Op, asks

_TEXT = ExprText()
_UNORDERED = (Type.JSON, Type.OTHER)
_SIDES: dict[Op, str] = {"=": "<>", "in": "<>", ">": ">", ">=": ">", "<": "<", "<=": "<"}
_TURNS: dict[Op, int] = {"=": 0, "in": 1, ">": 2, ">=": 2, "<": 3, "<=": 3}  # the surest first


@dataclass(frozen=True, slots=True)
class Lifted:
    """`keys` are columns with their values, by column name; so are `selectors`; `rest` are the other conjuncts, in
    canonical order."""

    keys: tuple[tuple[str, Value], ...]
    selectors: tuple[tuple[Selector, Value], ...]
    rest: tuple[Expr, ...]

    @property
    def asked(self) -> list[tuple[str, Op]]:
        """The columns and how they are compared, those of keys first."""
        return [*((column, "=") for column, _ in self.keys), *((one.column, one.op) for one, _ in self.selectors)]

    @property
    def values(self) -> Row:
        return (*(value for _, value in self.keys), *(value for _, value in self.selectors))


def lift(conjuncts: Iterable[Expr]) -> Lifted:
    every = canonical(conjuncts)
    found = {place: asked for place, each in enumerate(every) if (asked := list(_liftable(each)))}
    taken: set[tuple[str, str]] = set()
    lifted: list[tuple[str, Op, Value]] = []
    rest = dict(enumerate(every))
    for place, asked in sorted(found.items(), key=lambda item: _TURNS[item[1][0][1]]):
        sides = {(column, side) for column, op, _ in asked for side in _SIDES[op]}
        if taken.isdisjoint(sides):
            taken |= sides
            lifted += asked
            del rest[place]
    lifted.sort(key=lambda one: (one[0], _TURNS[one[1]]))
    keys = tuple((column, value) for column, op, value in lifted if op == "=")
    selectors = tuple((Selector(column, op), value) for column, op, value in lifted if op != "=")
    return Lifted(keys, selectors, tuple(rest.values()))


def canonical(conjuncts: Iterable[Expr]) -> list[Expr]:
    """Sorted by their text, each once: AND does not mind."""
    by_text = {_TEXT.operand(conjunct): conjunct for conjunct in conjuncts}
    return [by_text[text] for text in sorted(by_text)]


def _liftable(conjunct: Expr) -> Iterator[tuple[str, Op, Value]]:
    """What a conjunct asks, where every constant is of the column's own type."""
    found = [(ask, _values(ask)) for ask in asks(conjunct)]
    if all(values for _, values in found):
        for ask, values in found:
            alone = len(values) == 1
            op: Op = "=" if alone and ask.op == "in" else ask.op
            yield ask.column.name, op, values[0] if alone else tuple(values)


def _values(ask: Ask) -> list[Value]:
    """As the column holds them; those of a list each once, in their order and without NULL, which equals nothing.
    None where one does not fit: the column may hold other types one day."""
    if ask.op != "=" and not _is_ordered(ask):
        return []
    wanted = [value for value in ask.values if value is not None]
    held = [fitted(value, ask.column.type) for value in wanted]
    if None in held:
        return []
    by_order = {encode_value(value, collation=ask.column.collation): value for value in reversed(held)}
    return [by_order[encoded] for encoded in sorted(by_order)]


def _is_ordered(ask: Ask) -> bool:
    """Whether the order of encoded values is the order of the column."""
    return ask.column.type not in _UNORDERED and ask.column.collation in COLLATIONS


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
