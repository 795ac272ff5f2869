"""A PostgreSQL database as a source. Changes come from its write-ahead log, whoever makes them.

It creates a publication and a replication slot, and adds tables to the publication when they are captured; it alters
nothing of the user's. Positions are places in the write-ahead log just behind a commit, or such that nothing of ours
was committed in between.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headwater.fs.permissions import make_directory
from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.model.schema import Table
from headwater.sources.cancellation import QUESTION_S_MAX, Cancellation
from headwater.sources.postgres.catalog import publication as publishing
from headwater.sources.postgres.catalog.captured_table import Captured
from headwater.sources.postgres.catalog.dependencies import prepared, reads_of, relations_of
from headwater.sources.postgres.catalog.event_trigger import announce
from headwater.sources.postgres.catalog.tables import (
    Shape,
    capturable,
    qualified,
    read_shapes,
    read_types,
    refuse_secured,
    rows_about,
)
from headwater.sources.postgres.copy import batches
from headwater.sources.postgres.ddl_poll import Watch
from headwater.sources.postgres.row_cache.row_cache import Keeping
from headwater.sources.postgres.server.blockers import blocked, deadline
from headwater.sources.postgres.server.connections import (
    Connection,
    Sessions,
    answered,
    interruptible,
    limit_time,
    speaking,
    told,
)
from headwater.sources.postgres.server.lsn import end_of_record, parse_lsn
from headwater.sources.postgres.server.parameters import bound
from headwater.sources.postgres.server.value_types import Types
from headwater.sources.postgres.stream import Slot, Stream
from headwater.sources.postgres.wire.replication import temporary_slot
from headwater.sources.postgres.wire.snapshot_position import Seen
from headwater.sources.source import Answer, Item, Lost, Moment, Params, Reads, Redefinition
from headwater.sources.writes import Writing

ROWS_MAX = 1 << 14  # changes of one call, but for a transaction that is larger
PROGRESS_S = 1.0  # while nothing of ours changes, the position is told as often
_PLACE_S = 30.0
_READ_MAX = 1024  # queries of which it is remembered what they read
_AGAIN_S = 0.002
_REFUSED_MAX = 2  # then the server is taken to be shutting down
WRITERS_S_MAX = 20.0  # to wait for transactions of others, before anything of a table can be followed
_NOW = "SELECT pg_current_wal_insert_lsn()::text"
_SEEN = "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
_REWRITTEN = """
SELECT oid FROM pg_class
WHERE oid = ANY (%s::int8[]) AND relkind = 'r' AND relfilenode IS DISTINCT FROM pg_relation_filenode(oid)
"""
_NUDGE = "SELECT pg_logical_emit_message(true, 'headwater', 'nudge')"
_ABOUT = """
SELECT current_database(), (SELECT oid::int8 FROM pg_database WHERE datname = current_database()),
       (SELECT system_identifier FROM pg_control_system()), current_setting('wal_block_size')::int8,
       pg_size_bytes(current_setting('wal_segment_size')), current_setting('server_version')
