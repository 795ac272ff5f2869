"""SQLite's literals and affinity: constants read, written and converted by SQLite itself, so that no digit differs.

The database asked is an empty one in memory. Never touches data of a source.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Context, Decimal
from functools import lru_cache
from math import inf, isinf, nextafter

from headwater.dialects.sqlite.affinity import NUMERIC_AFFINITIES, Affinity
from headwater.model.value import Value
from headwater.sql.ir.constant_text import literal_text


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
    # To a cache 0.0 and -0.0 are one.
    return _write_real(value) if isinstance(value, float) and value else literal_text(value)


@lru_cache(maxsize=4096)
def _write_real(value: float) -> str:
    return literal_text(value) if isinf(value) else next(text for text in _spellings(value) if evaluate(text) == value)


def _spellings(value: float) -> Iterator[str]:
    """Decimal texts at or very near `value`: SQLite's reader is not always correctly rounded, so the first may miss."""
    yield literal_text(value)
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


def with_affinity(value: Value, affinity: Affinity) -> Value:
    """What a value becomes before it is compared with an operand of that affinity."""
    if isinstance(value, str) and affinity in NUMERIC_AFFINITIES and _NUMBER.fullmatch(value):
        return evaluate(f"CAST({write(value)} AS NUMERIC)")
    if isinstance(value, int | float) and affinity is Affinity.TEXT:
        return evaluate(f"CAST({write(value)} AS TEXT)")
    return value
