"""A lock that tells when somebody has to wait for it: so that a test knows what another thread does."""

from __future__ import annotations

import threading


class ToldLock:
    def __init__(self) -> None:
        self._lock, self.is_awaited = threading.RLock(), threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_awaited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
