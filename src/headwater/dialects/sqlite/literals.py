"""SQLite's literals and affinity: constants read, written and converted by SQLite itself, so that no digit differs.

The database asked is an empty one in memory. Never touches data of an origin.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Context, Decimal
from functools import lru_cache
from math import inf, isinf, nextafter

from headwater.model.encoding.tagged_bytes import pack_number
from headwater.model.value import Type, Value

WRITTEN = (None, Type.INTEGER, Type.REAL, Type.TEXT, Type.BLOB, Type.BOOLEAN)  # the types of what `write` takes


@lru_cache(maxsize=4096)
def evaluate(text: str) -> Value:
    """The value of a constant expression. Raises `sqlite3.Error` as SQLite does."""
    with closing(sqlite3.connect(":memory:")) as memory:
        value: Value = memory.execute(f"SELECT {text}").fetchone()[0]
    return value


def read_number(text: str) -> Value:
    """A numeric literal; beyond 64 bits it is REAL. Raises `sqlite3.Error` where it is none."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return evaluate(text)


def write(value: Value) -> str:
    """The text of a constant: reading it gives the same value of the same type."""
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case 0.0:
            return repr(value)  # to a cache 0.0 and -0.0 are one
        case float():
            return _write_real(value)
        case str():
            return _write_text(value)
        case bytes():
            return f"x'{value.hex()}'"
        case Decimal():
            return pack_number(value)  # SQLite has none; where its text only tells constants apart
        case _:
            raise TypeError(f"SQLite has no {type(value).__name__}")


def _write_text(value: str) -> str:
    quoted = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return quoted[0] if len(quoted) == 1 else f"({' || char(0) || '.join(quoted)})"


@lru_cache(maxsize=4096)
def _write_real(value: float) -> str:
    if isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return next(text for text in _spellings(value) if evaluate(text) == value)


def _spellings(value: float) -> Iterator[str]:
    """Decimal texts at or very near `value`: SQLite's reader is not always correctly rounded, so the first may miss."""
    yield repr(value) if "." in repr(value) or "e" in repr(value) else f"{value!r}.0"
    exact, step = Decimal(value), Decimal(nextafter(value, inf)) - Decimal(value)
    for eighths in (0, 1, -1, 2, -2, 3, -3, 4, -4):
        yield f"{Context(prec=17).create_decimal(exact + step * eighths / 8):.16e}"
    yield _as_product(value)


def _as_product(value: float) -> str:
    """The last resort: an integer below 2^53, halved or doubled. Every step is exact."""
    above, below = value.as_integer_ratio()
    shift = max(abs(above).bit_length() - 53, 0)
    halvings, doublings = below.bit_length() - 1, shift
    factors = [f" * {1 << min(30, doublings - n)}.0" for n in range(0, doublings, 30)]
    factors += [f" / {1 << min(30, halvings - n)}.0" for n in range(0, halvings, 30)]
    return f"({above >> shift}.0{''.join(factors)})"


_NUMBER = re.compile(r"[ \t\n\v\f\r]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t\n\v\f\r]*", re.ASCII)


def with_affinity(value: Value, affinity: str) -> Value:
    """What a value becomes before it is compared with an operand of that affinity."""
    if isinstance(value, str) and affinity in ("INTEGER", "REAL", "NUMERIC") and _NUMBER.fullmatch(value):
        return evaluate(f"CAST({write(value)} AS NUMERIC)")
    if isinstance(value, int | float) and affinity == "TEXT":
        return evaluate(f"CAST({write(value)} AS TEXT)")
    return value
