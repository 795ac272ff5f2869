"""The client's side of a session: hands emissions to its live results and moves them all to a position together.

The same object serves an embedded hub and a WebSocket: both only say what happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.client.live import LiveResult
from headwater.model.emission import Emission
from headwater.model.encoding.python_values import natural_emission

if TYPE_CHECKING:
    from headwater.plan.planner import Planned


class ClientSession:
    """Implements the hub's `Sink`. `on_gap` is called with the id of a live result that needs a fresh result."""

    def __init__(self, on_gap: Callable[[str], None]) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.lives: dict[str, LiveResult] = {}
        self.position = -1
        self.failure: str | None = None
        self._touched: set[str] = set()
        self._on_gap = on_gap

    def add(self, live: LiveResult) -> None:
        with self.changed:
            self.lives[live.id] = live

    def remove(self, id: str) -> None:
        with self.changed:
            self.lives.pop(id, None)

    def emit(self, subscription: str, emission: Emission) -> None:
        with self.changed:
            if live := self.lives.get(subscription):
                live.offer(natural_emission(emission))
                self._touched.add(subscription)

    def ready(self, subscription: str, position: int) -> None:
        with self.changed:
            if live := self.lives.get(subscription):
                live.ready(position)
                self._touched.add(subscription)

    def replanned(self, subscription: str, planned: Planned) -> None:
        self.opened(subscription, tuple(output.name for output in planned.template.outputs), planned.strategy)

    def opened(self, subscription: str, columns: tuple[str, ...], strategy: str) -> None:
        """How it is kept current decides up to which position it is right."""
        with self.changed:
            if live := self.lives.get(subscription):
                live.replanned(columns, strategy)

    def resync(self, subscription: str, reason: str) -> None:
        with self.changed:
            if live := self.lives.get(subscription):
                live.resync(reason)
                self._touched.add(subscription)
                self.changed.notify_all()

    def failed(self, subscription: str, reason: str) -> None:
        with self.changed:
            if live := self.lives.get(subscription):
                live.failed(reason)
                self.changed.notify_all()

    def closed(self, subscription: str, reason: str) -> None:
        with self.changed:
            if live := self.lives.pop(subscription, None):
                live.closed(reason)

    def health(self, failure: str | None) -> None:
        """Of all live results at once: those that were ready are stale while there is a failure."""
        with self.changed:
            self.failure = failure
            self.changed.notify_all()

    def progress(self, position: int) -> None:
        """Only live results that something was said to are looked at: a quiet position costs nothing per query.

        The rows come first: who asks for the position without waiting must find them there."""
        with self.changed:
            moved = [live for id in self._touched if (live := self.lives.get(id)) is not None]
            gaps = [live for live in moved if not live.advance(position)]
            self._touched = {live.id for live in moved if live.waiting}
            for live in gaps:
                live.stale()
            self.position = max(self.position, position)
            for live in moved:
                live.tell()
            self.changed.notify_all()
        for live in gaps:
            self._on_gap(live.id)

    def stale(self) -> None:
        """The connection is gone: rows stay, and say so. How far the next one is, it will tell."""
        with self.changed:
            self.position = -1
            self.failure = None
            for live in self.lives.values():
                live.stale()
            self._touched.update(self.lives)
            self.changed.notify_all()
