"""A database in this process's memory as a source: for tests, demos and embedding.

All writes go through this object, one transaction at a time; so where transactions end is known and never guessed.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from headwater.model.errors import SourceError
from headwater.sources.cancellation import Cancellation
from headwater.sources.source import Answer, Item, Moment, Params
from headwater.sources.sqlite.base import SqliteBase, SqliteSnapshot, read_log, schema_version
from headwater.sources.sqlite.log_decoder import LogDecoder
from headwater.sources.sqlite.questions.log_position import is_installed, log_position
from headwater.sources.sqlite.schema_changes import outdated_captures, read_views

_numbers = itertools.count(1)


class MemorySource(SqliteBase):
    """One connection, used by one thread at a time."""

    address: str | None = None

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = f"memory-{name or next(_numbers)}"
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._turn = threading.Condition(threading.RLock())
        self._ends: list[int] = []
        self._decoding: LogDecoder | None = None
        self._reported = 0
        self._closed = False
        self._holders = 1

    def changes(self, after: int, timeout_s: float) -> list[Item]:
        with self._turn:
            if not self._turn.wait_for(lambda: self._closed or self._news(after), timeout_s) or self._closed:
                return []
            decoder = self._decoder_at(after)
            ends = self._ends[bisect_right(self._ends, decoder.position) :]
            items = decoder.decode(read_log(self._db, decoder.position, ends[-1]), ends)
            if items:
                self._reported = items[-1].position
        self._end_garbled(decoder)
        return items

    def _news(self, after: int) -> bool:
        return log_position(self._db) > self._decoder_at(after).position

    def _decoder_at(self, after: int) -> LogDecoder:
        now = self._decoding
        if now is None or not self._reported <= after <= now.position:
            now = self._decoding = self._decoder(self._db, after)
            self._reported = after
        elif self._stale:
            self._load(self._db, now)
        self._stale = False
        return now

    def schema_position(self) -> int:
        """All writes come through here, and are followed in their own transaction."""
        return self._schema_position

    def snapshot(self, table: str, rows_max: int = 65536, condition: str = "") -> MemorySnapshot:
        return MemorySnapshot(SqliteSnapshot(self._reading(), table, rows_max, condition))

    @contextmanager
    def moment(self) -> Iterator[Moment]:
        yield MemoryMoment(self, self.position())

    def forget(self, position: int) -> None:
        super().forget(position)
        with self._turn:
            del self._ends[: bisect_right(self._ends, self._pruned)]

    def notes(self) -> tuple[str, ...]:
        return ("tables are held in memory and are gone when the process ends",)

    def hold(self) -> bool:
        """One more user, who closes it once more. False when it is closed already."""
        with self._turn:
            self._holders += 0 if self._closed else 1
            return not self._closed

    def close(self) -> None:
        with self._turn:
            self._holders -= 1
            if self._holders == 0:
                self._closed = True
                self._turn.notify_all()
                self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._held() as db:
            db.execute("PRAGMA query_only = ON")
            try:
                yield db
            finally:
                db.execute("PRAGMA query_only = OFF")

    @contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        with self._turn:
            if self._closed:
                raise SourceError(f"the source {self.name} is closed")
            yield self._db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._held() as db:
            if db.in_transaction:
                raise SourceError(
                    "a transaction is already open in this thread", hint="write through it, or end it first"
                )
            db.execute("BEGIN")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
            self._committed(db)

    def _committed(self, db: sqlite3.Connection) -> None:
        """Notes where the transaction ended. Captures have followed inside of it where it changed the schema, but for
        those whose types are still being found."""
        self._note_end(db)
        if schema_version(db) != self._schema_version:
            for capture in outdated_captures(db) if is_installed(db) else ():
                db.execute("BEGIN")
                self._follow(db, [capture])
                db.execute("COMMIT")
                self._note_end(db)
            self._schema_version, self._views = schema_version(db), read_views(db)
        self._verified = log_position(db)
        self._stale = True
        self._turn.notify_all()

    def _note_end(self, db: sqlite3.Connection) -> None:
        last = log_position(db)
        if last > (self._ends[-1] if self._ends else 0):
            self._ends.append(last)


@dataclass(frozen=True, slots=True)
class MemoryMoment:
    """Nothing is held: who holds the one connection keeps changes from being read. So a moment passes with a write."""

    source: MemorySource
    position: int

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer | None:
        answer = self.source.query(sql, params, cancellation)
        return answer if answer.position == self.position else None


class MemorySnapshot:
    """A table that was read in one go."""

    def __init__(self, snapshot: SqliteSnapshot) -> None:
        with snapshot:
            self.position = snapshot.position
            self.table = snapshot.table
            self._batches = list(snapshot)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._batches = []
