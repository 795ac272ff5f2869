"""Moves the subscribers of a lost window to the window of their query as it is planned now.

The thread that resubscribes calls it without the hub's lock, which is taken here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from headwater.gateway.hub.delivery import Delivery
from headwater.gateway.hub.windows import Windows
from headwater.model.errors import HeadwaterError
from headwater.pipeline.pipeline import Pipeline
from headwater.plan.planner import Planned


class Transfer:
    def __init__(self, pipeline: Pipeline, lock: threading.RLock, windows: Windows, delivery: Delivery) -> None:
        self._pipeline, self._lock, self._windows, self._delivery = pipeline, lock, windows, delivery

    def is_wanted(self, planned: Planned) -> bool:
        """Whether somebody is subscribed to it. Where nobody is, a window that shows nothing ends here: it would count
        as asked for, and who comes next would wait for it in vain."""
        instance = planned.instance.id
        with self._lock:
            window = self._windows.find(instance)
            if instance in self._windows.subscribed:
                return True
            if window is not None and not window.shows:
                self._windows.end(window)
            return False

    def refuse(self, planned: Planned, reason: str) -> None:
        with self._lock:
            self._delivery.refuse(planned, reason)

    def begin_again(self, *lost: Planned) -> None:
        """Windows that were lost, planned with the tables as they are now. Where that comes to another window, it is
        asked for first, and then their subscribers move there."""
        again = [(before, self._pipeline.replanned(before)) for before in lost]
        stay = [now for before, now in again if now.instance.id == before.instance.id]
        first = self._opened_first([now for before, now in again if now.instance.id != before.instance.id])
        try:
            self._pipeline.subscribe(*stay, *first)
        except HeadwaterError as error:
            for one in first:
                self.refuse(one, error.message)
            raise
        with self._lock:
            for before, now in again:
                self._move(before, now)

    def _opened_first(self, planned: Sequence[Planned]) -> list[Planned]:
        """Those of which nobody has asked for the window yet: each is there from now on, and counts as asked for."""
        with self._lock:
            return [one for one in planned if not self._windows.ask(self._windows.opened(one.instance.id))]

    def _move(self, before: Planned, now: Planned) -> None:
        if now == before:
            return
        old = self._windows.find(before.instance.id)
        window = self._windows.find(now.instance.id)
        for subscription in list(self._windows.subscribers(before.instance.id)):
            self._windows.leave(subscription)
            subscription.planned, subscription.cell = now, self._pipeline.cell_of(now)
            subscription.right_through = -1
            self._windows.join(subscription)
            subscription.session.sink.replanned(subscription.id, now)
            if window is not None and not subscription.started:
                self._delivery.show(subscription, window)
        if old is not None and old is not window:
            self._windows.end(old)
        if now.instance.id not in self._windows.subscribed:
            self._windows.linger(now.instance.id)
