"""The text of a constant: equal texts are equal values of one type."""

from __future__ import annotations

from decimal import Decimal
from math import isinf

from headwater.model.encoding.tagged_bytes import pack_number
from headwater.model.value import Type, Value

LITERALS = (None, Type.INTEGER, Type.REAL, Type.TEXT, Type.BLOB, Type.BOOLEAN)  # the types that SQL has literals for


def literal_text(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case float():
            return _real(value)
        case str():
            return _text(value)
        case bytes():
            return f"x'{value.hex()}'"
        case Decimal():
            return pack_number(value)
        case _:
            raise TypeError(f"expected a value with a literal, found {type(value).__name__}")


def _real(value: float) -> str:
    if isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return repr(value)


def _text(value: str) -> str:
    quoted = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return quoted[0] if len(quoted) == 1 else f"({' || char(0) || '.join(quoted)})"
