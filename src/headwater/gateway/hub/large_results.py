"""Reads large first results in another thread, so that only their own subscribers wait for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from headwater.gateway.hub.windows import Windows
from headwater.pipeline.records.diff_record import Event
from headwater.runtime.switch_interval import yielding

_THREADS = 2
_log = logging.getLogger("headwater.hub")


class LargeResults:
    """`taken` is told what was read for which windows, by a thread of ours: nothing where it could not be read. All
    methods but `stop` are called under the hub's lock."""

    def __init__(self, windows: Windows, taken: Callable[[Sequence[int], list[Event]], None]) -> None:
        self._windows, self._taken = windows, taken
        self._waiting: dict[int, list[Event]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "headwater-results")

    def stop(self) -> None:
        self._threads.shutdown()

    def defer(self, instances: Sequence[int], read: Callable[[], list[Event]]) -> bool:
        """Whether it is read by another thread. What comes for these windows meanwhile waits, too."""
        watched = (one for instance in instances for one in self._windows.subscribers(instance))
        if any(instance in self._waiting for instance in instances) or any(one.started for one in watched):
            return False
        self._waiting.update((instance, []) for instance in instances)
        self._threads.submit(self._read, instances, read)
        return True

    def holds(self, event: Event) -> bool:
        """Keeps an event whose window is being read, until that is over."""
        waiting = self._waiting.get(event.instance)
        if waiting is None:
            return False
        waiting.append(event)
        return True

    def release(self, instances: Sequence[int]) -> list[Event]:
        """What came for these windows meanwhile."""
        return [event for instance in instances for event in self._waiting.pop(instance)]

    def _read(self, instances: Sequence[int], read: Callable[[], list[Event]]) -> None:
        try:
            with yielding():
                events = read()
        except Exception:
            _log.exception("could not read large results")
            events = []
        self._taken(instances, events)
