"""Deadlines: finds the keys that are due without looking at the others. It reads no clock."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
_STALE_MIN = 64


class Deadlines(Generic[Key]):
    """A key has one deadline. What was dropped or put off stays in the heap until it is met, or until such are most."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._number = count()

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: object) -> bool:
        return key in self._at

    def __iter__(self) -> Iterator[Key]:
        return iter(self._at)

    def set(self, key: Key, at: float) -> None:
        self._at[key] = at
        heappush(self._heap, (at, next(self._number), key))
        self._tidy()

    def drop(self, key: Key) -> None:
        self._at.pop(key, None)
        self._tidy()

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._at) + _STALE_MIN:
            self._heap = [(at, next(self._number), each) for each, at in self._at.items()]
            self._heap.sort()

    def due(self, now: float) -> list[Key]:
        """Those whose time has come; they are dropped."""
        found: list[Key] = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                found.append(key)
        if not self._at:
            self._at, self._heap = {}, []  # without the room for those that were there
        return found
