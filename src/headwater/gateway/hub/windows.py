"""The windows of the hub, the subscribers of each, and the windows that have no subscriber left.

Every method is called under the hub's lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection

from headwater.gateway.hub.deadlines import Deadlines
from headwater.gateway.hub.history import HistoryBudget
from headwater.gateway.hub.session import Session, Subscription
from headwater.gateway.hub.window_cache import WindowCache
from headwater.log.record import tx_of
from headwater.pipeline.pipeline import Pipeline
from headwater.plan.planner import Planned
from headwater.plan.requery_whole import ASKED
from headwater.runtime.release_memory import trim_memory

_LINGER_S = 5.0
_ORPHANED_S = 60.0
_TRIM_WINDOWS = 1000  # so many that went; then what they held goes back to the system


class Windows:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.held: dict[int, WindowCache] = {}
        self.subscribed: dict[int, dict[Subscription, None]] = {}
        self.idle: Deadlines[int] = Deadlines()
        self.budget = HistoryBudget(pipeline.limits.history_bytes_max)
        self.subscriptions = self._expired = 0

    def subscribers(self, instance: int) -> Collection[Subscription]:
        return self.subscribed.get(instance, ())

    def find(self, instance: int) -> WindowCache | None:
        return self.held.get(instance)

    def opened(self, instance: int) -> WindowCache:
        """The window, made where there is none."""
        return self.held.get(instance) or self.held.setdefault(instance, WindowCache(instance, self._pipeline.gen))

    def ask(self, window: WindowCache) -> bool:
        """It is asked for from the next record of the log on; whether it was before."""
        return window.ask(tx_of(self._pipeline.log_offset, 0))

    def of_cell(self, number: int) -> list[WindowCache]:
        """Those of this cell; and those without a subscriber, whose cell is not known."""
        return [
            window
            for instance, window in self.held.items()
            if all(one.cell == number for one in self.subscribers(instance))
        ]

    def names(self, template: str) -> tuple[str, ...] | None:
        """Of a template that the pipeline has forgotten, what its cells had still to say counts until its end."""
        names = self._pipeline.names(template)
        if names is not None:
            return names
        plans = (next(iter(each)).planned.template for each in self.subscribed.values())
        left = next((each for each in plans if each.id == template), None)
        return None if left is None else tuple(output.name for output in left.outputs)

    # — subscribers

    def join(self, subscription: Subscription) -> None:
        session, instance = subscription.session, subscription.planned.instance.id
        session.subscriptions[subscription.id] = subscription
        if subscription.planned.strategy in ASKED:
            session.answered[subscription.id] = subscription
        session.cells[subscription.cell] += 1
        self.subscriptions += 1
        self.idle.drop(instance)
        self.subscribed.setdefault(instance, {})[subscription] = None

    def moved(self, subscription: Subscription, planned: Planned) -> None:
        """Its window has another strategy from its next result on."""
        session = subscription.session
        if session.subscriptions.get(subscription.id) is not subscription:
            return  # which left meanwhile
        session.answered.pop(subscription.id, None)
        if planned.strategy in ASKED:
            session.answered[subscription.id] = subscription
            subscription.right_through = -1
        session.sink.replanned(subscription.id, planned)

    def leave(self, subscription: Subscription) -> None:
        session, instance = subscription.session, subscription.planned.instance.id
        del session.subscriptions[subscription.id]
        session.answered.pop(subscription.id, None)
        self.subscriptions -= 1
        session.cells[subscription.cell] -= 1
        session.cells += Counter()
        others = self.subscribed[instance]
        del others[subscription]
        if not others:
            del self.subscribed[instance]

    def unsubscribe(self, session: Session, id: str, *, forget: bool = False) -> None:
        """The last one to leave lets the window linger a while, for whoever reconnects."""
        subscription = session.subscriptions.get(id)
        if subscription is None:
            return
        self.leave(subscription)
        instance = subscription.planned.instance.id
        if instance not in self.subscribed:
            self.idle.set(instance, time.monotonic() + (0.0 if forget else _LINGER_S))

    # — the end of a window

    def linger(self, instance: int) -> None:
        """Nobody is subscribed: it ends in a while."""
        self.idle.set(instance, time.monotonic() + _LINGER_S)

    def orphan(self) -> None:
        """Those of earlier lives: their clients could not come back before now."""
        for instance in self.held:
            self.idle.set(instance, time.monotonic() + _ORPHANED_S)

    def forget(self, instance: int) -> None:
        window = self.held.pop(instance, None)
        if window is not None:
            self.budget.release(window.history)

    def end(self, window: WindowCache) -> None:
        """Its end was read: nothing is left of it."""
        self.forget(window.instance)
        self.idle.drop(window.instance)
        self._pipeline.ended(window.instance)

    def expire(self) -> None:
        gone = self.idle.due(time.monotonic())
        for instance in gone:
            self.forget(instance)
        if gone:
            self._pipeline.unsubscribe(*gone)
            self._expired += len(gone)
        if self._expired >= _TRIM_WINDOWS and not self.idle:
            self._expired = 0
            for held in (self.held, self.subscribed):
                if not held:
                    held.clear()  # which lets go of the room for those that were there
            trim_memory()
