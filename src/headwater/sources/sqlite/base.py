"""What a database file and a database in memory have in common: everything but how their changes are waited for.

A subclass lends connections: `_reading`, inside a read transaction, and `_writing`, inside a write transaction that
commits at the end of the block. Nothing here holds on to one.
"""

from __future__ import annotations

import sqlite3
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from headwater.model.errors import SourceError, SqlError
from headwater.model.key_demand import Demands, KeyDemand
from headwater.model.schema import Table
from headwater.model.value import to_array
from headwater.plan.join_order.statistics import Statistics
from headwater.sources.cancellation import Cancellation
from headwater.sources.source import (
    Answer,
    FetchedRows,
    LoggedFetch,
    Moment,
    NotCaptured,
    Params,
    Reads,
    Snapshot,
    no_rows,
)
from headwater.sources.sqlite.captures import (
    TableCapture,
    active_capture,
    begin_capture,
    declared_table,
    end_capture,
    read_captures,
    replace_types,
)
from headwater.sources.sqlite.change_table import note_redefined, remove_all
from headwater.sources.sqlite.column_types import find_types, has_few_rows, mixed_columns, prune
from headwater.sources.sqlite.log_decoder import LogDecoder, text_or_garbled
from headwater.sources.sqlite.questions.authorizer import Relations
from headwater.sources.sqlite.questions.log_position import is_installed, log_position
from headwater.sources.sqlite.questions.question import answer, compile_only, describe, speaking
from headwater.sources.sqlite.questions.replies import answer_of, reads_of
from headwater.sources.sqlite.questions.statistics import table_statistics
from headwater.sources.sqlite.schema import (
    capturable,
    estimate_rows,
    quoted,
    read_shape,
    table_names,
)
from headwater.sources.sqlite.schema_changes import follow_table, outdated_captures, read_views
from headwater.sources.sqlite.triggers import LOG
from headwater.sources.writes import StatementTransactions

PRUNE_ROWS_MIN = 4096  # fewer are not worth a transaction
PRUNE_ROWS_MAX = 4096  # of one transaction: writers wait meanwhile
_PROGRESS_STEPS = 10_000


