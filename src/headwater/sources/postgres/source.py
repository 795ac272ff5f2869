"""A PostgreSQL database as a source. Changes come from its write-ahead log, whoever makes them.

It creates a publication and a replication slot, and adds tables to the publication when they are captured; it alters
nothing of the user's.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headwater.model.errors import SourceError
from headwater.model.key_demand import Demands, KeyDemand
from headwater.model.schema import Table
from headwater.plan.join_order.statistics import Statistics
from headwater.sources.cancellation import QUESTION_S_MAX, Cancellation
from headwater.sources.postgres.catalog import publication as publishing
from headwater.sources.postgres.catalog.captured_table import as_known
from headwater.sources.postgres.catalog.dependencies import prepared, reads_of
from headwater.sources.postgres.catalog.statistics import table_statistics
from headwater.sources.postgres.catalog.tables import (
    PostgresTable,
    capturable,
    qualified_name,
    quoted,
    read_shapes,
    rows_about,
)
from headwater.sources.postgres.changes import ChangeReader
from headwater.sources.postgres.ddl_poll import DdlPoll
from headwater.sources.postgres.key_fetch import KeyFetch
from headwater.sources.postgres.positions import Positions
from headwater.sources.postgres.row_cache.row_cache import RowCache
from headwater.sources.postgres.server.connections import Sessions, told
from headwater.sources.postgres.server.parameters import bound
from headwater.sources.postgres.server.wal import WriteAheadLog
from headwater.sources.postgres.slot import CaptureSlot
from headwater.sources.postgres.snapshots import PostgresSnapshot, Snapshots
from headwater.sources.postgres.stream import Stream
from headwater.sources.postgres.writes import PostgresWrites
from headwater.sources.source import Answer, FetchedRows, Item, LoggedFetch, Moment, NotCaptured, Params, Reads
from headwater.sources.writes import StatementTransactions

_ABOUT = """
SELECT current_database(), (SELECT oid::int8 FROM pg_database WHERE datname = current_database()),
       (SELECT system_identifier FROM pg_control_system()), current_setting('wal_block_size')::int8,
       pg_size_bytes(current_setting('wal_segment_size')), current_setting('server_version')
