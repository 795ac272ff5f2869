"""Whether changes reach subscribers, and if not, why: the one source for live results, `/health` and `status`.

A thread checks several times per heartbeat and tells every session when that changed. A database without changes is
healthy.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from headwater.gateway.hub.hub import Hub
from headwater.pipeline.delivery_lag import Waiting
from headwater.pipeline.pipeline import Pipeline
from headwater.runtime.vital_thread import VitalThread, first_failure

_LOOKS_PER_HEARTBEAT = 4
_log = logging.getLogger("headwater.health")


@dataclass(frozen=True, slots=True)
class PipelineHealth:
    """`failure` is None while all is well; `lag_ms` is how long ago the oldest change was committed that waits, or how
    long the database has been read without an end."""

    failure: str | None
    lag_ms: float


class Monitor:
    """After a failure all is well again once what was logged until then has been delivered."""

    def __init__(self, pipeline: Pipeline, hub: Hub) -> None:
        self._pipeline, self._hub = pipeline, hub
        self._until: int | None = None  # the log offset to be delivered after a failure
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = VitalThread("headwater-health", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.release()
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> PipelineHealth:
        with self._lock:
            now, delivered = time.time(), self._hub.delivered
            oldest = self._pipeline.capture.backlog.oldest(delivered)
            failure = self._failing() or self._late(oldest, now)
            if failure is not None:
                self._until = self._pipeline.log_offset - 1
            elif self._until is not None and delivered < self._until:
                failure = "catching up after a failure"
            else:
                self._until = None
            waits_ms = 0.0 if oldest is None else (now - oldest.committed_at) * 1000
            return PipelineHealth(failure, max(0.0, waits_ms, self._pipeline.capture.stalled_ms))

    def _failing(self) -> str | None:
        return self._pipeline.failure or first_failure((*self._hub.threads, self._thread))

    def _late(self, oldest: Waiting | None, now: float) -> str | None:
        most_ms = self._pipeline.limits.stale_ms
        if oldest is None or (now - oldest.logged_at) * 1000 <= most_ms:
            return None
        return f"changes have been waiting for more than {most_ms / 1000:g} s"

    def _run(self) -> None:
        pause_s = self._pipeline.limits.heartbeat_ms / 1000 / _LOOKS_PER_HEARTBEAT
        told: str | None = None
        while not self._stop.wait(pause_s):
            failure = self.look().failure
            if failure != told:
                _log.warning("live queries are %s", f"stale: {failure}" if failure else "fresh again")
            told = failure
            self._hub.tell(failure, self._pipeline.unanswered)
