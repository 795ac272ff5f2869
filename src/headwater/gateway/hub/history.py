"""The history that clients resume from: the last emissions of every window, within one budget for all of them.

A client that needs a forgotten emission gets a fresh result; no row is lost. The size of an emission is an estimate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from headwater.model.emission import Diff, Fields, Swap

_EMISSION_BYTES = 200
_CHANGE_BYTES = 250
_VALUE_BYTES = 50
_LONG = (str, bytes)  # what takes as many more bytes as it is long


@dataclass(slots=True, eq=False)
class History:
    """The last emissions of an instance, oldest first, each following from the one before. `held` and `held_bytes` are
    what the budget counts of it."""

    emissions: deque[Diff | Swap] = field(default_factory=deque)
    held: int = 0
    held_bytes: int = 0
    gone: bool = False

    def add(self, emission: Diff | Swap, most: int) -> None:
        if self.emissions and self.emissions[-1].seq != emission.prev:
            self.emissions.clear()
        self.emissions.append(emission)
        while len(self.emissions) > most:
            self.emissions.popleft()

    def since(self, seq: int, to: int) -> list[Diff | Swap] | None:
        """The emissions that lead from `seq` to `to`; none where the way is not known."""
        if seq == to:
            return []
        path = [emission for emission in self.emissions if seq < emission.seq <= to]
        unbroken = bool(path) and path[0].prev == seq and path[-1].seq == to
        return path if unbroken else None

    def forget(self, seq: int) -> None:
        """Up to this emission. One that is gone already, or of a chain that ended, is not there to be forgotten."""
        while self.emissions and self.emissions[0].seq <= seq:
            self.emissions.popleft()


@dataclass(slots=True)
class HistoryBudget:
    """All histories together: when they weigh too much, the oldest emissions of any window go first."""

    bytes_max: int
    bytes_held: int = 0
    _held: deque[tuple[History, int, int]] = field(default_factory=deque)  # whose, which, how heavy
    _stale: int = 0  # of these, those of windows that are gone

    def add(self, history: History, emission: Diff | Swap) -> None:
        weight = weight_of(emission)
        self._held.append((history, emission.seq, weight))
        self._count(history, 1, weight)
        while self.bytes_held > self.bytes_max:
            oldest, seq, freed = self._held.popleft()
            if oldest.gone:
                self._stale -= 1
            else:
                oldest.forget(seq)
                self._count(oldest, -1, -freed)

    def _count(self, history: History, emissions: int, weight: int) -> None:
        history.held += emissions
        history.held_bytes += weight
        self.bytes_held += weight

    def release(self, history: History) -> None:
        """Its window is gone: it weighs nothing any more, and what it held is let go."""
        if history.gone:
            return
        history.gone = True
        history.emissions.clear()
        self._stale += history.held
        self.bytes_held -= history.held_bytes
        if 2 * self._stale > len(self._held):
            self._held = deque(one for one in self._held if not one[0].gone)
            self._stale = 0


def weight_of(emission: Diff | Swap) -> int:
    """About as many bytes as it takes in memory."""
    if isinstance(emission, Swap):
        return _EMISSION_BYTES + _VALUE_BYTES * len(emission.pairs)
    weight = _EMISSION_BYTES + _CHANGE_BYTES * len(emission.changes)
    for change in emission.changes:
        for row in (change.old, change.new):
            if row is not None:
                weight += _weight(row)
    return weight


def _weight(row: Fields) -> int:
    weight = _VALUE_BYTES * len(row)
    for value in row.values():
        if isinstance(value, _LONG):
            weight += len(value)
    return weight
