"""Slots: records of numbers in one array; a record keeps its place, and a freed place is used again.

A step reads from it at once what it must know of a hundred thousand windows. It never knows what the numbers mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Slots:
    """Slots of `dtype`; `records` is replaced when it grows, so nobody keeps it."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.records: npt.NDArray[Any] = np.zeros(1, dtype)
        self._free: list[int] = []
        self._taken = 0

    def __len__(self) -> int:
        return self._taken - len(self._free)

    def take(self, record: tuple[object, ...]) -> int:
        if self._free:
            slot = self._free.pop()
        else:
            slot, self._taken = self._taken, self._taken + 1
            if slot == len(self.records):
                self.records = np.concatenate((self.records, np.zeros_like(self.records)))
        self.records[slot] = record
        return slot

    def give(self, slot: int) -> None:
        self.records[slot] = np.zeros((), self.records.dtype)
        self._free.append(slot)
        if len(self._free) == self._taken:
            self.records, self._free, self._taken = self.records[:1].copy(), [], 0
