"""Reads whose position is known: a table, a query, or all of the database held still for a moment. Each is one read
transaction of PostgreSQL, whose place in the stream is looked for until it has one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from headwater.model.errors import SourceError
from headwater.model.schema import Table
from headwater.sources.cancellation import Cancellation
from headwater.sources.postgres.catalog.captured_table import CapturedTable, capture_of, has_shape
from headwater.sources.postgres.catalog.dependencies import relations_of
from headwater.sources.postgres.catalog.tables import (
    PostgresTable,
    qualified,
    qualified_name,
    read_shapes,
    read_types,
    refuse_secured,
)
from headwater.sources.postgres.copy import batches, literal
from headwater.sources.postgres.positions import PLACE_S, Positions
from headwater.sources.postgres.server.connections import (
    Connection,
    Sessions,
    answered,
    interruptible,
    limit_time,
    speaking,
)
from headwater.sources.postgres.server.parameters import bound
from headwater.sources.postgres.server.wal import WriteAheadLog
from headwater.sources.postgres.slot import CaptureSlot
from headwater.sources.postgres.wire.snapshot_position import PgSnapshot
from headwater.sources.source import Answer, Params

_READ_MAX = 1024  # queries of which it is remembered what they read
_AGAIN_S = 0.002
_SEEN = "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
_REWRITTEN = """
SELECT oid FROM pg_class
WHERE oid = ANY (%s::int8[]) AND relkind = 'r' AND relfilenode IS DISTINCT FROM pg_relation_filenode(oid)
"""
_SEEN_WITH_LOOK = """
SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text, (
    SELECT concat_ws(' ', c.oid, c.relkind, md5(string_agg(concat_ws(',', a.attnum, a.attname, a.atttypid, a.atttypmod,
           a.attgenerated, a.attisdropped), ';' ORDER BY a.attnum)))
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.oid = to_regclass({}) AND a.attnum > 0 GROUP BY c.oid, c.relkind
)
"""
_KEY_ROWS_MAX = 1 << 16
T = TypeVar("T")


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
        self, db: Connection, stack: ExitStack, capture: CapturedTable, relation: str, position: int, rows_max: int
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


@dataclass(frozen=True, slots=True)
class KeySnapshot:
    """Rows of some keys at a position."""

    position: int
    rows: tuple[Any, ...]
    fits: bool


class Snapshots:
    """Takes them, from any thread. `questions` are sessions that may only read."""

    def __init__(
        self, sessions: Sessions, questions: Sessions, wal: WriteAheadLog, slot: CaptureSlot, positions: Positions
    ) -> None:
        self._sessions, self._questions = sessions, questions
        self._wal, self._slot, self._positions = wal, slot, positions
        self._looks: dict[int, tuple[Table, str]] = {}
        self._relations: dict[str, tuple[str, ...]] = {}  # by query: the tables it reads, as SQL names them

    def of_table(self, shape: PostgresTable, rows_max: int) -> PostgresSnapshot:
        return self._again(lambda floor: self._try_table(shape, rows_max, floor))

    def of_keys(self, capture: CapturedTable, condition: str, not_before: int) -> KeySnapshot | None:
        """Those rows of a captured table for which a condition holds, no older than a position. None where the table
        does not have the shape any more that it was captured in."""
        read = self._again(lambda floor: self._try_keys(capture, condition, max(floor, not_before)))
        return read if read.fits else None

    def _try_keys(self, capture: CapturedTable, condition: str, floor: int) -> KeySnapshot | None:
        relation = qualified_name(capture.table.name)
        with self._sessions.reading_from(relation, _SEEN_WITH_LOOK.format(literal(relation))) as (db, row):
            position = self._place(self._parsed(row[0], row[1]), floor)
            if position is None:
                return None
            if not self._fits(db, capture, str(row[2])):
                return KeySnapshot(position, (), fits=False)
            with speaking():
                found = batches(db, capture, f"{relation} WHERE {condition}", _KEY_ROWS_MAX)
                return KeySnapshot(position, tuple(found), fits=True)

    def _fits(self, db: Connection, capture: CapturedTable, look: str) -> bool:
        """By a look at the catalog that was found to mean the same shape before, or by reading all of it."""
        if self._looks.get(capture.oid) == (capture.table, look):
            return True
        now = read_shapes(db, [capture.oid]).get(capture.oid)
        fits = now is not None and now.name == capture.table.name and has_shape(capture, now)
        if fits:
            self._looks[capture.oid] = capture.table, look
        return fits

    def _try_table(self, shape: PostgresTable, rows_max: int, floor: int) -> PostgresSnapshot | None:
        with ExitStack() as stack:
            db = stack.enter_context(self._sessions.reading(qualified(shape)))
            position = self._place(self.seen(db), floor)
            if position is None:
                return None
            now = read_shapes(db, [shape.oid]).get(shape.oid)
            if now is None or now.name != shape.name:
                raise SourceError(
                    f"table {shape.name!r} was dropped or renamed while it was read", hint="subscribe again"
                )
            refuse_secured(now)
            known = self._slot.row_cache.captures.get(shape.oid) if self._slot.row_cache is not None else None
            capture = known if known is not None and has_shape(known, now) else capture_of(now, position)
            position = self._positions.tell(position)
            return PostgresSnapshot(db, stack.pop_all(), capture, qualified(now), position, rows_max)

    def of_queries(self, questions: Sequence[tuple[str, Params]], cancellation: Cancellation) -> list[Answer]:
        """All of them in one transaction. Each has its share of the bytes that the answers may have."""
        cancellation.bytes_max //= len(questions)
        asked = [bound(sql, params) for sql, params in questions]
        relations = {one for text in {text for text, _ in asked} for one in self._relations_of(text)}
        return self._again(lambda floor: self._try_queries(asked, sorted(relations), floor, cancellation))

    def _try_queries(
        self,
        asked: Sequence[tuple[str, tuple[Any, ...]]],
        relations: Sequence[str],
        floor: int,
        cancellation: Cancellation,
    ) -> list[Answer] | None:
        with self._questions.reading(*relations, cancellation=cancellation) as db:
            seen = self.seen(db)
            found = [answered(db, sql, values, read_types, cancellation) for sql, values in asked]
        position = self._place(seen, floor)
        if position is None:
            return None
        told = self._positions.tell(position)
        return [Answer(columns, rows, told) for columns, rows in found]

    def moment(self) -> PostgresMoment:
        return self._again(self._try_moment)

    def _try_moment(self, floor: int) -> PostgresMoment | None:
        with ExitStack() as stack:
            db = stack.enter_context(self._questions.reading())
            position = self._place(self.seen(db), floor)
            if position is None:
                return None
            captures = self._slot.row_cache.captures.values() if self._slot.row_cache is not None else ()
            oids = tuple(oid for capture in list(captures) for oid in (capture.oid, *capture.parts))
            return PostgresMoment(db, self._positions.tell(position), stack.pop_all(), oids)

    def seen(self, db: Connection) -> PgSnapshot:
        """What the transaction of `db` sees."""
        row = db.execute(_SEEN).fetchone()
        assert row is not None
        return self._parsed(*row)

    def _parsed(self, snapshot: str, log: str) -> PgSnapshot:
        return PgSnapshot.parse(snapshot, self._wal.position_of(log))

    def _place(self, seen: PgSnapshot, floor: int) -> int | None:
        stream = self._slot.stream
        return seen.upto if stream is None else stream.place(seen, floor, self._wal.nudge, PLACE_S)

    def _again(self, attempt: Callable[[int], T | None]) -> T:
        """Until what was read has a position, and is no older than what was reported before it was asked for."""
        until_s = time.monotonic() + PLACE_S
        while True:
            found = attempt(self._positions.floor)
            if found is not None:
                return found
            if time.monotonic() > until_s:
                raise SourceError(
                    "PostgreSQL has logged commits that are not visible yet",
                    hint="check whether it waits for a synchronous standby",
                )
            time.sleep(_AGAIN_S)

    def _relations_of(self, sql: str) -> tuple[str, ...]:
        if sql not in self._relations:
            if len(self._relations) >= _READ_MAX:
                self._relations.clear()
            with self._questions.lent() as db:
                self._relations[sql] = relations_of(db, sql)
        return self._relations[sql]

    def forget_relations(self) -> None:
        """Views may be others than before."""
        self._relations.clear()