"""
_QUESTIONS = {
    "default_transaction_read_only": "on",
    "statement_timeout": f"{QUESTION_S_MAX * 1000:.0f}",
}


class PostgresSource(StatementTransactions):
    """`changes` belongs to one thread; everything else may be called from any."""

    dialect, prepares_first = "postgres", True
    holds_log, ephemeral = True, False
    address: str | None = None  # the position of a snapshot is found in the stream, which is read here

    def __init__(self, url: str) -> None:
        self._sessions, self._questions = Sessions(url), Sessions(url, _QUESTIONS)
        with self._sessions.lent() as db:
            row = db.execute(_ABOUT).fetchone()
            assert row is not None
            database, oid, system, page_bytes, segment_bytes, self._version = row
        digest = hashlib.blake2b(f"{system}/{oid}".encode(), digest_size=4).hexdigest()
        self.name = f"{database}-{digest}"
        self._wal = WriteAheadLog(self._sessions, page_bytes, segment_bytes)
        self._slot = CaptureSlot(self._sessions)
        self._ddl_poll = DdlPoll(self._sessions, lambda: self._slot.name)
        self._positions = Positions(self._sessions, self._wal, self._slot, self._ddl_poll)
        self._snapshots = Snapshots(self._sessions, self._questions, self._wal, self._slot, self._positions)
        self._changes = ChangeReader(
            self._wal, self._slot, self._ddl_poll, self._positions, self._snapshots.forget_relations
        )
        self._keys = KeyFetch(self._slot, self._snapshots, self._positions)
        self._in_transaction = threading.local()

    # Tables

    def attach(self, directory: Path) -> None:
        self._slot.attach(directory)

    def tables(self) -> tuple[Table, ...]:
        with self._sessions.lent() as db:
            shapes = read_shapes(db)
        known = self._slot.row_cache.captures if self._slot.row_cache is not None else {}
        found = [shape for shape in shapes.values() if not shape.is_partition and shape.sent]
        return tuple(as_known(shape, known.get(shape.oid)) for shape in found)

    def rows_about(self, table: str) -> int | None:
        with self._sessions.lent() as db:
            return rows_about(db, capturable(db, table))

    def statistics(self, tables: Iterable[str]) -> Statistics:
        with self._sessions.lent() as db:
            found = {table: table_statistics(db, capturable(db, table)) for table in tables}
        return {table: each for table, each in found.items() if each is not None}

    def capture(self, table: str, *, by_key: bool = False) -> Table:
        """Begun anew where changes are read again, or the slot is lost, while transactions of others are waited for."""
        found = None
        while found is None:
            with self._slot.capturing:
                shape, row_cache, stream = self._begun(table, by_key)
                known = row_cache.captures.get(shape.oid)
            found = known.table if known is not None else self._followed(shape, row_cache, stream, by_key)
        return found

    def capture_all(self, tables: Sequence[str]) -> list[Table]:
        return [self.capture(table) for table in tables]

    def _begun(self, table: str, by_key: bool) -> tuple[PostgresTable, RowCache, Stream]:
        """What is said of the table waits from here on, unless it is captured already. What is captured by key is
        captured anew where all rows are asked for."""
        with self._sessions.lent() as db:
            shape = capturable(db, table)
        self._slot.refuse_lost(table)
        row_cache, stream = self._slot.streaming(temporary=self.ephemeral)
        known = row_cache.captures.get(shape.oid)
        if known is not None and (known.demands is not None) != by_key:
            with stream.moved:
                row_cache.drop(stream.position + 1, shape.oid)
        if shape.oid not in row_cache.captures:
            _refuse_replaced(table, row_cache, stream)
            with stream.moved:
                stream.decoder.begin(shape.oid)
        return shape, row_cache, stream

    def _followed(self, shape: PostgresTable, row_cache: RowCache, stream: Stream, by_key: bool) -> Table | None:
        """None where it is to begin anew. Others capture their tables while transactions are waited for."""
        try:
            self._slot.publish(shape)
            with self._slot.capturing:
                is_told = self._slot.stream is stream and shape.oid in stream.decoder.waiting
                return self._captured(shape, row_cache, stream, by_key) if is_told else None
        finally:
            self._end_waiting(shape, row_cache, stream)

    def _end_waiting(self, shape: PostgresTable, row_cache: RowCache, stream: Stream) -> None:
        with self._slot.capturing:
            with stream.moved:
                stream.decoder.waiting.pop(shape.oid, None)
                is_unused = not row_cache.captures and not stream.decoder.waiting
            if is_unused and self._slot.stream is stream:
                self._slot.give_back(stream)

    def _captured(self, shape: PostgresTable, row_cache: RowCache, stream: Stream, by_key: bool) -> Table:
        """Read when every change of it is told: what comes later than its rows, the stream tells. By key, nothing is
        read yet."""
        with self._snapshots.of_table(shape, 1 << 16) as snapshot:
            with stream.moved:
                row_cache.purge(shape.oid)
            capture = msgspec.structs.replace(snapshot.capture, demands=()) if by_key else snapshot.capture
            row_cache.seed(capture, () if by_key else snapshot)
        with stream.moved:
            row_cache.begin(capture)
            try:
                stream.decoder.ready(capture)
            except SourceError:
                row_cache.drop(stream.position + 1, capture.oid)  # it lacks what was said meanwhile
                raise
            self._positions.raise_floor(stream.position)
        return capture.table

    def fetch(self, table: str, demand: KeyDemand, condition: str) -> FetchedRows:
        return self._keys.fetch(table, demand, condition)

    def follow_only(self, table: str, demands: Demands, fetched: Iterable[LoggedFetch] = ()) -> bool:
        return self._keys.follow_only(table, demands, fetched)

    def captured(self) -> frozenset[str] | None:
        kept = self._slot.row_cache.captures if self._slot.row_cache is not None else {}
        return frozenset(one.table.name for one in kept.values()) | self._slot.lost.keys()

    # Changes

    def changes(self, after: int, timeout_s: float) -> list[Item]:
        return self._changes.after(after, timeout_s)

    def position(self) -> int:
        return self._positions.now()

    def schema_position(self) -> int:
        return self._positions.schema_position()

    def forget(self, position: int) -> None:
        stream, row_cache = self._slot.stream, self._slot.row_cache
        if stream is not None:
            stream.settle(position)
        elif row_cache is not None:
            row_cache.settle(position)
            row_cache.tidy()

    def lag_bytes(self) -> int:
        return self._slot.lag_bytes()

    def abandon(self, reason: str) -> None:
        self._slot.abandon(reason)

    # Reading

    def snapshot(self, table: str, rows_max: int = 65536) -> PostgresSnapshot:
        with self._sessions.lent() as db:
            shape = capturable(db, table)
        if self._slot.row_cache is None or shape.oid not in self._slot.row_cache.captures:
            raise NotCaptured(f"table {table!r} is not captured", hint="capture it first")
        return self._snapshots.of_table(shape, rows_max)

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
        return self._snapshots.of_queries([(sql, params)], cancellation or Cancellation())[0]

    def query_together(
        self, questions: Sequence[tuple[str, Params]], cancellation: Cancellation | None = None
    ) -> list[Answer]:
        return self._snapshots.of_queries(questions, cancellation or Cancellation())

    def select_all(self, table: Table) -> str:
        return f"SELECT {', '.join(map(quoted, table.names))} FROM {qualified_name(table.name)}"

    @contextmanager
    def moment(self) -> Iterator[Moment]:
        moment = self._snapshots.moment()
        with moment.stack:
            yield moment

    def prepare(self, sql: str) -> None:
        with self._questions.lent() as db:
            prepared(db, sql)

    def reads(self, sql: str, params: Params = ()) -> Reads:
        text, values = bound(sql, params)
        with self._questions.lent() as db:
            reads = reads_of(db, text, len(values))
        self._ddl_poll.sees_through = self._ddl_poll.sees_through or reads.sees_through
        return reads

    # Writing

    @contextmanager
    def transaction(self) -> Iterator[PostgresWrites]:
        if getattr(self._in_transaction, "open", False):
            raise SourceError("a transaction is already open in this thread", hint="write through it, or end it first")
        self._in_transaction.open = True
        try:
            with self._sessions.lent() as db:
                db.execute("BEGIN")
                writes = PostgresWrites(db)
                yield writes
                told(db, "COMMIT")
                writes.position = self._positions.tell(self._positions.known_now(db))
        finally:
            self._in_transaction.open = False

    # The rest

    def detach(self) -> list[str]:
        with self._sessions.lent() as db:
            removed = self._slot.let_go(db) + publishing.remove_all(db)
            read = publishing.in_use(db)
        if read and not removed:
            raise SourceError(
                f"{', '.join(read)} is in use by a running Headwater",
                hint="stop it, then detach again",
            )
        return removed

    def notes(self) -> tuple[str, ...]:
        return (
            f"PostgreSQL {self._version}: its types are listed in docs/postgres.md",
            "row-level security of the source is not applied to subscribers",
        )

    def close(self) -> None:
        self._slot.close()
        with self._slot.capturing:
            if self.ephemeral:
                self._slot.discard_temporary()
            self._sessions.close()
            self._questions.close()


def _refuse_replaced(table: str, row_cache: RowCache, stream: Stream) -> None:
    """Who counts on the table of before must hear that it is another one; changes of both have the same name."""
    with stream.moved:
        old = next((one for one in row_cache.captures.values() if one.table.name == table), None)
        if old is None:
            return
        reason = f"table {table} was replaced by another one"
        stream.give([stream.decoder.shapes.ended(old, reason, stream.position + 1)])
    raise SourceError(reason, hint="subscribe again")
