"""How many records a cell takes in one step: few at first, more while steps are fast, fewer after a slow one.

It does not change what is emitted (law 13), only how soon a part of a backlog is emitted.
"""

from __future__ import annotations

from headwater.model.limits import Limits

_FIRST = 1 / 64  # of the most


class Pace:
    def __init__(self, limits: Limits) -> None:
        self._limits, self._share = limits, _FIRST

    @property
    def records_max(self) -> int:
        return max(1, int(self._share * self._limits.step_records_max))

    @property
    def bytes_max(self) -> int:
        return max(1, int(self._share * self._limits.step_bytes_max))

    def rested(self) -> None:
        """Nothing waits. What comes next may be of another kind than what was quick before."""
        self._share = min(self._share, _FIRST)

    def took(self, records: int, size: int, seconds: float) -> None:
        """A step is over. One that was not full says nothing of larger ones."""
        longest_s = self._limits.step_ms_max / 1000
        if seconds > longest_s:
            self._share = max(1 / self._limits.step_records_max, self._share * longest_s / seconds)
        elif seconds < longest_s / 2 and (records >= self.records_max or size >= self.bytes_max):
            self._share = min(1.0, self._share * 2)
