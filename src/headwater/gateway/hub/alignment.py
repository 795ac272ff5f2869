"""Alignment: a session gets what all of its cells have passed, in commit order, and then the position (law 8).

Every method is called under the hub's lock.
"""

from __future__ import annotations

import time

from headwater.gateway.hub.cell_progress import GridProgress
from headwater.gateway.hub.delivery import Delivery
from headwater.gateway.hub.open_sessions import OpenSessions
from headwater.gateway.hub.session import Session, Subscription
from headwater.log.record import offset_of
from headwater.pipeline.pipeline import Pipeline

_PATIENCE_S = 60.0  # for who waits for a position; later it is heard of with the heartbeat


class Alignment:
    def __init__(self, pipeline: Pipeline, cells: GridProgress, sessions: OpenSessions, delivery: Delivery) -> None:
        self._pipeline, self._cells, self._sessions, self._delivery = pipeline, cells, sessions, delivery
        self.sessions_moved = 0

    def advance(self) -> None:
        """Only sessions that something was said to, that wait for a position or that are eager are looked at: a
        position that does not concern a session costs it nothing (law 10)."""
        for session in list(self._sessions.eager):
            self.move(session, everything=True)
        for session in list(self._sessions.stirred):
            self.move(session)
        for session in list(self._sessions.awaiting):
            self._answer(session)

    def beat(self, session: Session) -> None:
        """Of most sessions all that is to be said is how far they are; also where that is nothing new, because silence
        would look like a stall."""
        if session.inbox or session.answered or session.behind is not None:
            self.move(session, everything=True)
        else:
            self.sessions_moved += 1
            session.position = max(session.position, self._cells.aligned(session.cells)[1])
        if session.position >= 0:
            session.sink.progress(session.position)

    def move(self, session: Session, *, everything: bool = False) -> None:
        self.sessions_moved += 1
        self._make_up(session)
        self.flush(session, everything=everything)
        if len(session.inbox) > self._pipeline.limits.inbox_emissions_max:
            self._overflow(session)
        if not session.inbox and session.behind is None:
            self._sessions.stirred.discard(session)

    def await_position(self, session: Session, position: int) -> None:
        session.awaited = max(position, session.awaited or 0)
        session.patience_s = time.monotonic() + _PATIENCE_S
        self._sessions.awaiting.add(session)
        self._answer(session)

    def _answer(self, session: Session) -> None:
        """Tells a session of the position that it waits for, once all its cells and answers are there."""
        assert session.awaited is not None
        if self._cells.aligned(session.cells)[1] >= session.awaited:
            self.move(session, everything=True)
        told = [session.position, *(one.right_through for one in session.answered.values())]
        if min(told) >= session.awaited or time.monotonic() > session.patience_s:
            session.awaited = None
            self._sessions.awaiting.discard(session)

    def _overflow(self, session: Session) -> None:
        """One of its cells lags, and too much of the others waits for it."""
        session.behind = max((self._cells[number].to for number in session.cells), default=0)
        self.drop(session)

    def drop(self, session: Session) -> None:
        """What was to be sent; a fresh result can make up for it."""
        session.inbox = [due for due in session.inbox if not due.is_emission]
        for subscription in session.subscriptions.values():
            subscription.started, subscription.resume = False, None
            session.sink.resync(subscription.id, "overflow")

    def _make_up(self, session: Session) -> None:
        if session.behind is None or self._cells.aligned(session.cells)[0] < session.behind:
            return
        session.behind = None
        for id in list(session.subscriptions):
            self._delivery.renew(session, id)

    def flush(self, session: Session, *, everything: bool = False) -> None:
        """Hands over what every cell of the session has passed, in commit order, then the position that is complete.

        A cell that the session has only begun to use may be behind: nothing moves until it has caught up. How far
        re-queried windows are right is told of those that have something new; of `everything` with the heartbeat.
        """
        aligned, position = self._cells.aligned(session.cells)
        if position < session.position:
            return
        ready = sorted((due for due in session.inbox if offset_of(due.tx) <= aligned), key=lambda due: due.tx)
        if ready:
            session.inbox = [due for due in session.inbox if offset_of(due.tx) > aligned]
            for due in ready:
                due.deliver()
        new = (due.subscription for due in ready if due.subscription is not None)
        asked = session.answered.values() if everything else [one for one in new if one.id in session.answered]
        told = [one for one in asked if self._tell_right(one, aligned, position)]
        if ready or told or position > session.position:
            session.position = position
            session.sink.progress(position)

    def _tell_right(self, subscription: Subscription, aligned: int, position: int) -> bool:
        """A query that the source answers is right through another position than the cells have reached.

        An answer past `aligned` is in the inbox still: its cell may be ahead of the others."""
        instance = subscription.planned.instance.id
        right = min(position, self._pipeline.right_through(instance, aligned, position))
        if not subscription.started or right <= subscription.right_through:
            return False
        subscription.right_through = right
        subscription.session.sink.ready(subscription.id, right)
        return True
