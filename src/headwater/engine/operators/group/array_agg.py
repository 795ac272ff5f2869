"""array_agg: the values that a group collects. Values come and go, in any order and number."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, TypeVar

from headwater.model.value import Value, unpack_any

T = TypeVar("T", bound=tuple[Any, ...])


class Collected:
    """(place in the order, value) of each, NULLs too. With DISTINCT each place counts once."""

    __slots__ = ("distinct", "there", "weights")

    def __init__(self, distinct: bool) -> None:
        self.distinct = distinct
        self.there: list[tuple[bytes, bytes]] = []
        self.weights: dict[tuple[bytes, bytes], int] = {}

    def add(self, value: Any, weight: int) -> None:
        weigh(self.there, self.weights, value, weight)

    def result(self) -> Value:
        values: list[Value] = []
        for entry in self.there:
            values += [unpack_any(entry[1] or None)] * (1 if self.distinct else self.weights[entry])
        return tuple(values) or None

    def dump(self) -> Any:
        return [[*entry, self.weights[entry]] for entry in self.there]

    def load(self, dumped: Any) -> None:
        for place, packed, weight in dumped:
            self.add((place, packed), weight)


def weigh(there: list[T], weights: dict[T, int], value: T, weight: int) -> None:
    """Values in order, and how often each is there: one more of them, or one less."""
    total = weights.get(value, 0) + weight
    if value not in weights:
        insort(there, value)
    weights[value] = total
    if not total:
        del weights[value]
        del there[bisect_left(there, value)]
