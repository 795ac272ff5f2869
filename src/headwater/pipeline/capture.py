"""The capture thread: logs what the source reports, coalesced, in frames of whole transactions.

It logs only positions past the last one that it logged, so a repeated transaction has no effect.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NoReturn

from headwater.log.record import Kind, Record
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.change import Transaction
from headwater.model.coalesce import coalesce
from headwater.model.columnar_changes import TransactionSlice, among
from headwater.model.errors import HeadwaterError, SourceError
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.pipeline.delivery_lag import Backlog
from headwater.pipeline.records.control import Schema, decode_control, position_of
from headwater.pipeline.records.frame import decode_frame, encode_frames
from headwater.runtime.vital_thread import VitalThread
from headwater.sources.source import Item, SchemaChange, Source

Door = Callable[[Transaction, Mapping[str, Table]], Transaction]
_WAIT_S = 0.5
_RETRY_S = 1.0
_log = logging.getLogger("headwater.capture")


class Stopped(HeadwaterError):
    """What is waited for will not come: the pipeline is being closed."""


class Behind(SourceError):
    """The log has not come as far yet."""


class Capture:
    """`tables` are the captured tables by name, as of the last logged record; the pipeline registers new ones."""

    def __init__(
        self,
        source: Source,
        log: SegmentWriter,
        position: int,
        limits: Limits,
        on_schema: Callable[[Schema], None],
        on_changes: Callable[[Sequence[Transaction], Mapping[str, Table]], None],
        on_redefined: Callable[[], None] = lambda: None,
        door: Door = lambda transaction, tables: transaction,
    ) -> None:
        """`on_changes` is told of transactions just before they are readable; `on_schema` logs what it is told;
        `on_redefined` is told of views and functions that may be others now; `door` leaves out what nobody asks for of
        tables that are held by key."""
        self._source, self._writer, self._limits = source, log, limits
        self._on_schema, self._on_changes, self._on_redefined = on_schema, on_changes, on_redefined
        self._door = door
        self.position = position
        self.transactions = 0
        self._unsettled = 0  # changes
        self._untaken: list[Item] = []  # what could not be logged: a source tells it once
        self.failure: str | None = None
        self._turned_at = time.monotonic()
        self.backlog = Backlog(log.next_offset - 1, time.time())
        self.tables: dict[str, Table] = {}
        self.lock = threading.Lock()
        self._moved = threading.Condition()
        self._stop = threading.Event()
        self.thread = VitalThread("headwater-capture", self._run)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.release()
        self._stop.set()
        with self._moved:
            self._moved.notify_all()
        if self.thread.is_alive():
            self.thread.join()

    def reached_soon(self, position: int, seconds: float) -> None:
        """As `reached`, for somebody who must not wait for long, and comes again: raises `Behind`."""
        with self._moved:
            self._moved.wait_for(lambda: self.position >= position or self._stop.is_set(), seconds)
        if self.position < position:
            raise Behind(f"position {position} was not logged within {seconds:g} s: capture is at {self.position}")

    def reached(self, position: int) -> None:
        """Returns once everything up to the position is in the log. Raises where that does not come any nearer."""
        seconds = self._limits.capture_ms_max / 1000
        with self._moved:
            before = None
            while self.position < position and not self._stop.is_set() and self.position != before:
                before = self.position
                self._moved.wait_for(lambda: self.position >= position or self._stop.is_set(), seconds)
        if self.position < position:
            self._explain(position)

    def _explain(self, position: int) -> NoReturn:
        if self._stop.is_set():
            raise Stopped(f"position {position} was not logged: capture was stopped at {self.position}")
        why = self.failure or "no change has arrived for too long"
        raise SourceError(
            f"position {position} was not logged: capture is at {self.position}: {why}",
            hint="subscribe again when the database can be read; see `status`",
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._turned_at = time.monotonic()
            try:
                self._untaken = self._untaken or self._source.changes(self.position, _WAIT_S)
                self.take(self._untaken)
                self._untaken, self.failure = [], None
            except HeadwaterError as error:
                self._failed(error.message)
            except Exception as error:
                _log.exception("capture failed; retrying")
                self._failed(repr(error))

    @property
    def stall(self) -> str | None:
        """A database that neither answers nor refuses, or a transaction that takes long: nothing comes meanwhile."""
        most_s = self._limits.stale_ms / 1000
        return f"reading changes from the database has taken more than {most_s:g} s" if self.stalled_ms else None

    @property
    def stalled_ms(self) -> float:
        """How long nothing has come; 0 where that is not remarkable."""
        passed_ms = (time.monotonic() - self._turned_at) * 1000
        return passed_ms if self.thread.is_alive() and passed_ms > self._limits.stale_ms else 0.0

    def _failed(self, reason: str) -> None:
        if self.failure != reason:
            _log.error("capture is waiting: %s", reason)
        self.failure = reason
        self._stop.wait(_RETRY_S)

    def take(self, items: Iterable[Item]) -> None:
        """Logs what the source reported. Under the lock, so that no table is registered in between."""
        with self.lock:
            for kind, group in groupby(items, key=type):
                if kind is Transaction:
                    self._transactions([item for item in group if isinstance(item, Transaction)])
                else:
                    for item in group:
                        self._tell(item)
        if self._unsettled > self._limits.unsettled_changes_max:
            self._settle()

    def _settle(self) -> None:
        """What the source keeps of changes until they are durable here must not pile up until somebody clears away."""
        self._source.forget(self.position)
        self._unsettled = 0

    def _transactions(self, transactions: Sequence[Transaction]) -> None:
        new = [one for one in transactions if one.position > self.position]
        fresh = [self._door(self._net(one), self.tables) for one in new]
        if fresh:
            self._on_changes(fresh, self.tables)
            self._append(fresh)
            self.backlog.add(self._writer.next_offset - 1, time.time(), new[0].committed_at)
            self.transactions += len(fresh)
            self._unsettled += sum(len(one.changes) for one in fresh)

    def _append(self, transactions: Sequence[Transaction]) -> None:
        payloads = encode_frames(transactions, self.tables, limits=self._limits)
        self._writer.append_many([(Kind.FRAME, payload) for payload in payloads])
        last = transactions[-1].position
        _log.debug("logged %d transactions in %d frames, to position %d", len(transactions), len(payloads), last)
        with self._moved:
            self.position = transactions[-1].position
            self._moved.notify_all()

    def _net(self, transaction: Transaction) -> Transaction:
        """What comes as columns is net."""
        changes = among(transaction.changes, self.tables)
        known = transaction if changes is transaction.changes else Transaction(transaction.position, changes)
        return known if isinstance(changes, TransactionSlice) else coalesce(known, self.tables)

    def _tell(self, item: Item) -> None:
        """Before its position is reached: nobody is to take what they have for right there."""
        if isinstance(item, SchemaChange):
            self._log_schema(item)
        else:
            self._on_redefined()
        if item.position > self.position:
            self._append([Transaction(item.position, ())])

    def end(self, schema: Schema) -> None:
        """A table is captured no more. Under the lock."""
        del self.tables[schema.table]
        self._on_schema(schema)

    def _log_schema(self, change: SchemaChange) -> None:
        """What was said before, or of an older capture of a table by this name, is no news."""
        name = change.before.name
        known = self.tables.get(name)
        if known is None or change.before.schema_id < known.schema_id:
            return
        if change.after is not None and change.after.schema_id <= known.schema_id:
            return
        if change.after is None:
            del self.tables[name]
        else:
            self.tables[name] = change.after
        try:
            self._on_schema(Schema(name, change.after, change.reason, _retyped(known, change.after), change.lost))
        except HeadwaterError:
            self.tables[name] = known  # nobody has read of it: it is told again
            raise


def _retyped(before: Table, after: Table | None) -> bool:
    return after is not None and after.columns[: len(before.columns)] != before.columns


def last_position(log: Path, position: int | None) -> int | None:
    """The source position that the log has reached; `position` where no record in it tells of a later one.

    The highest that any record tells, not the last: rows and answers were read at a position that the log had reached
    before they were logged, and frames may have been logged in between.
    """
    reader = SegmentReader(log)
    try:
        while records := reader.poll():
            told = [one for one in (position, *map(_position_of, records)) if one is not None]
            position = max(told, default=None)
    finally:
        reader.close()
    return position


def _position_of(record: Record) -> int | None:
    if record.kind is Kind.FRAME:
        return decode_frame(record.payload, tables=()).position
    if record.kind in (Kind.ACTIVATE, Kind.ANSWER, Kind.FETCH):
        return position_of(decode_control(record))
    return None
