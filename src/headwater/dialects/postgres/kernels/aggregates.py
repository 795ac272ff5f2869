"""Sums and averages on PostgreSQL: of numbers of any size, exactly, and of doubles, rounded once at the end.

A sum shows as many digits behind the point as the value that shows most. PostgreSQL adds doubles in the order of its
scan, so that the last digits of its own sum are open; ours are those of the exact one. Values come and go, in any
order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

from headwater.dialects.postgres.kernels.numeric import EXACT, NAN, checked, divided, scale_of
from headwater.model.encoding.tagged_bytes import pack_number
from headwater.model.value import INTEGER_MAX, INTEGER_MIN, Value
from headwater.sql.evaluation import INTEGER_OVERFLOW, EvaluationError

_BITS = 1074  # the smallest double is 2**-1074
_INFINITY = Decimal("Infinity")


class IntegerSum:
    """sum of integers that is a bigint. It is saved in the form of a sum that may hold doubles too."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = self.total = 0

    def add(self, value: Any, weight: int) -> None:
        if value is not None:
            self.count += weight
            self.total += value * weight

    def result(self) -> Value:
        if not self.count:
            return None
        if not INTEGER_MIN <= self.total <= INTEGER_MAX:
            raise EvaluationError(INTEGER_OVERFLOW)
        return self.total

    def dump(self) -> Any:
        return [self.count, 0, 0, 0, str(self.total), "0"]

    def load(self, dumped: Any) -> None:
        self.count, self.total = dumped[0], int(dumped[4])


class NumericSum:
    """sum and avg that are numeric. `scales`: how many values show how many digits."""

    __slots__ = ("average", "count", "nans", "negative", "positive", "scales", "total")

    def __init__(self, average: bool) -> None:
        self.average = average
        self.count = self.nans = self.positive = self.negative = 0
        self.total = Decimal(0)
        self.scales: Counter[int] = Counter()

    def add(self, value: Any, weight: int) -> None:
        if value is None:
            return
        self.count += weight
        number = value if isinstance(value, Decimal) else Decimal(value)
        if number.is_finite():
            self.total = EXACT.fma(number, weight, self.total)
            self._show(scale_of(number), weight)
        elif number.is_nan():
            self.nans += weight
        else:
            self.positive += weight if number > 0 else 0
            self.negative += weight if number < 0 else 0

    def add_all(self, values: Sequence[Any]) -> None:
        """As `add` of each, once."""
        numbers = [value for value in values if value is not None]
        total = reduce(EXACT.add, numbers, self.total)
        alike = isinstance(numbers[0], Decimal) and all(map(numbers[0].same_quantum, numbers)) if numbers else False
        if not alike or not total.is_finite():
            for value in numbers:
                self.add(value, 1)
            return
        self.count += len(numbers)
        self.total = total
        self._show(scale_of(numbers[0]), len(numbers))

    def _show(self, scale: int, weight: int) -> None:
        self.scales[scale] += weight
        if not self.scales[scale]:
            del self.scales[scale]

    def _sum(self) -> Decimal:
        if self.nans or (self.positive and self.negative):
            return NAN
        if self.positive or self.negative:
            return _INFINITY if self.positive else -_INFINITY
        scale = max(self.scales, default=0)
        return checked(self.total.quantize(Decimal((0, (1,), -scale)), context=EXACT))

    def result(self) -> Value:
        if not self.count:
            return None
        return divided(self._sum(), Decimal(self.count)) if self.average else self._sum()

    def dump(self) -> Any:
        numbers = [self.count, self.nans, self.positive, self.negative]
        return [*numbers, pack_number(self.total), [[scale, weight] for scale, weight in self.scales.items()]]

    def load(self, dumped: Any) -> None:
        self.count, self.nans, self.positive, self.negative = dumped[:4]
        self.total = Decimal(dumped[4])
        self.scales = Counter(dict(dumped[5]))


class RealSum:
    """sum and avg of doubles: one integer of the smallest double's size. `signed` are the zeros with a minus."""

    __slots__ = ("average", "count", "nans", "negative", "positive", "signed", "units")

    def __init__(self, average: bool) -> None:
        self.average = average
        self.count = self.nans = self.positive = self.negative = self.signed = self.units = 0

    def add(self, value: Any, weight: int) -> None:
        if value is None:
            return
        self.count += weight
        if math.isfinite(value):
            above, below = value.as_integer_ratio()
            self.units += weight * (above << (_BITS + 1 - below.bit_length()))
            self.signed += weight if not above and math.copysign(1.0, value) < 0 else 0
        elif math.isnan(value):
            self.nans += weight
        else:
            self.positive += weight if value > 0 else 0
            self.negative += weight if value < 0 else 0

    def result(self) -> Value:
        if not self.count:
            return None
        if self.nans or (self.positive and self.negative):
            return math.nan
        if self.positive or self.negative:
            return math.inf if self.positive else -math.inf
        if self.signed == self.count and not self.average:
            return -0.0
        return self._rounded() / self.count if self.average else self._rounded()

    def _rounded(self) -> float:
        try:
            return self.units / (1 << _BITS)
        except OverflowError:
            raise EvaluationError("value out of range: overflow") from None

    def dump(self) -> Any:
        return [self.count, self.nans, self.positive, self.negative, self.signed, str(self.units)]

    def load(self, dumped: Any) -> None:
        self.count, self.nans, self.positive, self.negative, self.signed = dumped[:5]
        self.units = int(dumped[5])


class Truths:
    """bool_and and bool_or: how many values are true, and how many are not."""

    __slots__ = ("all", "false", "true")

    def __init__(self, all: bool) -> None:
        self.all = all
        self.true = self.false = 0

    def add(self, value: Any, weight: int) -> None:
        if value is not None:
            self.true += weight if value else 0
            self.false += 0 if value else weight

    def result(self) -> Value:
        if not (self.true or self.false):
            return None
        return not self.false if self.all else bool(self.true)

    def dump(self) -> Any:
        return [self.true, self.false]

    def load(self, dumped: Any) -> None:
        self.true, self.false = dumped
