"""What clients resume from: the last emissions of every window, within one budget for all of them.

Forgetting costs a client that comes back a fresh result, never a row. What emissions weigh is an estimate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from headwater.model.emission import Diff, Fields, Swap

_EMISSION_BYTES = 200
_CHANGE_BYTES = 250
_VALUE_BYTES = 50


@dataclass(slots=True, eq=False)
class History:
    """The last emissions of an instance, oldest first, each following from the one before."""

    emissions: deque[Diff | Swap] = field(default_factory=deque)

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
class Budget:
    """All histories together: when they weigh too much, the oldest emissions of any window go first."""

    bytes_max: int
    bytes_held: int = 0
    _held: deque[tuple[History, int, int]] = field(default_factory=deque)  # whose, which, how heavy

    def add(self, history: History, emission: Diff | Swap) -> None:
        weight = weight_of(emission)
        self._held.append((history, emission.seq, weight))
        self.bytes_held += weight
        while self.bytes_held > self.bytes_max:
            oldest, seq, freed = self._held.popleft()
            oldest.forget(seq)
            self.bytes_held -= freed


def weight_of(emission: Diff | Swap) -> int:
    """About as many bytes as it takes in memory."""
    if isinstance(emission, Swap):
        return _EMISSION_BYTES + _VALUE_BYTES * len(emission.pairs)
    return _EMISSION_BYTES + sum(_CHANGE_BYTES + _weight(one.old) + _weight(one.new) for one in emission.changes)


def _weight(row: Fields | None) -> int:
    if row is None:
        return 0
    return _VALUE_BYTES * len(row) + sum(len(value) for value in row.values() if isinstance(value, str | bytes))
