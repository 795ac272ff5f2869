"""How long changes that were logged have been waiting for delivery. It only keeps times.

They are kept by log offset, because a position may be reached without a record. For records of an earlier run of the
server only the last time is known.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

_ENTRIES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Waiting:
    """Everything up to `offset`, the first of it logged at `logged_at` and committed at `committed_at`: seconds since
    1970. The source's clock may go wrong, so it counts for the figure that is shown and for nothing else."""

    offset: int
    logged_at: float
    committed_at: float


class Backlog:
    def __init__(self, offset: int, at: float) -> None:
        self._entries = deque([Waiting(offset, at, at)])
        self._lock = threading.Lock()

    def add(self, offset: int, logged_at: float, committed_at: float | None) -> None:
        entry = Waiting(offset, logged_at, logged_at if committed_at is None else min(logged_at, committed_at))
        with self._lock:
            if len(self._entries) < _ENTRIES_MAX:
                self._entries.append(entry)
            else:  # as old as the last one it joins
                last = self._entries.pop()
                self._entries.append(Waiting(offset, last.logged_at, last.committed_at))

    def oldest(self, offset: int) -> Waiting | None:
        """The oldest that waits, once everything up to `offset` is delivered. Who asks never goes back."""
        with self._lock:
            while self._entries and self._entries[0].offset <= offset:
                self._entries.popleft()
            return self._entries[0] if self._entries else None
