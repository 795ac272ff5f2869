"""OrderedKeysHead: the first keys of a part of `OrderedKeys`, as many as the reader needs and some to spare.

A change behind the head costs its entry in `OrderedKeys` and nothing else. A head that runs short reads the next keys.
How many keys it holds never shows: the reader gets what the whole part in order would give.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice

from headwater.engine.state.ordered_keys import OrderedKeysPart, Times

_SPARE = 32
_TRIM = 8  # times as many as are read at once, and the rest is forgotten


class OrderedKeysHead:
    """`rows`: how many there are in the keys it knows, each counted as often as it is there."""

    __slots__ = ("_keys", "_need", "_part", "_times", "_upto", "_whole", "rows")

    def __init__(self, part: OrderedKeysPart, need: int, *, new: bool = False) -> None:
        """`need`: so many rows are looked at. `new`: the part has no keys yet."""
        self._part, self._need = part, need
        self._keys: list[bytes] = []
        self._times: dict[bytes, int] = {}
        self._upto = b""  # it knows all keys up to here
        self._whole = new  # it knows all keys
        self.rows = 0
        self.fill()

    def __len__(self) -> int:
        """How many keys it knows."""
        return len(self._keys)

    def __iter__(self) -> Iterator[Times]:
        """The keys it knows, in order."""
        return ((key, self._times[key]) for key in self._keys)

    def change(self, key: bytes, weight: int) -> None:
        """`fill` before anybody looks again."""
        self._part.add(key, weight)
        if not self._whole and key > self._upto:
            return
        had = self._times.get(key, 0)
        self.rows += weight
        if had + weight:
            self._times[key] = had + weight
            if not had:
                insort(self._keys, key)
                self._trim()
        else:
            del self._times[key], self._keys[bisect_left(self._keys, key)]

    def fill(self) -> None:
        """Knows as many rows as are looked at, if there are so many."""
        more = self._need + _SPARE
        while self.rows < self._need and not self._whole:
            found = list(islice(self._part.behind(self._upto), more))
            self._whole = len(found) < more
            self._keys += [key for key, _ in found]
            self._times.update(found)
            self.rows += sum(times for _, times in found)
            self._upto = found[-1][0] if found else self._upto

    def _trim(self) -> None:
        more = self._need + _SPARE
        if len(self._keys) > _TRIM * more:
            for key in self._keys[2 * more :]:
                self.rows -= self._times.pop(key)
            del self._keys[2 * more :]
            self._upto, self._whole = self._keys[-1], False
