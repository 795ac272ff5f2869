"""The keys that changed since a window was last answered, as values to query the source for. It is bounded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from headwater.model.value import Row

Wanted = dict[int, list[Row]]


class DirtyKeys:
    """Values to ask for, each with the first and the last position that touched it since it was answered."""

    __slots__ = ("_keys_max", "_spans", "_whole_at")

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._spans: dict[tuple[int, Row], tuple[int, int]] = {}
        self._whole_at = -1  # the last change that has no values to ask for

    def __bool__(self) -> bool:
        return bool(self._spans) or self.needs_whole

    @property
    def needs_whole(self) -> bool:
        return self._whole_at >= 0

    def note(self, position: int, wanted: Iterable[tuple[int, Row]]) -> None:
        """One more change. Too many of them are not worth their list."""
        if self.needs_whole:
            self._whole_at = position
            return
        for one in wanted:
            first, _ = self._spans.get(one, (position, position))
            self._spans[one] = first, position
        if len(self._spans) > self._keys_max:
            self.note_whole(position)

    def note_whole(self, position: int) -> None:
        self._whole_at = position
        self._spans.clear()

    def upto(self, position: int) -> Wanted:
        wanted = defaultdict[int, list[Row]](list)
        for (ask, values), (first, _) in self._spans.items():
            if first <= position:
                wanted[ask].append(values)
        return dict(wanted)

    def answered(self, position: int) -> None:
        """What was touched up to here is right by now."""
        self._spans = {
            one: (max(first, position + 1), last) for one, (first, last) in self._spans.items() if last > position
        }
        if self._whole_at <= position:
            self._whole_at = -1
