"""Far: which changes of a step stay past a sort key, looked at in columns.

Only the first bytes of the keys are compared: a change whose bytes are those of the key itself counts as near. So it
may call near what is far, never the other way round. It never sees a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.engine.windows.pairs import Changes
from headwater.engine.windows.template_program import Projection

_BYTES = 16
_PAST_ALL = b"\xff" * _BYTES
_AHEAD = 64  # changes looked at first: few where the next near one is close


def settled(gone: Sequence[bytes], came: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
    """A key comes and goes by turns: what it did more often is what it did in the end. The keys that left, and those
    that entered."""
    left, entered = set(gone), set(came)
    if len(left) == len(gone) and len(entered) == len(came):
        return left - entered, entered - left
    times = Counter(came)
    times.subtract(gone)
    return {key for key, net in times.items() if net < 0}, {key for key, net in times.items() if net > 0}


class FarChanges:
    """`low` is, of each change, the smaller of its sort keys before and after, as far as it is looked at."""

    def __init__(self, changes: Changes, seen: Projection) -> None:
        keys = np.array([*seen.keys, _PAST_ALL], f"S{_BYTES}")
        old, new = (keys[np.where(rows < 0, -1, seen.place[rows])] for rows in (changes.old, changes.new))
        self._low: npt.NDArray[Any] = np.where(old < new, old, new)

    def until(self, start: int, key: bytes) -> int:
        """The first change from `start` on that is not past the key; how many there are if all are."""
        count = _AHEAD
        while start < len(self._low):
            near = np.flatnonzero(self._low[start : start + count] <= key[:_BYTES])
            if len(near):
                return start + int(near[0])
            start, count = start + count, count * 4
        return len(self._low)
