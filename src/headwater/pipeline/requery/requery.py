"""Queries the source again for each window that it answers, when something that the query reads has changed.

A window has at most one query running, which covers all changes until then. Several lanes run at once. A query that
takes longer than a second moves to a lane for slow ones; one that exceeds its limit ends its window; one that no client
waits for is cancelled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from headwater.model.limits import Limits
from headwater.pipeline.records.control import AnswerRecord
from headwater.pipeline.requery.refresh import QUICK_S, Refresh
from headwater.pipeline.requery.watched_windows import WatchedWindows
from headwater.plan.requery_whole import Requeried
from headwater.runtime.vital_thread import VitalThread
from headwater.sources.source import Source

LANES = 2  # for questions that are slow, and as many for those that are not
_STOP_S = 5.0


class Requery:
    """The lanes: threads that ask for whatever of `windows` is due."""

    def __init__(
        self,
        source: Source,
        log: Callable[[Sequence[AnswerRecord]], list[int]],
        logged: Callable[[int], None],
        logged_soon: Callable[[int, float], None],
        give_up: Callable[[int, str], None],
        limits: Limits,
        learn: Callable[[Requeried], Requeried],
        settle: Callable[[], object] = lambda: None,
    ) -> None:
        """The callables are those of `Refresh`."""
        self.windows = WatchedWindows(limits, LANES)
        self._refresh = Refresh(self.windows, source, log, logged, logged_soon, give_up, limits, learn, settle)
        self.threads = [
            VitalThread(f"headwater-requery-{number}", partial(self._run, number >= LANES))
            for number in range(2 * LANES)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """What is asked now is cancelled. A source that takes no notice is not waited for."""
        for thread in self.threads:
            thread.release()
        self.windows.stop()
        until_s = time.monotonic() + _STOP_S
        for thread in filter(threading.Thread.is_alive, self.threads):
            thread.join(max(0.0, until_s - time.monotonic()))

    def _run(self, slow: bool) -> None:
        """A lane."""
        while (taken := self.windows.next(slow)) is not None:
            client, due = taken
            limit_s = self._refresh.limit_s
            try:
                self._refresh.ask(due, limit_s if slow else min(QUICK_S, limit_s))
            finally:
                self.windows.done(slow, client)

    def ask(self) -> None:
        """Every question that is due now, one after the other: where no lanes run."""
        self._refresh.ask(self.windows.all_due(), self._refresh.limit_s)
