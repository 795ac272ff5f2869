"""Restarts windows whose changes were lost at the source, in a thread of its own.

It retries while the source cannot be reached. It holds no window itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from headwater.model.errors import HeadwaterError, SourceError
from headwater.plan.planner import Planned
from headwater.runtime.vital_thread import VitalThread
from headwater.sources.source import ChangesLost, NotCaptured

_TRIES = 4  # while the source answers; its tables may be changing just now
_PAUSE_S = 0.2
_PAUSE_S_MAX = 5.0
_log = logging.getLogger("headwater.hub")


class Resubscriber:
    """`subscribe` asks for windows, and blocks while their tables are read; `refused` is told of one that is not to be
    had, and why."""

    def __init__(
        self,
        subscribe: Callable[..., None],
        is_reachable: Callable[[], bool],
        is_wanted: Callable[[Planned], bool],
        refused: Callable[[Planned, str], None],
    ) -> None:
        self._subscribe, self._is_reachable = subscribe, is_reachable
        self._is_wanted, self._refused = is_wanted, refused
        self._lost: dict[int, Planned] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self.thread = VitalThread("headwater-resubscribe", self._run)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """What is asked for just now may still be read when this returns."""
        self.thread.release()
        with self._changed:
            self._stop.set()
            self._changed.notify()

    def add(self, planned: Planned) -> None:
        with self._changed:
            self._lost[planned.instance.id] = planned
            self._changed.notify()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._lost or self._stop.is_set())
            self.restart()

    def restart(self) -> bool:
        """Restarts those that were lost until now; whether there were any. By hand, where no thread runs."""
        lost = list(self._taken())
        for together in lost:
            self._begin(together)
        return bool(lost)

    def _taken(self) -> Iterator[list[Planned]]:
        """Those of one template together: its tables are read once, and one write to the log does for all."""
        with self._changed:
            lost, self._lost = sorted(self._lost.values(), key=_template), {}
        return (list(together) for _, together in groupby(lost, _template))

    def _begin(self, planned: Sequence[Planned]) -> None:
        tries, pause_s = 0, _PAUSE_S
        while wanted := [one for one in planned if self._is_wanted(one)]:
            refusal = self._refusal(wanted)
            if refusal is None or self._stop.is_set():
                return
            passes = isinstance(refusal, ChangesLost | NotCaptured)  # capture begins anew too, or is about to notice
            tries += self._is_reachable() and not passes
            if tries >= _TRIES or not isinstance(refusal, SourceError):
                for one in wanted:
                    self._refused(one, refusal.message)
                return
            _log.warning("live queries wait to restart: %s", refusal.message)
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def _refusal(self, wanted: Sequence[Planned]) -> HeadwaterError | None:
        try:
            self._subscribe(*wanted)
        except HeadwaterError as error:
            return error
        except Exception:
            _log.exception("could not restart live queries")
            return SourceError("the live query could not be restarted", hint="details are in the server log")
        return None


def _template(planned: Planned) -> str:
    return planned.template.id
