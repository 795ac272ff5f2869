"""Whether a streaming query runs, and when its JVM last responded. It decides nothing.

Calls to a stopped JVM never return, so they are made by threads that are never joined.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

_EVERY_S = 0.5


class QueryLiveness:
    """`ended` is set once the query does not run any more; `error` is why, where there was one."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._answered_at = time.monotonic()
        self.ended = threading.Event()
        self.error: Exception | None = None
        threading.Thread(target=self._feel, name="headwater-spark-pulse", daemon=True).start()

    @property
    def silent_s(self) -> float:
        """How long ago the JVM answered; it is asked all the time."""
        return 0.0 if self.ended.is_set() else max(0.0, time.monotonic() - self._answered_at - _EVERY_S)

    def stop(self) -> None:
        """Asks the JVM to stop the query; `ended` tells when it has."""
        threading.Thread(target=self._stop, name="headwater-spark-stop", daemon=True).start()

    def _stop(self) -> None:
        with contextlib.suppress(Exception):
            self._query.stop()

    def _feel(self) -> None:
        try:
            while not self._query.awaitTermination(_EVERY_S):
                self._answered_at = time.monotonic()
        except Exception as error:
            self.error = error
        finally:
            self.ended.set()
