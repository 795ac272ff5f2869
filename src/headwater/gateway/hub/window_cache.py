"""A window in the gateway: a cache of the result of one instance, and the history that clients resume from.

It computes nothing: the cell does, `apply` folds. Losing a window costs a snapshot, never a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.gateway.hub.history import History, HistoryBudget
from headwater.model.emission import Diff, Emission, Result, State, Swap, apply, apply_all, check_follows
from headwater.model.errors import Resync

_UNFOLDED_MAX = 64  # emissions; a result of any size is copied once for so many


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a returning client stands."""

    seq: int
    gen: int | None = None


@dataclass(slots=True)
class WindowCache:
    """It shows something once the cell has sent a result; `reason` says why it does not just now, if it failed. `seq`
    and `position` are those of its last emission. Emissions are folded into its rows when these are asked for.

    What was not `asked` for in this life may end in the cell at any time: of that only the history is kept. An end of
    before `asked_at`, a tx, is that of an earlier window.
    """

    instance: int
    gen: int
    history: History = field(default_factory=History)
    seq: int = 0
    position: int = 0
    reason: str | None = None
    asked: bool = False
    asked_at: int = 0
    _folded: State | None = None
    _unfolded: list[Diff | Swap] = field(default_factory=list)

    @property
    def shows(self) -> bool:
        return self._folded is not None

    def ask(self, tx: int) -> bool:
        """It is asked for from here on; whether it was before."""
        before = self.asked
        if not before:
            self.asked, self.asked_at = True, tx
        return before

    def take(self, emission: Emission, history_most: int, budget: HistoryBudget) -> bool:
        """Takes an emission; True when it is news to subscribers. Raises `Resync` where it does not follow."""
        if isinstance(emission, Result):
            return self._replace(emission)
        if self.history.emissions and emission.seq <= self.history.emissions[-1].seq:
            return False
        self.history.add(emission, history_most)
        budget.add(self.history, emission)
        if self._folded is None or emission.seq <= self.seq:
            return False
        try:
            check_follows(emission, self.seq, self._folded.gen)
        except Resync:
            self.clear()
            raise
        self._unfolded.append(emission)
        self.seq, self.position = emission.seq, emission.position
        if len(self._unfolded) >= _UNFOLDED_MAX:
            self._fold()
        return True

    def _fold(self) -> State:
        """Raises `Resync` where an emission is of other rows than there are: then it shows nothing."""
        assert self._folded is not None
        try:
            self._folded = apply_all(self._folded, self._unfolded)
        except Resync:
            self.clear()
            raise
        self._unfolded = []
        return self._folded

    def clear(self) -> None:
        """It shows nothing until the next result."""
        self._folded, self._unfolded = None, []

    def forget(self) -> None:
        """What it held is right no more, and nothing follows from it."""
        self.clear()
        self.reason = None
        self.history.emissions.clear()

    def _replace(self, result: Result) -> bool:
        """A snapshot of what we have is no news; a result that starts a new chain replaces everything."""
        if not self.asked or (self.shows and result.seq <= self.seq):
            return False
        self._folded, self._unfolded, self.reason = apply(State(), result), [], None
        self.seq, self.position = result.seq, result.position
        if not self.history.emissions or self.history.emissions[-1].seq != result.seq:
            self.history.emissions.clear()
        return True

    def opening(self, resume: Resume | None) -> Iterable[Emission]:
        """What a new or returning subscriber needs to stand where the window stands. Raises `Resync` as `take` does."""
        if resume is not None and resume.gen in (None, self.gen):
            missed = self.history.since(resume.seq, self.seq)
            if missed is not None:
                return missed
        return [self.result()]

    def result(self) -> Result:
        state = self._fold()
        return Result(state.seq, 0, self.gen, state.position, tuple(state.rows), tuple(state.hashes), state.columns)
