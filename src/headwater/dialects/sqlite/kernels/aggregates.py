"""sum, total and avg on SQLite. Values come and go, in any order and number.

Sums of REALs are kept exactly, as one integer of the smallest double's size, and rounded once: taking a value back
leaves no trace. SQLite 3.40 adds doubles one after the other, so its own result is off ours by its rounding: at most
about n · 2⁻⁵³ · Σ|x|. Integers are exact in both.
"""

from __future__ import annotations

import functools
import math
import sqlite3
from collections.abc import Callable
from typing import Any

from headwater.model.value import INTEGER_MAX, INTEGER_MIN, Value
from headwater.sql.evaluation import INTEGER_OVERFLOW, EvaluationError

_BITS = 1074  # the smallest double is 2**-1074
_UNIT = 1 << _BITS


class Sum:
    """sum, total and avg."""

    __slots__ = ("count", "finish", "integers", "negative", "positive", "reals", "units")

    def __init__(self, finish: Callable[[Sum], Value]) -> None:
        self.finish = finish
        self.count = self.reals = self.integers = self.units = self.positive = self.negative = 0

    def add(self, value: Any, weight: int) -> None:
        if value is None:
            return
        self.count += weight
        if value.__class__ is not int and value.__class__ is not float:
            value = _number(value)
        if value.__class__ is int:
            self.integers += value * weight
            return
        self.reals += weight
        if math.isinf(value):
            self.positive += weight if value > 0 else 0
            self.negative += weight if value < 0 else 0
        else:
            numerator, denominator = value.as_integer_ratio()
            self.units += weight * (numerator << (_BITS + 1 - denominator.bit_length()))

    def real(self) -> float | None:
        """None is NaN, which SQLite makes NULL."""
        if self.positive or self.negative:
            return None if self.positive and self.negative else math.copysign(math.inf, self.positive - 0.5)
        try:
            return (self.units + (self.integers << _BITS)) / _UNIT if self.reals else float(self.integers)
        except OverflowError:
            return math.copysign(math.inf, self.units + (self.integers << _BITS))

    def result(self) -> Value:
        return self.finish(self)

    def dump(self) -> Any:
        large = [str(each) for each in (self.integers, self.units)]
        return [self.count, self.reals, self.positive, self.negative, *large]

    def load(self, dumped: Any) -> None:
        self.count, self.reals, self.positive, self.negative = dumped[:4]
        self.integers, self.units = int(dumped[4]), int(dumped[5])


def _sum(of: Sum) -> Value:
    if not of.count:
        return None
    if of.reals:
        return of.real()
    if not INTEGER_MIN <= of.integers <= INTEGER_MAX:
        raise EvaluationError(INTEGER_OVERFLOW)
    return of.integers


def _total(of: Sum) -> Value:
    return of.real()


def _avg(of: Sum) -> Value:
    real = of.real() if of.count else None
    return None if real is None else real / of.count


FINISHES: dict[str, Callable[[Sum], Value]] = {"sum": _sum, "total": _total, "avg": _avg}


@functools.lru_cache(maxsize=4096)
def _number(value: str | bytes) -> int | float:
    """What sum makes of a text or a blob, by SQLite itself."""
    with sqlite3.connect(":memory:") as connection:
        number: int | float = connection.execute("SELECT sum(?)", (value,)).fetchone()[0]
    connection.close()
    return number
