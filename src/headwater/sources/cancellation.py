"""The end of a question before its answer: at its time limit, or when no client wants it any more. It asks nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.model.errors import HeadwaterError, LimitExceeded

QUESTION_S_MAX = 30.0
ANSWER_BYTES_MAX = 256 << 20


class Cancelled(HeadwaterError):
    """No client wants the answer any more."""

    code = "cancelled"


class TooSlow(LimitExceeded):
    """It took longer than its time limit."""


class Cancellation:
    """Of one question at a time, with its limits: time, and the size of its answer. Safe to use from any thread."""

    def __init__(self, seconds: float = QUESTION_S_MAX, bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self.seconds, self.bytes_max = seconds, bytes_max
        self._until_s = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._cancelled = False
        self._stop: Callable[[], None] | None = None

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - time.monotonic())

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    @property
    def is_over(self) -> bool:
        """Cancelled, or past its time."""
        return self._cancelled or self.left_s == 0.0

    def restart(self) -> None:
        """Its time begins now: until here it waited for its turn."""
        self._until_s = time.monotonic() + self.seconds

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._stop is not None:
                self._stop()

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """While the block lasts, `cancel` calls `stop`. It must not block, and must do no harm when it is too late."""
        with self._lock:
            self.check()
            self._stop = stop
        try:
            yield
        finally:
            with self._lock:
                self._stop = None

    def check(self) -> None:
        """Raises where the question is over."""
        if self._cancelled:
            raise Cancelled("the query was cancelled: no client is waiting for it")
        if self.left_s == 0.0:
            raise self.too_slow()

    def too_slow(self) -> TooSlow:
        return TooSlow(
            f"the database took longer than {self.seconds:g} s to answer the query",
            hint="make it cheaper: add an index or narrow the WHERE clause",
        )

    def check_size(self, answer_bytes: int) -> None:
        """Raises where so many of the answer are too many. What is left of it must not be read."""
        if answer_bytes > self.bytes_max:
            raise LimitExceeded(
                f"the result of the query is larger than {self.bytes_max >> 20} MiB",
                hint="select fewer rows or columns",
            )


class SharedCancellation(Cancellation):
    """Of several questions that are asked as one: it is over when as many clients as wait for it have cancelled."""

    def __init__(self, seconds: float, bytes_max: int, waiting: int) -> None:
        super().__init__(seconds, bytes_max)
        self._waiting = waiting

    def cancel(self) -> None:
        with self._lock:
            self._waiting -= 1
            is_wanted = self._waiting > 0
        if not is_wanted:
            super().cancel()
