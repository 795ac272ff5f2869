"""Positions at which somebody reads rows of a table. No two transactions are told as one across such a position.

Without a WAL nothing tells where one transaction ends and the next begins, so what was committed between two looks is
told as one. Rows that were read in between already hold a part of it: told as one, that part would come twice.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort


class Boundaries:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._positions: list[int] = []  # ascending
        self.looked = 0  # up to where transactions have been read, so far

    def add(self, position: int) -> bool:
        """By a reader at the position, before it reads. False where somebody has looked past it: to be read anew."""
        with self._lock:
            if position < self.looked:
                return False
            insort(self._positions, position)
            return True

    def look(self, upto: int) -> None:
        """By whoever tells transactions, from within the read that shows them, before asking for `between`."""
        with self._lock:
            self.looked = max(self.looked, upto)

    def between(self, after: int, upto: int) -> list[int]:
        with self._lock:
            return self._positions[bisect_right(self._positions, after) : bisect_right(self._positions, upto)]

    def forget(self, position: int) -> None:
        """What is before the position is not told again."""
        with self._lock:
            del self._positions[: bisect_left(self._positions, position)]
