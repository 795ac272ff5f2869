"""The replication slot of one data directory, with the stream that is read from it and the rows that are cached beside
it: created for the first captured table, resumed after a restart, removed when nothing is captured through it."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from headwater.fs.permissions import make_directory
from headwater.model.errors import SourceError
from headwater.model.value import Row
from headwater.sources.postgres.catalog import publication as publishing
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.catalog.event_trigger import announce
from headwater.sources.postgres.catalog.tables import PostgresTable, read_shapes, read_types
from headwater.sources.postgres.copy import row_of
from headwater.sources.postgres.row_cache.row_cache import RowCache
from headwater.sources.postgres.server.blocking_transactions import Patience, blocked, deadline
from headwater.sources.postgres.server.connections import Connection, Sessions
from headwater.sources.postgres.server.value_types import Types
from headwater.sources.postgres.stream import Slot, Stream
from headwater.sources.postgres.wire.messages import Cells
from headwater.sources.postgres.wire.replication import temporary_slot
from headwater.sources.source import ChangesLost, Item

WRITERS_S_MAX = 20.0  # to wait for transactions of others, before anything of a table can be followed


class CaptureSlot:
    """`stream` is None while nothing is captured. `capturing` is held by whoever captures a table, or ends the stream;
    `idle` is waited on while there is no stream."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.name = ""
        self.row_cache: RowCache | None = None
        self.stream: Stream | None = None
        self.capturing, self._abandoning = threading.RLock(), threading.Lock()
        self.idle = threading.Condition()
        self.over: str | None = None  # why the stream ends, until the one who takes changes was told
        self.lost: dict[str, str] = {}  # tables whose changes were lost while we were away, and why
        self.closed = False
        self._patience = Patience()

    # It begins

    def attach(self, directory: Path) -> None:
        """Slot and publication are named after the directory; what we keep beside the source goes there."""
        make_directory(directory)
        self.stream = None  # of a directory that was damaged and cleared
        self.name = publishing.name_for(directory)
        self.row_cache = RowCache(directory)
        if self.row_cache.captures:
            self._resume(self.row_cache)
        else:
            self._discard()

    def streaming(self, *, temporary: bool) -> tuple[RowCache, Stream]:
        if self.row_cache is None:
            raise SourceError("there is no data directory: attach one before a table is captured")
        if self.stream is None:
            link, since = self._create(temporary)
            self.row_cache.note("since", since)
            self._open(self.row_cache, since, link)
        assert self.stream is not None
        return self.row_cache, self.stream

    def _create(self, temporary: bool) -> tuple[Connection | None, int]:
        """Where it begins, and the connection that it ends with, if it is to end with one."""
        with self._sessions.lent() as db:
            publishing.create(db, self.name)
            try:
                if temporary:
                    return temporary_slot(self._sessions, self.name, self._patience, WRITERS_S_MAX)
                with deadline(self._sessions, db, self._patience, WRITERS_S_MAX, "start capturing the database"):
                    return None, publishing.create_slot(db, self.name)
            except BaseException:
                with suppress(SourceError):
                    self._discard()
                raise

    def _resume(self, row_cache: RowCache) -> None:
        with self._sessions.lent() as db:
            gone = publishing.lack(db, self.name)
            if gone is None:
                announce(db)
        if gone is None:
            self._open(row_cache, row_cache.number("since"))
            return
        for capture in list(row_cache.captures.values()):
            row_cache.drop(row_cache.position + 1, capture.oid)
            self.lost[capture.table.name] = _unknown_since(gone)
        self._discard()

    def _open(self, row_cache: RowCache, since: int, link: Connection | None = None) -> None:
        slot = Slot(self.name, since)
        self.stream = Stream(self._sessions, slot, row_cache, self._look, self._reread, link)
        with self.idle:
            self.idle.notify_all()

    def _look(self, oid: int) -> tuple[PostgresTable | None, Types]:
        with self._sessions.lent() as db:
            return read_shapes(db, [oid]).get(oid), read_types(db)

    def _reread(self, capture: CapturedTable, named: Cells, xid: int) -> Row | None:
        with self._sessions.lent() as db:
            return row_of(db, capture, named, xid)

    def publish(self, shape: PostgresTable) -> None:
        """Returns when every later change of the table will be told: no transaction writes to it that began before."""
        with self._sessions.lent() as db:
            publishing.publish(db, self.name, shape)
            pids = publishing.wait_for_writers(db, {shape.oid} | shape.parts, WRITERS_S_MAX, self._patience.over)
        self._patience.check()
        if pids:
            raise blocked(self._sessions, WRITERS_S_MAX, f"start capturing table {shape.name}", pids)

    def refuse_lost(self, table: str) -> None:
        """Who counts on the rows of before must hear that they are not right any more; who begins now need not."""
        reason = self.lost.pop(table, None)
        if reason is not None:
            raise ChangesLost(reason, hint="subscribe again")

    # It ends

    def abandon(self, reason: str) -> None:
        """Once: who takes changes may find the slot gone before it is known why."""
        with self._abandoning:
            stream = self.stream
            if stream is None or self.over is not None:
                return
            stream.close()
            with self._sessions.lent() as db:
                publishing.remove(db, self.name)
            self.over = reason

    def lack(self) -> str | None:
        """What became of it, where it cannot be read from any more."""
        with self._sessions.lent() as db:
            return publishing.lack(db, self.name)

    def ended(self, stream: Stream, after: int) -> list[Item]:
        """The end of every table, also of one whose rows are being read just now. The next capture begins anew."""
        with self.capturing:
            items = stream.end(_unknown_since(self.over or ""), after)
            self.stream = self.over = None
        return items

    def give_back(self, stream: Stream) -> None:
        """A slot that nothing is captured through holds back the source's log for nothing."""
        self.stream = None
        stream.close()
        with suppress(SourceError):
            self._discard()

    def let_go(self, db: Connection) -> list[str]:
        if self.stream is None:
            return []
        self.stream.close()
        return publishing.remove(db, self.name)

    def lag_bytes(self) -> int:
        if self.stream is None:
            return 0
        with self._sessions.lent() as db:
            return publishing.lag_bytes(db, self.name)

    def close(self) -> None:
        """Wakes all who wait, who find it closed."""
        self.closed = True
        self._patience.end()
        if self.stream is not None:
            self.stream.close()
        with self.idle:
            self.idle.notify_all()

    def discard_temporary(self) -> None:
        if self.stream is not None:
            with suppress(SourceError):
                self._discard()

    def _discard(self) -> None:
        """A slot by our name that nobody knows of holds back the source's log for nothing."""
        with self._sessions.lent() as db:
            publishing.remove(db, self.name)


def _unknown_since(reason: str) -> str:
    return f"{reason}; the changes since then are lost"
