"""A Python value as SQLite would bind it to a parameter."""

from __future__ import annotations

from math import isnan
from typing import Any

from headwater.model.errors import SqlError
from headwater.model.value import INTEGER_MAX, INTEGER_MIN, Value
from headwater.sql.syntax.span import Span


def to_value(given: Any, sql: str = "", at: Span | None = None) -> Value:
    """A bool is an integer, NaN is NULL."""
    match given:
        case None:
            return None
        case bool():
            return int(given)
        case int() if INTEGER_MIN <= given <= INTEGER_MAX:
            return given
        case float():
            return None if isnan(given) else float(given)
        case str() if _is_unicode(given):
            return str(given)
        case bytes() | bytearray() | memoryview():
            return bytes(given)
        case int():
            raise SqlError("expected an integer of 64 bits, found a larger one", sql=sql, at=at)
        case str():
            raise SqlError("expected text, found a lone surrogate in it", sql=sql, at=at)
        case _:
            raise SqlError(
                f"expected None, bool, int, float, str or bytes, found {type(given).__name__}",
                sql=sql,
                at=at,
                hint="convert it to what the column holds, such as text for dates and decimals",
            )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
