"""Ordered: sort keys in blocks. It gives the first of them in order and never says at which place a key stands.

Cheaper than `engine.order.Ranked`, which knows places: a frame near the beginning needs none.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

_BLOCK_MAX = 1024


class Ordered:
    """Distinct keys."""

    __slots__ = ("_blocks", "_lasts")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        ordered = sorted(keys)
        half = _BLOCK_MAX // 2
        self._blocks = [ordered[at : at + half] for at in range(0, len(ordered), half)]
        self._lasts = [block[-1] for block in self._blocks]

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def insert(self, key: bytes) -> None:
        if not self._blocks:
            self._blocks, self._lasts = [[key]], [key]
            return
        at = min(bisect_left(self._lasts, key), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, key)
        if len(block) > _BLOCK_MAX:
            half = len(block) // 2
            self._blocks[at : at + 1] = [block[:half], block[half:]]
            self._lasts[at : at + 1] = [block[half - 1], block[-1]]
        else:
            self._lasts[at] = block[-1]

    def remove(self, key: bytes) -> None:
        at = bisect_left(self._lasts, key)
        block = self._blocks[at]
        place = bisect_left(block, key)
        assert block[place] == key, "a row left that was never there"
        del block[place]
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]

    def slice(self, start: int, end: int) -> list[bytes]:
        """The keys at places [start, end), as far as there are any; found from the beginning."""
        out: list[bytes] = []
        for block in self._blocks:
            if end <= 0:
                break
            out += block[max(start, 0) : end]
            start, end = start - len(block), end - len(block)
        return out
