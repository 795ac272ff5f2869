"""The hub: sessions open and close, subscribe and unsubscribe here; its thread reads what the cells compute for them.

One thread reads. Whatever it hands to a session goes out in commit order, up to the position that all cells of that
session have reached, and then a progress: so all queries of a session move together (law 8).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from headwater.gateway.hub.alignment import Alignment
from headwater.gateway.hub.cell_progress import GridProgress
from headwater.gateway.hub.delivery import Delivery
from headwater.gateway.hub.diff_reader import DiffReader
from headwater.gateway.hub.open_sessions import OpenSessions
from headwater.gateway.hub.resubscribe import Resubscriber
from headwater.gateway.hub.session import Joining, Session, Sink, Subscription
from headwater.gateway.hub.transfer import Transfer
from headwater.gateway.hub.window_cache import Resume
from headwater.gateway.hub.windows import Windows
from headwater.model.errors import HeadwaterError, LimitExceeded
from headwater.pipeline.pipeline import Pipeline
from headwater.plan.planner import Planned

_SETTLE_S = 0.25  # for a cell that does not come along: then others need not wait for it either
_BROKEN_HINT = "the log is damaged: restore it from a backup, or start with a fresh data directory"


class Hub:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._lock = threading.RLock()
        self._rounds = threading.Condition(self._lock)  # notified with every round of the reader
        self.cells = GridProgress(pipeline.layout, pipeline.grid.cells)
        self._windows = Windows(pipeline)
        self._sessions = OpenSessions()
        self._delivery = Delivery(pipeline, self._windows, self._sessions, lambda lost: self._resubscriber.add(lost))
        self._alignment = Alignment(pipeline, self.cells, self._sessions, self._delivery)
        moves = Transfer(pipeline, self._lock, self._windows, self._delivery)
        self._resubscriber = Resubscriber(moves.begin_again, pipeline.is_reachable, moves.is_wanted, moves.refuse)
        held = self._windows, self._sessions, self._delivery, self._alignment
        self._reader = DiffReader(pipeline, self._rounds, self.cells, *held)
        self.threads = (self._reader.thread, self._resubscriber.thread)
        self._unanswered = False

    def start(self) -> None:
        self._windows.orphan()
        self._pipeline.settle = self.settle
        self._resubscriber.start()
        self._reader.start()

    def stop(self) -> None:
        self._reader.release()
        self._resubscriber.stop()
        self._reader.stop()

    def catch_up(self) -> None:
        """Reads what earlier lives of this server left in the diff partitions: the history that clients resume from."""
        self._reader.catch_up()

    # — sessions

    def open(self, sink: Sink, *, eager: bool = False) -> Session:
        """A new session. An eager one hears of every position at once, others of quiet ones with `beat`."""
        with self._lock:
            return self._sessions.open(sink, eager)

    def beat(self, sessions: Sequence[Session]) -> None:
        """The heartbeat of sessions that are not eager: each is told how far it is, also where that is nothing new."""
        with self._lock:
            for session in sessions:
                if session in self._sessions.all:
                    self._alignment.beat(session)

    def await_position(self, session: Session, position: int) -> None:
        """Somebody waits for the session to reach it: it is told as soon as it has."""
        with self._lock:
            if session in self._sessions.all:
                self._alignment.await_position(session, position)

    def close(self, session: Session) -> None:
        with self._lock:
            self._sessions.close(session)
            for id in list(session.subscriptions):
                self._windows.unsubscribe(session, id)

    def interrupt(self, session: Session, then: Callable[[], None]) -> list[str]:
        """What the session was sent got lost on its way. Its subscriptions, each of which waits for `renew`."""
        with self._lock:
            self._alignment.drop(session)
            then()
            return list(session.subscriptions)

    def renew(self, session: Session, id: str) -> None:
        """A fresh result, unless one was sent already or is on its way."""
        with self._lock:
            self._delivery.renew(session, id)
            self._alignment.flush(session)

    # — subscriptions

    def prepare(self, session: Session, planned: Planned) -> Planned:
        """The plan to subscribe with. Raises where `subscribe` would; blocks while a new template's table is read."""
        with self._lock:
            self._let_end([planned])  # before it is activated again, which would hide that it ends
            self._check(session, self._pipeline.cell_of(planned))
        return self._pipeline.prepare(planned)

    def subscribe(self, session: Session, id: str, planned: Planned, resume: Resume | None = None) -> None:
        """Joins the window, or makes it; blocks while a new template's table is read."""
        [refused] = self.subscribe_all([Joining(session, id, planned, resume)])
        if refused is not None:
            raise refused

    def subscribe_all(self, joining: Sequence[Joining]) -> list[HeadwaterError | None]:
        """As `subscribe`, for many: those who are the first at their window ask for it together. Why not, of each."""
        refused: list[HeadwaterError | None] = [None] * len(joining)
        first: dict[int, Subscription] = {}
        with self._lock:
            self._let_end([one.planned for one in joining])
            for number, one in enumerate(joining):
                try:
                    subscription = self._joined(one)
                except HeadwaterError as error:
                    refused[number] = error
                    continue
                if subscription is not None:
                    first[number] = subscription
            for session in {one.session for one in joining}:
                self._alignment.flush(session)
        failed = self._ask(list(first.values())) if first else None
        return [failed or before if number in first else before for number, before in enumerate(refused)]

    def _let_end(self, planned: Sequence[Planned]) -> None:
        """A window whose end is logged goes before anybody joins it: who comes now is none of those it ends for."""

        def is_over() -> bool:
            return not any(self._is_shown(one) and self._pipeline.is_ending(one) for one in planned)

        if not is_over() and threading.current_thread() is not self._reader.thread:
            self._rounds.wait_for(is_over, self._pipeline.limits.capture_ms_max / 1000)

    def _is_shown(self, planned: Planned) -> bool:
        """It was asked for in this life, and has begun."""
        window = self._windows.find(planned.instance.id)
        return window is not None and window.asked and window.shows

    def _joined(self, joining: Joining) -> Subscription | None:
        """The subscription, where nobody has asked for its window yet."""
        session, planned = joining.session, joining.planned
        cell = self._pipeline.cell_of(planned)
        self._check(session, cell)
        subscription = Subscription(joining.id, session, planned, cell, joining.resume)
        self._windows.join(subscription)
        window = self._windows.opened(planned.instance.id)
        self._delivery.show(subscription, window)
        return None if self._windows.ask(window) else subscription

    def _check(self, session: Session, cell: int) -> None:
        if session not in self._sessions.all:
            raise HeadwaterError("the session is closed")
        if self.subscriptions >= self._pipeline.limits.subscriptions_max:
            raise LimitExceeded(
                f"too many subscriptions: at most {self._pipeline.limits.subscriptions_max} on this server"
            )
        if (reason := self._pipeline.runner.broken.get(cell)) is not None:
            raise HeadwaterError(reason, hint=_BROKEN_HINT)

    def _ask(self, first: Sequence[Subscription]) -> HeadwaterError | None:
        """Asks the cells for these windows. Where that fails, whoever joined them meanwhile is told so."""
        try:
            clients = {one.planned.instance.id: id(one.session) for one in first}
            self._pipeline.subscribe(*(one.planned for one in first), clients=clients)
        except HeadwaterError as error:
            with self._lock:
                for one in first:
                    self._windows.unsubscribe(one.session, one.id, forget=True)
                    self._delivery.refuse(one.planned, error.message)
            return error
        return None

    def unsubscribe(self, session: Session, id: str, *, forget: bool = False) -> None:
        """The last one to leave lets the window linger a while, for whoever reconnects."""
        with self._lock:
            self._windows.unsubscribe(session, id, forget=forget)

    # — how it is

    @property
    def subscriptions(self) -> int:
        return self._windows.subscriptions

    @property
    def windows(self) -> int:
        return len(self._windows.subscribed)

    @property
    def delivered(self) -> int:
        """The log offset up to which every cell's emissions have been handed over."""
        return self.cells.slowest

    def settle(self) -> bool:
        """Waits until the cells have taken all that is in the log now; not for one that stood still the last time and
        still does."""
        return self.cells.settle(self._pipeline.log_offset - 1, _SETTLE_S)

    def tell(self, failure: str | None, unanswered: Mapping[int, str]) -> None:
        """Called by the monitor. Without the lock: it must be heard also when the hub itself is what does not move."""
        for session in tuple(self._sessions.all):
            if session.failure != failure:
                session.failure = failure
                session.sink.health(failure)
        if unanswered or self._unanswered:
            for one in [one for session in tuple(self._sessions.all) for one in tuple(session.answered.values())]:
                _tell_unanswered(one, unanswered.get(one.planned.instance.id))
        self._unanswered = bool(unanswered)


def _tell_unanswered(subscription: Subscription, reason: str | None) -> None:
    """What follows an answer, after a time without, is that it is right again."""
    before, subscription.failure = subscription.failure, reason
    if reason is not None and reason != before and subscription.started:
        subscription.session.sink.failed(subscription.id, reason)
    elif reason is None and before is not None:
        subscription.right_through = -1
