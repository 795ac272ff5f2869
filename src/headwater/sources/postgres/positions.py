"""Positions that are handed out: where the source stands now, and what somebody may wait for. A position is a place in
the write-ahead log just behind a commit, or such that nothing of ours was committed in between."""

from __future__ import annotations

import time

from headwater.model.errors import SourceError
from headwater.sources.postgres.ddl_poll import DdlPoll
from headwater.sources.postgres.server.connections import Connection, Sessions
from headwater.sources.postgres.server.wal import NUDGE, WriteAheadLog
from headwater.sources.postgres.slot import CaptureSlot
from headwater.sources.postgres.stream import Stream

PLACE_S = 30.0


class Positions:
    """Safe to use from any thread; `handed` is written by the one that takes changes."""

    def __init__(self, sessions: Sessions, wal: WriteAheadLog, slot: CaptureSlot, ddl_poll: DdlPoll) -> None:
        self._sessions, self._wal, self._slot, self._ddl_poll = sessions, wal, slot, ddl_poll
        self.handed = -1  # the last position that `changes` gave
        self.floor = 0  # no answer may be older than this
        self.wanted = 0  # somebody may wait for this to be told

    def now(self) -> int:
        with self._sessions.lent() as db:
            now = self.known_now(db)
        self.raise_floor(now)
        return self.tell(now)

    def schema_position(self) -> int:
        stream = self._slot.stream
        if stream is None:
            return 0
        with self._sessions.lent() as db:
            if self._ddl_poll.hears and stream.position >= self._wal.end(db) and self._ddl_poll.is_settled(stream):
                return 0
            is_current, log = self._ddl_poll.is_current(db, stream)
            return 0 if is_current else self.tell(self._held(db, stream, self._wal.position_of(log)))

    def known_now(self, db: Connection) -> int:
        """A position that somebody may wait for: not told before every change of the catalog until now is. Where DDL
        says so in the stream, what comes after it waits by itself."""
        stream = self._slot.stream
        if stream is None or self._ddl_poll.hears:
            return self._wal.end(db)
        is_current, log = self._ddl_poll.is_current(db, stream)
        now = self._wal.position_of(log)
        return now if is_current else self._held(db, stream, now)

    def _held(self, db: Connection, stream: Stream, now: int) -> int:
        """A position, not before this one, that is held until the catalog was looked at."""
        until_s, is_fresh = time.monotonic() + PLACE_S, self.handed >= 0  # else an earlier life may have told it
        while not is_fresh or not stream.hold(now):  # it was told already: a later one
            if time.monotonic() > until_s:
                raise SourceError(f"PostgreSQL's log still ends at {now}, which was already read")
            db.execute(NUDGE)
            now, is_fresh = self._wal.end(db), True
        return now

    def tell(self, position: int) -> int:
        """Somebody may wait for this position: it is reported as soon as it is reached."""
        self.wanted = max(self.wanted, position)
        stream = self._slot.stream
        if stream is not None:
            stream.wake()
        else:
            with self._slot.idle:
                self._slot.idle.notify_all()
        return position

    def raise_floor(self, position: int) -> None:
        self.floor = max(self.floor, position)
