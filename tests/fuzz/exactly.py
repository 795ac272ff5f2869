"""sum, total and avg for SQLite, exact and rounded once: what docs/sql.md says of ours.

SQLite's own last digits depend on the order in which it adds, and so does whether INTEGERs overflow on the way.
"""

from __future__ import annotations

import re
import sqlite3
from fractions import Fraction
from typing import Any

from headwater.model.value import Value

_INTEGERS = range(-(2**63), 2**63)
_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]{1,18}[ \t\n\v\f\r]*")


class _Added:
    """The values that are no NULL; `real` when one of them is no INTEGER."""

    def __init__(self) -> None:
        self.count, self.total, self.real = 0, Fraction(0), False

    def step(self, value: int | float | str | bytes | None) -> None:
        if value is None:
            return
        number = value if isinstance(value, int | float) else _number(value)
        self.count += 1
        self.total += Fraction(number)
        self.real = self.real or not isinstance(number, int)


class _Sum(_Added):
    def finalize(self) -> Value:
        if not self.count or self.real:
            return float(self.total) if self.count else None
        if int(self.total) not in _INTEGERS:
            raise ArithmeticError  # OverflowError has a meaning of its own to sqlite3
        return int(self.total)


class _Total(_Added):
    def finalize(self) -> Value:
        return float(self.total)


class _Avg(_Added):
    def finalize(self) -> Value:
        return float(self.total) / self.count if self.count else None


_AGGREGATES: dict[str, Any] = {"sum": _Sum, "total": _Total, "avg": _Avg}


def _number(value: str | bytes) -> int | float:
    """As SQLite takes it: an INTEGER where all of it looks like one, else a REAL of what it begins with."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    [[number]] = _memory.execute("SELECT CAST(? AS REAL)", (value,))
    return float(number)


_memory = sqlite3.connect(":memory:", check_same_thread=False)


def add_exactly(connection: sqlite3.Connection) -> None:
    for name, aggregate in _AGGREGATES.items():
        connection.create_aggregate(name, 1, aggregate)
