"""A lock per table or relation: one activation at a time for each, several for different ones. It reads no clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class KeyedLock:
    def __init__(self) -> None:
        self._over = threading.Condition()
        self._since: dict[str, int | None] = {}  # of whoever has a turn, the log offset it reads from

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Waits for who has the turn of this name."""
        with self._over:
            self._over.wait_for(lambda: name not in self._since)
            self._since[name] = None
        try:
            yield
        finally:
            with self._over:
                del self._since[name]
                self._over.notify_all()

    def reads(self, name: str, since: int) -> None:
        """Whoever has this turn needs the log from here on, until it is over."""
        with self._over:
            self._since[name] = since

    @property
    def floor(self) -> int | None:
        """From where on somebody needs the log; none where nobody does."""
        with self._over:
            return min((since for since in self._since.values() if since is not None), default=None)

    @contextmanager
    def nobody(self) -> Iterator[bool]:
        """Whether nobody has a turn; if so, nobody gets one before the end of the block."""
        with self._over:
            yield not self._since
