"""The open sessions, and which of them to look at in the next round: an idle session costs nothing (law 10).

Every method is called under the hub's lock.
"""

from __future__ import annotations

import time

from headwater.gateway.hub.deadlines import Deadlines
from headwater.gateway.hub.session import Due, Session, Sink


class OpenSessions:
    """`stirred` are those with something to hand over, `awaiting` those that wait for a position."""

    def __init__(self, heartbeat_ms: int) -> None:
        self._heartbeat_s = heartbeat_ms / 1000
        self._heartbeats: Deadlines[Session] = Deadlines()
        self.all: set[Session] = set()
        self._eager: set[Session] = set()
        self.stirred: set[Session] = set()
        self.awaiting: set[Session] = set()

    def open(self, sink: Sink, eager: bool) -> Session:
        session = Session(sink, eager)
        self.all.add(session)
        if eager:
            self._eager.add(session)
        else:
            self._heartbeats.set(session, time.monotonic() + self._heartbeat_s)
        return session

    def close(self, session: Session) -> None:
        for each in (self.all, self._eager, self.stirred, self.awaiting):
            each.discard(session)
        self._heartbeats.drop(session)

    def put(self, session: Session, due: Due) -> None:
        session.inbox.append(due)
        self.stirred.add(session)

    def due(self) -> set[Session]:
        """The eager ones and those whose heartbeat is due."""
        now = time.monotonic()
        quiet = self._heartbeats.due(now)
        for session in quiet:
            self._heartbeats.set(session, now + self._heartbeat_s)
        return {*self._eager, *quiet}
