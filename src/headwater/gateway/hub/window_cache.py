"""A window in the gateway: a cache of the result of one instance, and the history that clients resume from.

It computes nothing: the cell does, `apply` folds. Losing a window costs a snapshot, never a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.gateway.hub.history import History, HistoryBudget
from headwater.model.emission import Emission, Result, State, apply
from headwater.model.errors import Resync


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a returning client stands."""

    seq: int
    gen: int | None = None


@dataclass(slots=True)
class WindowCache:
    """`state` is None until the cell has sent a result; `reason` says why it has none just now, if it failed.

    What was not `asked` for in this life may end in the cell at any time: of that only the history is kept. An end of
    before `asked_at`, a tx, is that of an earlier window.
    """

    instance: int
    gen: int
    history: History = field(default_factory=History)
    state: State | None = None
    reason: str | None = None
    asked: bool = False
    asked_at: int = 0

    def ask(self, tx: int) -> bool:
        """It is asked for from here on; whether it was before."""
        before = self.asked
        if not before:
            self.asked, self.asked_at = True, tx
        return before

    def take(self, emission: Emission, history_most: int, budget: HistoryBudget) -> bool:
        """Folds an emission in; True when it is news to subscribers. Raises `Resync` where it does not follow."""
        if isinstance(emission, Result):
            return self._replace(emission)
        if self.history.emissions and emission.seq <= self.history.emissions[-1].seq:
            return False
        self.history.add(emission, history_most)
        budget.add(self.history, emission)
        if self.state is None or emission.seq <= self.state.seq:
            return False
        try:
            self.state = apply(self.state, emission)
        except Resync:
            self.state = None
            raise
        return True

    def forget(self) -> None:
        """What it held is right no more, and nothing follows from it."""
        self.state = self.reason = None
        self.history.emissions.clear()

    def _replace(self, result: Result) -> bool:
        """A snapshot of what we have is no news; a result that starts a new chain replaces everything."""
        if not self.asked or (self.state is not None and result.seq <= self.state.seq):
            return False
        self.state, self.reason = apply(State(), result), None
        if not self.history.emissions or self.history.emissions[-1].seq != result.seq:
            self.history.emissions.clear()
        return True

    def opening(self, resume: Resume | None) -> Iterable[Emission]:
        """What a new or returning subscriber needs to stand where the window stands."""
        assert self.state is not None
        if resume is not None and resume.gen in (None, self.gen):
            missed = self.history.since(resume.seq, self.state.seq)
            if missed is not None:
                return missed
        return [self.result()]

    def result(self) -> Result:
        assert self.state is not None
        state = self.state
        return Result(state.seq, 0, self.gen, state.position, tuple(state.rows), tuple(state.hashes), state.columns)
