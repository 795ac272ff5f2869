"""Changes of a step that stay behind the end of every frame: no window shows them, so they are only counted and sorted.

The head of a group (`RankedHead`) is what its frames show, and some keys behind it. `FarChanges` finds what is behind
the head, of a whole step in columns. It compares only the first bytes of sort keys: a change whose bytes equal those of
the head's end counts as near. So it may call near what is far, never the other way round. `SkippedKeys` holds the keys
that came and went there until the sequence of their group is needed: when the head has run short. It never sees a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.engine.rows.arrays import Bools
from headwater.engine.windows.changes import Changes
from headwater.engine.windows.template_program import Projection
from headwater.engine.windows.window import WindowGroup
from headwater.model.limits import Limits

_BYTES = 16
_PAST_ALL = b"\xff" * _BYTES
_SPARE = 32
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

    def near(self, start: int, stop: int, key: bytes) -> Bools:
        """Which of these changes are not past the key."""
        near: Bools = self._low[start:stop] <= key[:_BYTES]
        return near

    def until(self, start: int, key: bytes) -> int:
        """The first change from `start` on that is not past the key; how many there are if all are."""
        count = _AHEAD
        while start < len(self._low):
            near = np.flatnonzero(self._low[start : start + count] <= key[:_BYTES])
            if len(near):
                return start + int(near[0])
            start, count = start + count, count * 4
        return len(self._low)


@dataclass(slots=True)
class RankedHead:
    """The sequence of a group is right up to the key `end`, with `spare` keys more than any frame shows."""

    end: bytes
    spare: int


@dataclass(slots=True)
class SkippedKeys:
    """`fails`: whether the evaluation of a row of the step fails."""

    limits: Limits
    fails: bool
    _heads: dict[WindowGroup, RankedHead | None] = field(default_factory=dict)
    _skipped: dict[WindowGroup, tuple[set[bytes], set[bytes]]] = field(default_factory=dict)  # keys that go, that come

    def head(self, group: WindowGroup) -> RankedHead | None:
        """None where a frame is not full, or where a row fails."""
        if group not in self._heads:
            self._heads[group] = self._new_head(group)
        return self._heads[group]

    def _new_head(self, group: WindowGroup) -> RankedHead | None:
        ranked, shown = group.ranked, max((window.frame.end for window in group.windows), default=0)
        if ranked is None or group.failed or self.fails or not 0 < shown <= len(ranked):
            return None
        spare = min(_SPARE, len(ranked) - shown)
        return RankedHead(ranked.select(shown + spare - 1), spare)

    def takes(self, group: WindowGroup, head: RankedHead, more: int, gone: list[bytes], came: list[bytes]) -> bool:
        """Whether the rest of a transaction, which is behind the head, may be skipped, when the head gets so many rows
        more. False where it would run short, or where the group may outgrow its limit."""
        if head.spare + more < 0 or group.size + more + len(came) - len(gone) > self.limits.ranked_rows_max:
            return False
        head.spare += more
        self.skip(group, gone, came)
        return True

    def skip(self, group: WindowGroup, gone: list[bytes], came: list[bytes]) -> None:
        if not gone and not came:
            return
        group.size += len(came) - len(gone)
        going, coming = self._skipped.setdefault(group, (set(), set()))
        leave, enter = settled(gone, came)
        back, again = leave & coming, enter & going
        coming ^= back | (enter - again)
        going ^= again | (leave - back)

    def exchange(self, group: WindowGroup) -> None:
        """Moves the skipped keys into the sequence of their group."""
        self._heads.pop(group, None)
        if group.ranked is not None and group in self._skipped:
            group.ranked.exchange(*self._skipped.pop(group))

    def exchange_all(self) -> None:
        for group in list(self._skipped):
            self.exchange(group)