"""
_QUESTIONS = {
    "default_transaction_read_only": "on",
    "statement_timeout": f"{QUESTION_S_MAX * 1000:.0f}",
}
T = TypeVar("T")


class PostgresSource(Writing):
    """`changes` belongs to one thread; everything else may be called from any."""

    dialect = "postgres"
    holds_log, ephemeral = True, False
    address: str | None = None  # the position of a snapshot is found in the stream, which is read here

    def __init__(self, url: str) -> None:
        self._sessions, self._questions = Sessions(url), Sessions(url, _QUESTIONS)
        with self._sessions.lent() as db:
            row = db.execute(_ABOUT).fetchone()
            assert row is not None
            database, oid, system, self._page_bytes, self._segment_bytes, self._version = row
        digest = hashlib.blake2b(f"{system}/{oid}".encode(), digest_size=4).hexdigest()
        self.name = f"{database}-{digest}"
        self._keeping: Keeping | None = None
        self._slot_name = ""
        self._stream: Stream | None = None
        self._watch = Watch(self._sessions, self._slot_here)
        self._capturing, self._abandoning = threading.RLock(), threading.Lock()
        self._idle = threading.Condition()  # waited on while there is no stream
        self._handed = -1  # the last position that `changes` gave
        self._floor = 0  # no answer may be older than this
        self._wanted = 0  # somebody may wait for this to be told
        self._progress_at_s = 0.0
        self._over: str | None = None  # why the stream ends, until the one who takes changes was told
        self._lost: dict[str, str] = {}  # tables whose changes were lost while we were away, and why
        self._in_transaction = threading.local()
        self._relations: dict[str, tuple[str, ...]] = {}  # by query: the tables it reads, as SQL names them
        self._closed = False

    # Tables

    def attach(self, directory: Path) -> None:
        """Slot and publication are named after the directory; what we keep beside the origin goes there."""
        make_directory(directory)
        self._stream = None  # of a directory that was damaged and cleared
        self._slot_name = publishing.name_for(directory)
        self._keeping = Keeping(directory)
        if self._keeping.captures:
            self._resume(self._keeping)
        else:
            self._discard_left_over()

    def tables(self) -> tuple[Table, ...]:
        with self._sessions.lent() as db:
            shapes = read_shapes(db)
        known = self._keeping.captures if self._keeping is not None else {}
        found = [shape for shape in shapes.values() if not shape.is_partition and shape.sent]
        return tuple(_as_known(shape, known.get(shape.oid)) for shape in found)

    def rows_about(self, table: str) -> int | None:
        with self._sessions.lent() as db:
            return rows_about(db, capturable(db, table))

    def capture(self, table: str) -> Table:
        with self._capturing:
            with self._sessions.lent() as db:
                shape = capturable(db, table)
            self._refuse_lost(table)
            keeping, stream = self._streaming()
            known = keeping.captures.get(shape.oid)
            if known is not None:
                return known.table
            self._refuse_replaced(table, keeping, stream)
            with stream.moved:
                stream.translation.begin(shape.oid)
            try:
                return self._captured(shape, keeping, stream)
            except BaseException:
                if not keeping.captures:
                    self._give_back(stream)
                raise
            finally:
                with stream.moved:
                    stream.translation.waiting.pop(shape.oid, None)

    def _refuse_replaced(self, table: str, keeping: Keeping, stream: Stream) -> None:
        """Who counts on the table of before must hear that it is another one; changes of both have the same name."""
        with stream.moved:
            old = next((one for one in keeping.captures.values() if one.table.name == table), None)
            if old is None:
                return
            reason = f"table {table} was replaced by another one"
            stream.give([stream.translation.ended(old, reason, stream.position + 1)])
        raise SourceError(reason, hint="subscribe again")

    def _give_back(self, stream: Stream) -> None:
        """A slot that nothing is captured through holds back the origin's log for nothing."""
        self._stream = None
        stream.close()
        with suppress(SourceError):
            self._discard_left_over()

    def _captured(self, shape: Shape, keeping: Keeping, stream: Stream) -> Table:
        """Published, then read when every change of it is told: what comes later than its rows, the stream tells."""
        with self._sessions.lent() as db:
            publishing.publish(db, self._slot_name, shape)
            pids = publishing.wait_for_writers(db, {shape.oid} | shape.parts, WRITERS_S_MAX)
        if pids:
            raise blocked(self._sessions, WRITERS_S_MAX, f"begin to follow table {shape.name}", pids)
        with self._snapshot(shape, 1 << 16) as snapshot:
            with stream.moved:
                keeping.purge(shape.oid)
            keeping.seed(snapshot.capture, snapshot)
            capture = snapshot.capture
        with stream.moved:
            keeping.begin(capture)
            try:
                stream.translation.ready(capture)
            except SourceError:
                keeping.drop(stream.position + 1, capture.oid)  # it lacks what was said meanwhile
                raise
            self._floor = max(self._floor, stream.position)
        return capture.table

    def _streaming(self) -> tuple[Keeping, Stream]:
        if self._keeping is None:
            raise SourceError("expected a data directory before tables are captured, found none")
        if self._stream is None:
            link, since = self._made_slot()
            self._keeping.note("since", since)
            self._open(self._keeping, since, link)
        assert self._stream is not None
        return self._keeping, self._stream

    def _made_slot(self) -> tuple[Connection | None, int]:
        """Where it begins, and the connection that it ends with, if it is to end with one."""
        with self._sessions.lent() as db:
            publishing.create(db, self._slot_name)
            try:
                if self.ephemeral:
                    return temporary_slot(self._sessions, self._slot_name, WRITERS_S_MAX)
                with deadline(self._sessions, db, WRITERS_S_MAX, "begin to follow the database"):
                    return None, publishing.create_slot(db, self._slot_name)
            except BaseException:
                with suppress(SourceError):
                    self._discard_left_over()
                raise

    def _resume(self, keeping: Keeping) -> None:
        with self._sessions.lent() as db:
            gone = publishing.lack(db, self._slot_name)
            if gone is None:
                announce(db)
        if gone is None:
            self._open(keeping, keeping.number("since"))
            return
        for capture in list(keeping.captures.values()):
            keeping.drop(keeping.position + 1, capture.oid)
            self._lost[capture.table.name] = _unknown_since(gone)
        self._discard_left_over()

    def _refuse_lost(self, table: str) -> None:
        """Who counts on the rows of before must hear that they are not right any more; who begins now need not."""
        reason = self._lost.pop(table, None)
        if reason is not None:
            raise Lost(reason, hint="subscribe again")

    def _open(self, keeping: Keeping, since: int, link: Connection | None = None) -> None:
        self._stream = Stream(self._sessions, Slot(self._slot_name, since), keeping, self._look, link)
        with self._idle:
            self._idle.notify_all()

    def _discard_left_over(self) -> None:
        """A slot by our name that nobody knows of holds back the origin's log for nothing."""
        with self._sessions.lent() as db:
            publishing.remove(db, self._slot_name)

    def _look(self, oid: int) -> tuple[Shape | None, Types]:
        with self._sessions.lent() as db:
            return read_shapes(db, [oid]).get(oid), read_types(db)

    def _slot_here(self) -> str:
        return self._slot_name

    def captured(self) -> frozenset[str] | None:
        kept = self._keeping.captures if self._keeping is not None else {}
        return frozenset(one.table.name for one in kept.values()) | self._lost.keys()

    # Changes

    def changes(self, after: int, timeout_s: float) -> list[Item]:
        until_s = time.monotonic() + timeout_s
        self._lost.clear()
        while True:
            stream = self._stream
            found = self._idle_changes(after, until_s) if stream is None else self._told(stream, after, until_s)
            if found or self._closed or time.monotonic() >= until_s:
                return found

    def _idle_changes(self, after: int, until_s: float) -> list[Item]:
        """While no table is captured, nothing can be missed."""
        with self._idle:
            self._idle.wait_for(
                lambda: self._closed or self._stream is not None or self._wanted > after,
                max(0.0, until_s - time.monotonic()),
            )
            wanted = self._wanted  # before it is seen that there is no stream: later, one may be behind it
            ahead = self._stream is None and wanted > after
        return self._handing([Transaction(wanted, ())]) if ahead else []

    def _told(self, stream: Stream, after: int, until_s: float) -> list[Item]:
        try:
            return self._ended(stream, after) if self._over is not None else self._taken(stream, after, until_s)
        except Lost as lost:
            with self._sessions.lent() as db:
                gone = publishing.lack(db, self._slot_name)
            self.abandon(gone or lost.message)
            return self._ended(stream, after)

    def _ended(self, stream: Stream, after: int) -> list[Item]:
        """The end of every table, also of one whose rows are being read just now. The next capture begins anew."""
        with self._capturing:
            items = stream.end(_unknown_since(self._over or ""), after)
            self._stream = self._over = None
        return self._handing(items)

    def abandon(self, reason: str) -> None:
        """Once: who takes changes may find the slot gone before it is known why."""
        with self._abandoning:
            stream = self._stream
            if stream is None or self._over is not None:
                return
            stream.close()
            with self._sessions.lent() as db:
                publishing.remove(db, self._slot_name)
            self._over = reason

    def lag_bytes(self) -> int:
        if self._stream is None:
            return 0
        with self._sessions.lent() as db:
            return publishing.lag_bytes(db, self._slot_name)

    def _taken(self, stream: Stream, after: int, until_s: float) -> list[Item]:
        self._stand_at(stream, after)
        unseen = self._looked(stream)
        if unseen is not None and self._watch.refused >= _REFUSED_MAX:
            stream.let_go()
            raise unseen
        pause_s = min(max(0.0, until_s - time.monotonic()), PROGRESS_S, self._watch.due_in_s())
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
            self._watch.tell(stream, self._now)
            if stream.is_held or self._watch.has_found_another:
                self._nudge()  # so that the stream gets past what was looked at
        except Lost:
            raise
        except SourceError as error:
            return error
        return None

    def _finds_other_files(self, stream: Stream) -> bool:
        """A partition may have been truncated, which the stream does not tell: nothing is told before that is known,
        but to a server that lets nobody look."""
        try:
            if not self._watch.finds_other_files(stream):
                return False
            if self._watch.looks_now():
                return True
            self._nudge()
        except SourceError:
            return False
        stream.follow(lambda: self._watch.has_news(stream), PROGRESS_S, takes=True)
        return True

    def _stand_at(self, stream: Stream, after: int) -> None:
        """Reads on, or again from what is durable where something older is asked for."""
        keeping = self._keeping
        assert keeping is not None
        if after < keeping.position and keeping.position > keeping.number("since"):
            raise SourceError(
                f"the changes after position {after} are gone: the log is known to be durable up to {keeping.position}",
                hint="start again with a fresh data directory",
            )
        if after < self._handed:
            with self._capturing:  # what is said of a table while its rows are read must not be forgotten
                stream.rewind()
            self._watch.forget()
        self._handed = after
        stream.stand_at(after)

    def _is_due(self, stream: Stream, after: int) -> bool:
        heard = stream.translation.heard_ddl or self._watch.has_news(stream)
        return heard or stream.has_items() or self._is_progress_due(stream.reportable, after)

    def _is_progress_due(self, reached: int, after: int) -> bool:
        return reached > after and (after < self._wanted <= reached or time.monotonic() >= self._progress_at_s)

    def _handing(self, items: list[Item]) -> list[Item]:
        if items:
            self._handed = max(self._handed, *(item.position for item in items))
            if any(isinstance(item, Redefinition) for item in items):
                self._relations.clear()
            self._floor = max(self._floor, self._handed)
            self._progress_at_s = time.monotonic() + PROGRESS_S
            if self._stream is not None:
                self._stream.passed(self._handed)
        return items

    def position(self) -> int:
        with self._sessions.lent() as db:
            now = self._known_now(db)
        self._floor = max(self._floor, now)
        return self._tell(now)

    def schema_position(self) -> int:
        stream = self._stream
        if stream is None:
            return 0
        with self._sessions.lent() as db:
            if self._watch.hears and stream.position >= self._now(db) and self._watch.is_settled(stream):
                return 0
            is_current, log = self._watch.is_current(db, stream)
            return 0 if is_current else self._tell(self._held(db, stream, self._end_of(log)))

    def _known_now(self, db: Connection) -> int:
        """A position that somebody may wait for: not told before every change of the catalog until now is. Where DDL
        says so in the stream, what comes after it waits by itself."""
        stream = self._stream
        if stream is None or self._watch.hears:
            return self._now(db)
        is_current, log = self._watch.is_current(db, stream)
        now = self._end_of(log)
        return now if is_current else self._held(db, stream, now)

    def _held(self, db: Connection, stream: Stream, now: int) -> int:
        """A position, not before this one, that is held until the catalog was looked at."""
        until_s, is_fresh = time.monotonic() + _PLACE_S, self._handed >= 0  # else an earlier life may have told it
        while not is_fresh or not stream.hold(now):  # it was told already: a later one
            if time.monotonic() > until_s:
                raise SourceError(f"expected PostgreSQL's log past {now}, which was read before, found it to end there")
            db.execute(_NUDGE)
            now, is_fresh = self._now(db), True
        return now

    def _now(self, db: Connection) -> int:
        row = db.execute(_NOW).fetchone()
        assert row is not None
        return self._end_of(row[0])

    def _end_of(self, log: str) -> int:
        return end_of_record(parse_lsn(log), self._page_bytes, self._segment_bytes)

    def _tell(self, position: int) -> int:
        """Somebody may wait for this position: it is reported as soon as it is reached."""
        self._wanted = max(self._wanted, position)
        stream = self._stream
        if stream is not None:
            stream.wake()
        else:
            with self._idle:
                self._idle.notify_all()
        return position

    def forget(self, position: int) -> None:
        stream = self._stream
        if stream is not None:
            stream.settle(position)
        elif self._keeping is not None:
            self._keeping.settle(position)
            self._keeping.tidy()

    # Reading

    def snapshot(self, table: str, rows_max: int = 65536) -> PostgresSnapshot:
        with self._sessions.lent() as db:
            shape = capturable(db, table)
        if self._keeping is None or shape.oid not in self._keeping.captures:
            raise SourceError(f"table {table!r} is not captured", hint="capture it first")
        return self._snapshot(shape, rows_max)

    def _snapshot(self, shape: Shape, rows_max: int) -> PostgresSnapshot:
        return self._again(lambda floor: self._try_snapshot(shape, rows_max, floor))

    def _try_snapshot(self, shape: Shape, rows_max: int, floor: int) -> PostgresSnapshot | None:
        with ExitStack() as stack:
            db = stack.enter_context(self._sessions.reading(qualified(shape)))
            position = self._place(self._seen(db), floor)
            if position is None:
                return None
            now = read_shapes(db, [shape.oid]).get(shape.oid)
            if now is None or now.name != shape.name:
                raise SourceError(f"table {shape.name!r} went away while it was read", hint="subscribe again")
            refuse_secured(now)
            known = self._keeping.captures.get(shape.oid) if self._keeping is not None else None
            capture = known if known is not None and _fits(known, now) else _capture_of(now, position)
            return PostgresSnapshot(db, stack.pop_all(), capture, qualified(now), self._tell(position), rows_max)

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
        text, values = bound(sql, params)
        relations = self._relations_of(text)
        ending = cancellation or Cancellation()
        return self._again(lambda floor: self._try_query(text, values, relations, floor, ending))

    def _try_query(
        self, sql: str, values: tuple[Any, ...], relations: tuple[str, ...], floor: int, cancellation: Cancellation
    ) -> Answer | None:
        with self._questions.reading(*relations, cancellation=cancellation) as db:
            seen = self._seen(db)
            columns, rows = answered(db, sql, values, read_types, cancellation)
        position = self._place(seen, floor)
        return Answer(columns, rows, self._tell(position)) if position is not None else None

    @contextmanager
    def moment(self) -> Iterator[Moment]:
        moment = self._again(self._try_moment)
        with moment.stack:
            yield moment

    def _try_moment(self, floor: int) -> PostgresMoment | None:
        with ExitStack() as stack:
            db = stack.enter_context(self._questions.reading())
            position = self._place(self._seen(db), floor)
            if position is None:
                return None
            captures = self._keeping.captures.values() if self._keeping is not None else ()
            oids = tuple(oid for capture in list(captures) for oid in (capture.oid, *capture.parts))
            return PostgresMoment(db, self._tell(position), stack.pop_all(), oids)

    def _seen(self, db: Connection) -> Seen:
        row = db.execute(_SEEN).fetchone()
        assert row is not None
        return Seen.parse(row[0], self._end_of(row[1]))

    def _place(self, seen: Seen, floor: int) -> int | None:
        stream = self._stream
        return seen.upto if stream is None else stream.place(seen, floor, self._nudge, _PLACE_S)

    def _again(self, attempt: Callable[[int], T | None]) -> T:
        """Until what was read has a position, and is no older than what was reported before it was asked for."""
        until_s = time.monotonic() + _PLACE_S
        while True:
            found = attempt(self._floor)
            if found is not None:
                return found
            if time.monotonic() > until_s:
                raise SourceError(
                    "PostgreSQL has logged commits that it does not show yet",
                    hint="does it wait for a synchronous standby?",
                )
            time.sleep(_AGAIN_S)

    def _nudge(self) -> None:
        """A commit of ours makes the server write and send all that came before."""
        with self._sessions.lent() as db:
            db.execute(_NUDGE)

    def prepare(self, sql: str) -> None:
        with self._questions.lent() as db:
            prepared(db, sql)

    def reads(self, sql: str, params: Params = ()) -> Reads:
        text, values = bound(sql, params)
        with self._questions.lent() as db:
            reads = reads_of(db, text, len(values))
        self._watch.sees_through = self._watch.sees_through or reads.sees_through
        return reads

    def _relations_of(self, sql: str) -> tuple[str, ...]:
        if sql not in self._relations:
            if len(self._relations) >= _READ_MAX:
                self._relations.clear()
            with self._questions.lent() as db:
                self._relations[sql] = relations_of(db, sql)
        return self._relations[sql]

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
                writes.position = self._tell(self._known_now(db))
        finally:
            self._in_transaction.open = False

    # The rest

    def detach(self) -> list[str]:
        with self._sessions.lent() as db:
            removed = self._let_go(db) + publishing.remove_all(db)
            read = publishing.in_use(db)
        if read and not removed:
            raise SourceError(
                f"expected nobody to read from {', '.join(read)}, found a Headwater that does",
                hint="stop it, then detach again",
            )
        return removed

    def _let_go(self, db: Connection) -> list[str]:
        if self._stream is None:
            return []
        self._stream.close()
        return publishing.remove(db, self._slot_name)

    def notes(self) -> tuple[str, ...]:
        return (
            f"PostgreSQL {self._version}: its types are listed in docs/postgres.md",
            "row-level security of the origin is not applied to subscribers",
        )

    def close(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.close()
        with self._idle:
            self._idle.notify_all()
        with self._capturing:
            if self.ephemeral and self._stream is not None:
                with suppress(SourceError):
                    self._discard_left_over()
            self._sessions.close()
            self._questions.close()


class PostgresWrites:
    """Statements inside the transaction that `transaction()` holds open."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self.position = 0

    def execute(self, sql: str, params: Params = ()) -> None:
        told(self._db, *bound(sql, params))

    def executemany(self, sql: str, rows: Iterable[Params]) -> None:
        for row in rows:
            told(self._db, *bound(sql, row))


@dataclass(frozen=True, slots=True)
class PostgresMoment:
    """A snapshot whose place in the stream is known, while none of the tables with these `oids` is rewritten: a table
    that was truncated looks empty also to snapshots that are older."""

    db: Connection
    position: int
    stack: ExitStack
    oids: tuple[int, ...]

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer | None:
        ending = cancellation or Cancellation()
        with interruptible(self.db, ending):
            limit_time(self.db, ending)
            columns, rows = answered(self.db, *bound(sql, params), read_types, ending)
        rewritten = self.db.execute(_REWRITTEN, (list(self.oids),)).fetchone() is not None
        return None if rewritten else Answer(columns, rows, self.position)


class PostgresSnapshot:
    """A table in one read transaction, which ends with the `with` block."""

    def __init__(
        self, db: Connection, stack: ExitStack, capture: Captured, relation: str, position: int, rows_max: int
    ) -> None:
        self._db, self._stack, self._relation, self._rows_max = db, stack, relation, rows_max
        self.capture, self.position = capture, position

    @property
    def table(self) -> Table:
        return self.capture.table

    def __iter__(self) -> Iterator[Any]:
        with speaking():
            yield from batches(self._db, self.capture, self._relation, self._rows_max)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()


def _unknown_since(reason: str) -> str:
    return f"{reason}, and with it the changes since"


def _capture_of(shape: Shape, position: int) -> Captured:
    table = shape.table(schema_id=position)
    identity = shape.identity_columns if shape.identity != "f" else shape.key
    places = tuple(table.index(name) for name in identity or table.names)
    return Captured(
        shape.oid, table, tuple(field.type for field in shape.sent), places, position, shape.parts, shape.grounds
    )


def _fits(capture: Captured, shape: Shape) -> bool:
    return capture.table.names == tuple(field.name for field in shape.sent) and capture.types == tuple(
        field.type for field in shape.sent
    )


def _as_known(shape: Shape, capture: Captured | None) -> Table:
    return capture.table if capture is not None and _fits(capture, shape) else shape.table()
