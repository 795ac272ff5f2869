"""Arrays of PostgreSQL: constants, single elements, and what is asked of them. Binds, never evaluates.

Of one type of element on both sides, of which equal values look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.dialects.postgres.literals.array_text import items_of
from headwater.dialects.postgres.types.kind import (
    INT2,
    INT4,
    TEXT,
    PostgresKind,
    element_of,
    is_array,
    is_element,
    is_integer,
    is_text,
)
from headwater.dialects.postgres.types.kinds import BOOLEAN, common_kind, kind_of, type_of_kind
from headwater.model.value import Type, Value
from headwater.sql.ir.expr import Call, Cast, Const, Expr

QUESTIONS = ("@>", "<@", "&&")
Read = Callable[[str], Expr]


def constant(items: Sequence[Expr], kind: PostgresKind) -> Expr | None:
    """An array of constants; None where one of them must be computed, or there is none of that kind."""
    if not is_element(kind) or not all(isinstance(item, Const) for item in items):
        return None
    values: tuple[Value, ...] = tuple(item.value for item in items if isinstance(item, Const))
    return Cast(Const(values, Type.OTHER), PostgresKind("array", element=kind), Type.OTHER)


def read(text: str, kind: PostgresKind, element: Read) -> Expr | None:
    """An array's text, whose items `element` reads; None where its form is not known here."""
    items = items_of(text)
    if items is None:
        return None
    return constant([Const(None, None) if item is None else element(item) for item in items], element_of(kind))


def alike(one: Expr, other: Expr) -> tuple[Expr, Expr]:
    """A constant array of texts has the collation of the other side."""
    kinds = kind_of(one), kind_of(other)
    if kinds[0] == kinds[1] or not all(is_array(kind) and is_text(element_of(kind)) for kind in kinds):
        return one, other
    sides = (replace(side, sql_type=max(kinds, key=str)) if isinstance(side, Cast) else side for side in (one, other))
    left, right = sides
    return left, right


def membership(needle: Expr, array: Expr) -> Expr | None:
    """`needle = ANY (array)`."""
    kind, own = kind_of(array), kind_of(needle)
    if not is_array(kind) or not _meet(own, element_of(kind)):
        return None
    return Call(f"bool any {element_of(kind).base}", (needle, array), BOOLEAN)


def _meet(kind: PostgresKind, element: PostgresKind) -> bool:
    if is_integer(kind) and is_integer(element):
        return True
    return kind == element or (is_text(kind) and is_text(element) and TEXT in (kind, element))


def subscript(array: Expr, place: Expr) -> Expr | None:
    kind = kind_of(array)
    if not is_array(kind) or not is_element(element_of(kind)) or kind_of(place) not in (INT2, INT4):
        return None
    element = element_of(kind)
    call = Call(f"{element.base} []", (array, place), type_of_kind(element))
    return Cast(call, element, Type.TEXT) if is_text(element) else call


def question(sign: str, one: Expr, other: Expr) -> Expr | None:
    kind = common_kind([one, other])
    known = kind is not None and sign in QUESTIONS and is_array(kind) and is_element(element_of(kind))
    return Call(f"bool array{sign}array", (one, other), BOOLEAN) if known else None