class SqliteBase(StatementTransactions):
    """The part of `Source` that needs only connections."""

    name: str
    dialect, prepares_first = "sqlite", False
    holds_log = ephemeral = False

    def __init__(self) -> None:
        self._settling = threading.Lock()  # while the types of a new capture are found; taken before the other one
        self._capturing = threading.RLock()
        self._relations = Relations()
        self._pruned = 0
        self._stale = True  # captures have changed since the decoder read them
        self._verified = -1  # until there every capture is known to have fitted its table
        self._schema_version = -1  # the schema that the captures fit
        self._views: dict[str, str] = {}  # as of that
        self._schema_position = 0  # of the last change of the schema that was followed

    def attach(self, directory: Path) -> None:
        """Takes no notice: all that is kept is in the database itself."""
        del directory

    @abstractmethod
    def _reading(self) -> AbstractContextManager[sqlite3.Connection]: ...

    @abstractmethod
    def _writing(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def tables(self) -> tuple[Table, ...]:
        with self._reading() as db:
            known = {
                one.shape.name: one for one in read_captures(db).values() if not one.over and one.since is not None
            }
            return tuple(self._table(db, name, known.get(name)) for name in table_names(db))

    def _table(self, db: sqlite3.Connection, name: str, capture: TableCapture | None) -> Table:
        shape = read_shape(db, name)
        if capture is None or capture.shape.fields != shape.fields:
            return declared_table(shape)
        return capture.table(mixed_columns(db, capture, log_position(db)))

    def rows_about(self, table: str) -> int | None:
        with self._reading() as db:
            return estimate_rows(db, capturable(db, table))

    def statistics(self, tables: Iterable[str]) -> Statistics:
        with self._reading() as db:
            found = {table: table_statistics(db, capturable(db, table)) for table in tables}
        return {table: each for table, each in found.items() if each is not None}

    def captured(self) -> frozenset[str] | None:
        return None  # triggers and their log are in the database itself

    def capture(self, table: str, *, by_key: bool = False) -> Table:
        """All changes of it are reported, by key too: triggers log rows whole."""
        return self.capture_all([table])[0]

    def capture_all(self, tables: Sequence[str]) -> list[Table]:
        """In one write transaction for the triggers of all, and one for the types of large ones: each waits for the
        disk."""
        with self._settling:
            begun = self._begun(tables)
            self._settle([capture for capture in begun if capture.since is None])
            self._stale = True
            with self._reading() as db:
                known, position = read_captures(db), log_position(db)
                found = [known[capture.id] for capture in begun]
                return [capture.table(mixed_columns(db, capture, position)) for capture in found]

    def fetch(self, table: str, demand: KeyDemand, condition: str) -> FetchedRows:
        with self.snapshot(table, condition=condition) as read:
            batches = [*read, *no_rows(read.table)]
            return FetchedRows(read.position, read.table, pa.concat_batches(batches))

    def follow_only(self, table: str, demands: Demands, fetched: Iterable[LoggedFetch] = ()) -> bool:
        return True  # triggers log the changes of every row

    def _begun(self, tables: Iterable[str]) -> list[TableCapture]:
        with self._capturing, self._writing() as db:
            names = [capturable(db, table).name for table in tables]
            self._follow(db, outdated_captures(db))
            begun = [active_capture(db, name) or begin_capture(db, name) for name in names]
            for capture in begun:
                if capture.since is None and has_few_rows(db, capture.shape):
                    replace_types(db, capture, *find_types(db, capture))
            known = read_captures(db)
            return [known[capture.id] for capture in begun]

    def _settle(self, captures: Sequence[TableCapture]) -> None:
        """Reads the whole tables: the changes of others are followed meanwhile."""
        if not captures:
            return
        with self._reading() as db:
            found = [(capture, *find_types(db, capture)) for capture in captures]
        with self._capturing, self._writing() as db:
            for each in found:
                replace_types(db, *each)

    def _follow(self, db: sqlite3.Connection, outdated: Iterable[TableCapture]) -> None:
        """Inside a write transaction: brings captures up to date with their tables; notes where views are others."""
        for capture in outdated:
            follow_table(db, capture, self._verified)
        views = read_views(db)
        if views != self._views:
            note_redefined(db)
        self._views = views
        self._schema_position = log_position(db)

    def position(self) -> int:
        self.schema_position()
        with self._reading() as db:
            return log_position(db)

    @abstractmethod
    def schema_position(self) -> int: ...

    @abstractmethod
    def snapshot(self, table: str, rows_max: int = 8192, condition: str = "") -> Snapshot: ...

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
        with self._reading() as db, _interruptible(db, cancellation or Cancellation()):
            return answer_of(log_position(db), *answer(db, self._relations, sql, params))

    def query_together(
        self, questions: Sequence[tuple[str, Params]], cancellation: Cancellation | None = None
    ) -> list[Answer]:
        ending = cancellation or Cancellation()
        with self._reading() as db, _interruptible(db, ending):
            position = log_position(db)
            return [answer_of(position, *answer(db, self._relations, *question)) for question in questions]

    def select_all(self, table: Table) -> str:
        return f"SELECT {', '.join(map(quoted, table.names))} FROM {quoted(table.name)}"

    @abstractmethod
    def moment(self) -> AbstractContextManager[Moment]: ...

    def prepare(self, sql: str) -> None:
        """It is SQL of our own making: here."""
        with self._reading() as db:
            compile_only(db, Relations(), sql)

    def reads(self, sql: str, params: Params = ()) -> Reads:
        with self._reading() as db, _interruptible(db, Cancellation()):
            return reads_of(describe(db, self._relations, sql, params))

    @contextmanager
    def transaction(self) -> Iterator[SqliteWrites]:
        with self._writing() as db:
            writes = SqliteWrites(db)
            yield writes
            if schema_version(db) != self._schema_version and is_installed(db):
                self._follow(db, [one for one in outdated_captures(db) if one.since is not None])
            writes.position = log_position(db)

    def forget(self, position: int) -> None:
        if position - self._pruned < PRUNE_ROWS_MIN:
            return
        while self._prune(position):
            pass
        self._pruned = position

    def _prune(self, position: int) -> bool:
        with self._writing() as db:
            return is_installed(db) and prune(db, position, PRUNE_ROWS_MAX) == PRUNE_ROWS_MAX

    def lag_bytes(self) -> int:
        """What waits is rows of our own log: it grows with what is written, and holds back nothing else."""
        return 0

    def abandon(self, reason: str) -> None:
        """There is nothing to let go of."""
        del reason

    def detach(self) -> list[str]:
        with self._settling, self._capturing, self._writing() as db:
            return remove_all(db)

    def _decoder(self, db: sqlite3.Connection, after: int) -> LogDecoder:
        """Reads on from a position, with the types as they were there."""
        self._refuse_backwards(after, log_position(db))
        decoder = LogDecoder(after, {}, {})
        if is_installed(db):
            self._refuse_pruned(db, after)
            self._load(db, decoder)
        return decoder

    def _refuse_backwards(self, after: int, last: int) -> None:
        if after > last:
            raise SourceError(
                f"the log of {self.name} ends at {last}, before position {after}: "
                "the database was replaced, restored or detached",
                hint="start again with a fresh data directory",
            )

    def _refuse_pruned(self, db: sqlite3.Connection, after: int) -> None:
        first = db.execute(f"SELECT min(seq) FROM {LOG}").fetchone()[0]
        if first is not None:
            self._refuse_gap(after, first)

    def _refuse_gap(self, after: int, first: int) -> None:
        """Positions have no gaps but where rows were removed."""
        if first > after + 1:
            raise SourceError(
                f"the changes after position {after} are gone: the log begins at {first}",
                hint="start again with a fresh data directory; if another Headwater serves this database from a data "
                "directory of its own, stop it: it removes what it has read",
            )

    def _load(self, db: sqlite3.Connection, decoder: LogDecoder) -> None:
        """The captures there are by now. What the decoder has learned about their types, it knows better."""
        decoder.captures = read_captures(db)
        for id, capture in decoder.captures.items():
            if id not in decoder.mixed and capture.since is not None:
                decoder.mixed[id] = mixed_columns(db, capture, decoder.position)

    def _end_garbled(self, decoder: LogDecoder) -> None:
        """Takes the triggers off tables whose text cannot be read."""
        over = [id for id in decoder.garbled if not decoder.captures[id].over]
        if over:
            with self._writing() as db:
                known = read_captures(db)
                for id in over:
                    if not known[id].over:
                        end_capture(db, known[id], decoder.garbled[id])
                decoder.captures = read_captures(db)


class SqliteWrites:
    """Statements inside the transaction that `transaction()` holds open."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.position = 0

    def execute(self, sql: str, params: Params = ()) -> None:
        with speaking(sql):
            self._db.execute(sql, params)

    def executemany(self, sql: str, rows: Iterable[Params]) -> None:
        with speaking(sql):
            self._db.executemany(sql, rows)


class SqliteSnapshot:
    """A captured table in one read transaction, which ends with the `with` block."""

    def __init__(
        self, reading: AbstractContextManager[sqlite3.Connection], table: str, rows_max: int, condition: str
    ) -> None:
        self._where = f" WHERE {condition}" if condition else ""
        self._stack = ExitStack()
        self._db = self._stack.enter_context(reading)
        self._rows_max = rows_max
        try:
            self.position = log_position(self._db)
            self.table = self._fitting(table)
        except BaseException:
            self.close()
            raise

    def _fitting(self, name: str) -> Table:
        capture = active_capture(self._db, capturable(self._db, name).name)
        if capture is None or capture.since is None:
            raise NotCaptured(f"table {name!r} is not captured", hint="capture it first")
        return capture.table(mixed_columns(self._db, capture, self.position))

    def __iter__(self) -> Iterator[Any]:
        columns = ", ".join(quoted(name) for name in self.table.names)
        try:
            cursor = self._db.execute(f"SELECT {columns} FROM {quoted(self.table.name)}{self._where}")
            while rows := cursor.fetchmany(self._rows_max):
                yield self._batch(rows)
        except (sqlite3.OperationalError, UnicodeError) as error:
            raise SourceError(f"table {self.table.name!r} cannot be read: {error}", hint=_utf8_hint(error)) from error

    def _batch(self, rows: list[tuple[Any, ...]]) -> Any:
        values = zip(*rows, strict=True)
        arrays = [to_array(column, one.type) for column, one in zip(values, self.table.columns, strict=True)]
        return pa.record_batch(arrays, schema=self.table.arrow)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@contextmanager
def _interruptible(db: sqlite3.Connection, cancellation: Cancellation) -> Iterator[None]:
    """Ends a statement that takes too long or is not wanted any more, between two steps of SQLite's machine."""
    cancellation.restart()
    db.set_progress_handler(lambda: cancellation.is_over, _PROGRESS_STEPS)
    try:
        yield
    except SqlError:
        cancellation.check()
        raise
    finally:
        db.set_progress_handler(None, 0)


def schema_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA schema_version").fetchone()[0])


def read_log(db: sqlite3.Connection, after: int, upto: int) -> list[tuple[Any, ...]]:
    """The log's rows in (after, upto]. Text that is not UTF-8 comes as `Garbled`."""
    sql = f"SELECT * FROM {LOG} WHERE seq > ? AND seq <= ? ORDER BY seq"
    try:
        return db.execute(sql, (after, upto)).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    db.text_factory = text_or_garbled
    try:
        return db.execute(sql, (after, upto)).fetchall()
    finally:
        db.text_factory = str


def _utf8_hint(error: Exception) -> str | None:
    return "repair the text that is not valid UTF-8, or store it as a BLOB" if "UTF-8" in str(error) else None
