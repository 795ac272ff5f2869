"""Turns what cells emit for a window into messages to its subscribers: emissions, errors, a resync, an end.

It puts them into the inboxes of sessions; the alignment decides when they are sent. Every method is called under the
hub's lock.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.gateway.hub.open_sessions import OpenSessions
from headwater.gateway.hub.session import Due, Session, Subscription
from headwater.gateway.hub.window_cache import WindowCache
from headwater.gateway.hub.windows import Windows
from headwater.model.emission import Diff, Emission, Result
from headwater.model.errors import HeadwaterError, Resync
from headwater.pipeline.pipeline import Pipeline
from headwater.pipeline.records.diff_record import Event
from headwater.plan.planner import Planned
from headwater.protocol.swap import as_swap


class Delivery:
    """`lost` is told of a window that must begin anew."""

    def __init__(
        self, pipeline: Pipeline, windows: Windows, sessions: OpenSessions, lost: Callable[[Planned], None]
    ) -> None:
        self._pipeline, self._windows, self._sessions = pipeline, windows, sessions
        self._on_lost = lost

    def event(self, event: Event) -> None:
        window = self._windows.find(event.instance)
        if window is None:  # of nobody here: its end is on its way to the cell, or must be sent
            if event.instance not in self._windows.idle:
                self._windows.linger(event.instance)
            return
        if event.emission is None:
            is_earlier = event.tx < window.asked_at and event.kind != "error"
            (self._passed if is_earlier else self._lost if event.kind == "lost" else self._ended)(window, event)
            return
        emission = as_swap(event.emission) if isinstance(event.emission, Diff) else event.emission
        try:
            news = window.take(emission, self._pipeline.limits.history_emissions_max, self._windows.budget)
        except Resync as gap:
            self.resync(gap.message, window)
            return
        for subscription in self._windows.subscribers(event.instance):
            if subscription.started and news:
                if isinstance(emission, Result):
                    self._follow_move(subscription, event.tx)
                self._emit(subscription, event.tx, emission)
            elif not subscription.started and window.shows:
                self._begin(subscription, window)

    # — the first emissions of a subscription

    def show(self, subscription: Subscription, window: WindowCache) -> None:
        """What the window has, if it has anything yet."""
        if window.reason is not None:
            self._sessions.put(subscription.session, Due(0, _failing(subscription, window.reason)))
        elif window.shows:
            self._begin(subscription, window)

    def _begin(self, subscription: Subscription, window: WindowCache) -> None:
        """What it missed, or the whole result."""
        if subscription.session.behind is not None:
            return
        try:
            opening = window.opening(subscription.resume)
        except Resync as gap:
            self.resync(gap.message, window)
            return
        subscription.started = True
        self._follow_move(subscription, window.seq)
        sink, position = subscription.session.sink, window.position
        for emission in opening:
            self._emit(subscription, emission.seq, emission)
        ready = Due(window.seq, lambda: sink.ready(subscription.id, position), True, subscription)
        self._sessions.put(subscription.session, ready)

    def _follow_move(self, subscription: Subscription, tx: int) -> None:
        """A window that was moved to another strategy shows its result: how it is kept current is told before that."""
        now = self._pipeline.strategies.at(subscription.planned, tx)
        if now.strategy != subscription.planned.strategy:
            subscription.planned = now
            self._sessions.put(subscription.session, Due(tx, lambda: self._windows.moved(subscription, now)))

    def _emit(self, subscription: Subscription, tx: int, emission: Emission) -> None:
        sink = subscription.session.sink
        due = Due(tx, lambda: sink.emit(subscription.id, emission), True, subscription)
        self._sessions.put(subscription.session, due)

    def renew(self, session: Session, id: str) -> None:
        """A fresh result, unless one was sent already or is on its way."""
        subscription = session.subscriptions.get(id)
        window = subscription and self._windows.find(subscription.planned.instance.id)
        if subscription and window and not subscription.started and window.shows and window.reason is None:
            self._begin(subscription, window)

    # — what breaks off

    def resync(self, reason: str, *windows: WindowCache) -> None:
        """The chain broke on our side: ask the cell for snapshots; subscribers keep what they have until those come."""
        subscriptions = [one for window in windows for one in self._windows.subscribers(window.instance)]
        for subscription in subscriptions:
            subscription.started, subscription.resume = False, None
            subscription.session.sink.resync(subscription.id, reason)
        try:
            self._pipeline.subscribe(*{one.planned.instance.id: one.planned for one in subscriptions}.values())
        except HeadwaterError as error:
            for subscription in subscriptions:
                self.close(subscription, error.message)

    def _lost(self, window: WindowCache, event: Event) -> None:
        """Changes are missing that cannot be had any more: subscribers keep what they have until it has begun anew."""
        window.forget()
        self._pipeline.passed(event.instance)
        subscriptions = list(self._windows.subscribers(event.instance))
        for subscription in subscriptions:
            subscription.started, subscription.resume = False, None
            self._sessions.put(subscription.session, Due(event.tx, _resyncing(subscription, event.reason)))
        if subscriptions:
            self._on_lost(subscriptions[0].planned)
        else:
            self._windows.end(window)

    # — what ends

    def _passed(self, window: WindowCache, event: Event) -> None:
        """The end of an earlier window of the query, logged before this one was asked for: its result comes yet."""
        window.forget()
        self._pipeline.passed(event.instance)
        for subscription in self._windows.subscribers(event.instance):
            subscription.started, subscription.resume = False, None

    def _ended(self, window: WindowCache, event: Event) -> None:
        for subscription in list(self._windows.subscribers(event.instance)):
            end = self._closer if event.kind == "closed" else _failing
            self._sessions.put(subscription.session, Due(event.tx, end(subscription, event.reason)))
            if event.kind == "closed":
                self._pipeline.lost(subscription.planned)
        window.reason = event.reason if window.asked else None
        if event.kind == "closed":
            self._windows.end(window)

    def refuse(self, planned: Planned, reason: str) -> None:
        """A window that does not begin: whoever waits for it is told why."""
        self._windows.forget(planned.instance.id)
        for subscription in list(self._windows.subscribers(planned.instance.id)):
            self._closer(subscription, reason)()

    def close(self, subscription: Subscription, reason: str) -> None:
        """Ends a subscription now, and forgets its window."""
        self._windows.forget(subscription.planned.instance.id)
        self._closer(subscription, reason)()

    def _closer(self, subscription: Subscription, reason: str) -> Callable[[], None]:
        def close() -> None:
            self._windows.unsubscribe(subscription.session, subscription.id, forget=True)
            self._windows.idle.drop(subscription.planned.instance.id)
            subscription.session.sink.closed(subscription.id, reason)

        return close


def _failing(subscription: Subscription, reason: str) -> Callable[[], None]:
    return lambda: subscription.session.sink.failed(subscription.id, reason)


def _resyncing(subscription: Subscription, reason: str) -> Callable[[], None]:
    return lambda: subscription.session.sink.resync(subscription.id, reason)
