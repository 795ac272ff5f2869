"""json and jsonb of PostgreSQL: which parts of a document and which questions about it we know. Binds, never evaluates.

Paths and keys are constants. What is taken as text has the collation of the database.
"""

from __future__ import annotations

import json
import re
from typing import Any

from headwater.dialects.postgres.literals.array_text import items_of
from headwater.dialects.postgres.types.kind import DEFAULT, JSON, JSONB, TEXT, UNKNOWN, is_integer, kind_of_type
from headwater.dialects.postgres.types.kinds import BOOLEAN, kind_of
from headwater.model.value import Type
from headwater.sql.ir.expr import Call, Cast, Const, Expr

DOCUMENTS = (JSON, JSONB)
PARTS = ("->", "->>", "#>", "#>>")
QUESTIONS = ("@>", "<@", "?")


def part(sign: str, document: Expr, place: Expr) -> Expr | None:
    """None where it is none that we know."""
    own, step = kind_of(document), _step(sign, place)
    if own not in DOCUMENTS or step is None:
        return None
    how, constant = step
    if sign.endswith(">>"):
        return Cast(Call(f"text {own.base}{sign}{how}", (document, constant), Type.TEXT), DEFAULT, Type.TEXT)
    return Call(f"{own.base} {own.base}{sign}{how}", (document, constant), Type.JSON)


def _step(sign: str, place: Expr) -> tuple[str, Const] | None:
    if isinstance(place, Const) and isinstance(place.value, int) and is_integer(kind_of(place)):
        return ("int4", place) if sign in ("->", "->>") else None
    text = literal_text(place)
    if text is None or sign in ("->", "->>"):
        return None if text is None else ("text", Const(text, Type.TEXT))
    path = items_of(text)
    return None if path is None else ("path", Const(tuple(path), Type.OTHER))


def question(sign: str, one: Expr, other: Expr) -> Expr | None:
    if sign == "?":
        text = literal_text(other)
        known = kind_of(one) == JSONB and text is not None
        return Call("bool jsonb?text", (one, Const(text, Type.TEXT)), BOOLEAN) if known else None
    alike = sign in QUESTIONS and kind_of(one) == kind_of(other) == JSONB
    return Call(f"bool jsonb{sign}jsonb", (one, other), BOOLEAN) if alike else None


def literal_text(expr: Expr) -> str | None:
    constant = expr.arg if isinstance(expr, Cast) and kind_of_type(expr.sql_type) in (UNKNOWN, TEXT) else expr
    return constant.value if isinstance(constant, Const) and isinstance(constant.value, str) else None


def canonical(text: str) -> str | None:
    """A jsonb literal as PostgreSQL would write it: keys by length, then by bytes, the last of each. None where it has
    a number that is written otherwise than jsonb writes it. Raises `ValueError` where it is no JSON."""
    value = json.loads(text, parse_int=_Digits, parse_float=_Digits)
    numbers = list(_numbers(value))
    return _written(value) if all(_PLAIN_NUMBER.fullmatch(number) for number in numbers) else None


class _Digits(str):
    """A number as it is written."""

    __slots__ = ()


_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


def _numbers(value: Any) -> list[str]:
    if isinstance(value, _Digits):
        return ["-0e0" if re.fullmatch(r"-0(\.0*)?", value) else value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [number for each in inner for number in _numbers(each)]


def _written(value: Any) -> str:
    match value:
        case _Digits():
            return str(value)
        case dict():
            keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
            return "{" + ", ".join(f"{_written(key)}: {_written(value[key])}" for key in keys) + "}"
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
