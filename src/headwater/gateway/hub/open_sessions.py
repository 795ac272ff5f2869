"""The open sessions, and which of them to look at in the next round: an idle session costs nothing (law 10).

Every method is called under the hub's lock.
"""

from __future__ import annotations

from headwater.gateway.hub.session import Due, Session, Sink


class OpenSessions:
    """`eager` are those that hear of every position, `stirred` those with something to hand over, `awaiting` those that
    wait for a position."""

    def __init__(self) -> None:
        self.all: set[Session] = set()
        self.eager: set[Session] = set()
        self.stirred: set[Session] = set()
        self.awaiting: set[Session] = set()

    def open(self, sink: Sink, eager: bool) -> Session:
        session = Session(sink, eager)
        self.all.add(session)
        if eager:
            self.eager.add(session)
        return session

    def close(self, session: Session) -> None:
        for each in (self.all, self.eager, self.stirred, self.awaiting):
            each.discard(session)

    def put(self, session: Session, due: Due) -> None:
        session.inbox.append(due)
        self.stirred.add(session)
