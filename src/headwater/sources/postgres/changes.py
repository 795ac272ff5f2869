"""What was committed after a position, handed to the one who asks: read from the stream, with what the catalog shows
put in at its place."""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.sources.postgres.ddl_poll import DdlPoll
from headwater.sources.postgres.positions import Positions
from headwater.sources.postgres.server.wal import WriteAheadLog
from headwater.sources.postgres.slot import CaptureSlot
from headwater.sources.postgres.stream import Stream
from headwater.sources.source import ChangesLost, Item, Redefinition

ROWS_MAX = 1 << 14  # changes of one call, but for a transaction that is larger
PROGRESS_S = 1.0  # while nothing of ours changes, the position is told as often
_REFUSED_MAX = 2  # then the server is taken to be shutting down


class ChangeReader:
    """Belongs to one thread. `redefined` is called when views or functions may be others than before."""

    def __init__(
        self,
        wal: WriteAheadLog,
        slot: CaptureSlot,
        ddl_poll: DdlPoll,
        positions: Positions,
        redefined: Callable[[], None],
    ) -> None:
        self._wal, self._slot, self._ddl_poll, self._positions = wal, slot, ddl_poll, positions
        self._redefined = redefined
        self._progress_at_s = 0.0

    def after(self, after: int, timeout_s: float) -> list[Item]:
        until_s = time.monotonic() + timeout_s
        self._slot.lost.clear()
        while True:
            stream = self._slot.stream
            found = self._idle_changes(after, until_s) if stream is None else self._told(stream, after, until_s)
            if found or self._slot.closed or time.monotonic() >= until_s:
                return found

    def _idle_changes(self, after: int, until_s: float) -> list[Item]:
        """While no table is captured, nothing can be missed."""
        slot, positions = self._slot, self._positions
        with slot.idle:
            slot.idle.wait_for(
                lambda: slot.closed or slot.stream is not None or positions.wanted > after,
                max(0.0, until_s - time.monotonic()),
            )
            wanted = positions.wanted  # before it is seen that there is no stream: later, one may be behind it
            ahead = slot.stream is None and wanted > after
        return self._handing([Transaction(wanted, ())]) if ahead else []

    def _told(self, stream: Stream, after: int, until_s: float) -> list[Item]:
        try:
            return self._ended(stream, after) if self._slot.over is not None else self._taken(stream, after, until_s)
        except ChangesLost as lost:
            gone = self._slot.lack()
            self._slot.abandon(gone or lost.message)
            return self._ended(stream, after)

    def _ended(self, stream: Stream, after: int) -> list[Item]:
        return self._handing(self._slot.ended(stream, after))

    def _taken(self, stream: Stream, after: int, until_s: float) -> list[Item]:
        self._stand_at(stream, after)
        unseen = self._looked(stream)
        if unseen is not None and self._ddl_poll.refused >= _REFUSED_MAX:
            stream.let_go()
            raise unseen
        pause_s = min(max(0.0, until_s - time.monotonic()), PROGRESS_S, self._ddl_poll.due_in_s())
        stream.follow(lambda: self._is_due(stream, after), pause_s, takes=True)
        if unseen is None and self._is_due(stream, after) and self._finds_other_files(stream):
            return []
        items = stream.take(after, ROWS_MAX)
        if unseen is not None and not items:
            raise unseen
        if not items:
            items = stream.progress(lambda reached: self._is_progress_due(reached, after))
        return self._handing(items)

    def _looked(self, stream: Stream) -> SourceError | None:
        """Why the catalog could not be read, where it could not. The stream is read all the same: a server that shuts
        down lets nobody in, and waits until we have acknowledged what it sent."""
        try:
            self._ddl_poll.tell(stream, self._wal.end)
            if stream.is_held or self._ddl_poll.has_found_another:
                self._wal.nudge()  # so that the stream gets past what was looked at
        except ChangesLost:
            raise
        except SourceError as error:
            return error
        return None

    def _finds_other_files(self, stream: Stream) -> bool:
        """A partition may have been truncated, which the stream does not tell: nothing is told before that is known,
        but to a server that lets nobody look."""
        try:
            if not self._ddl_poll.finds_other_files(stream):
                return False
            if self._ddl_poll.looks_now():
                return True
            self._wal.nudge()
        except SourceError:
            return False
        stream.follow(lambda: self._ddl_poll.has_news(stream), PROGRESS_S, takes=True)
        return True

    def _stand_at(self, stream: Stream, after: int) -> None:
        """Reads on, or again from what is durable where something older is asked for."""
        row_cache = self._slot.row_cache
        assert row_cache is not None
        if after < row_cache.position and row_cache.position > row_cache.number("since"):
            raise SourceError(
                f"the changes after position {after} are gone: what is captured begins at {row_cache.position}",
                hint="start again with a fresh data directory",
            )
        if after < self._positions.handed:
            with self._slot.capturing:  # what is said of a table while its rows are read must not be forgotten
                stream.rewind()
            self._ddl_poll.forget()
        self._positions.handed = after
        stream.stand_at(after)

    def _is_due(self, stream: Stream, after: int) -> bool:
        heard = stream.decoder.heard_ddl or self._ddl_poll.has_news(stream)
        return heard or stream.has_items() or self._is_progress_due(stream.reportable, after)

    def _is_progress_due(self, reached: int, after: int) -> bool:
        is_wanted = after < self._positions.wanted <= reached
        return reached > after and (is_wanted or time.monotonic() >= self._progress_at_s)

    def _handing(self, items: list[Item]) -> list[Item]:
        if items:
            handed = self._positions.handed = max(self._positions.handed, *(item.position for item in items))
            if any(isinstance(item, Redefinition) for item in items):
                self._redefined()
            self._positions.raise_floor(handed)
            self._progress_at_s = time.monotonic() + PROGRESS_S
            if self._slot.stream is not None:
                self._slot.stream.passed(handed)
        return items
