"""Quarantine: a query that exceeded its budget is refused for a while, before it costs anything again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headwater.model.errors import LimitExceeded

_SECONDS = 60.0
_NAMES_MAX = 10_000  # then the oldest is let out


class Quarantine:
    """Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, tuple[float, str]] = {}

    def hold(self, name: str, reason: str) -> None:
        with self._lock:
            self._held.pop(name, None)
            self._held[name] = self._clock() + _SECONDS, reason
            if len(self._held) > _NAMES_MAX:
                del self._held[next(iter(self._held))]

    def check(self, *names: str) -> None:
        """Refuses what is held under any of these names, with the reason and when to come back."""
        with self._lock:
            for name in names:
                until, reason = self._held.get(name, (0.0, ""))
                left = until - self._clock()
                if left > 0:
                    raise LimitExceeded(reason, hint=f"change the query, or retry in {left:.0f} s")
                self._held.pop(name, None)
