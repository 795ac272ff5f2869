"""A thread that must not end by itself: when it does, it can be asked why. It restarts nothing and decides nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

_log = logging.getLogger("headwater.thread")


class VitalThread(threading.Thread):
    """A daemon thread. `release` says that it may end now: to be called before it is stopped."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._body, self._released, self._error = run, threading.Event(), ""

    def run(self) -> None:
        try:
            self._body()
        except Exception as error:
            self._error = f": {error!r}"
            _log.exception("thread %s ended", self.name)

    def release(self) -> None:
        self._released.set()

    @property
    def failure(self) -> str | None:
        """Why it does not run although it should."""
        if self.ident is None or self.is_alive() or self._released.is_set():
            return None
        return f"thread {self.name} ended{self._error}"


def first_failure(threads: Iterable[VitalThread]) -> str | None:
    return next((thread.failure for thread in threads if thread.failure is not None), None)
