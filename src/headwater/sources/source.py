"""What every source, a database that we read, offers us: contracts. Values and protocols only; it opens nothing.

A *position* is a whole number that grows with every committed change of a captured table; it is comparable within one
source and means nothing outside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.model.key_demand import Demands, KeyDemand
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Value
from headwater.plan.join_order.statistics import Statistics
from headwater.sources.cancellation import Cancellation

Params = Sequence[Value] | Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A captured table has another shape from here on: every later change has the columns and types of `after`.

    Without an `after` the table is gone, and its subscribers get the `reason`. `position` is at least that of every
    transaction reported before it and at most that of the next one. Where it equals the former, the change is reported
    again to a caller that asks for changes after that position; its `after.schema_id`, which grows with every change
    of the table, identifies it. `lost`: the table exists, but its changes since are lost; it can be captured again.
    """

    position: int
    before: Table
    after: Table | None
    reason: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Redefinition:
    """Views or functions may have changed: what queries read through them must be determined again. `position` is as
    that of a `SchemaChange`."""

    position: int


Item = Transaction | SchemaChange | Redefinition


class NotCaptured(SourceError):
    """A table is not captured, or not any more: that its changes were lost may still be on its way to us."""


class ChangesLost(SourceError):
    """Changes of a captured table are lost. The table can be captured again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, all read at `position`."""

    columns: tuple[str, ...]
    rows: list[Row]
    position: int


@dataclass(frozen=True, slots=True)
class Reads:
    """What a query reads: the names of its columns, the columns it reads of each table, the functions it calls.

    A table whose rows are only counted has the column `""`. `row_by_row`: the query reads no view, and the database
    knows that it calls no aggregate, window or set-returning function. `typed` are its columns as if they were a
    table's, where the database describes them. `sees_through`: it reads a view, or calls a user-defined function.
    `once` are the tables that stand in it a single time, where the database tells.
    """

    columns: tuple[str, ...]
    tables: Mapping[str, frozenset[str]]
    functions: frozenset[str]
    row_by_row: bool = False
    typed: tuple[Column, ...] = ()
    sees_through: bool = False
    once: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class FetchedRows:
    """The rows of some keys of a table, as they were at `position`."""

    position: int
    table: Table
    rows: pa.RecordBatch


LoggedFetch = tuple[KeyDemand, FetchedRows]


def no_rows(table: Table) -> list[pa.RecordBatch]:
    """As one batch."""
    schema = table.arrow
    return [pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)]


class Snapshot(Protocol):
    """One table as it was at `position`, in record batches of the schema `table.arrow`. Read once, then closed."""

    @property
    def position(self) -> int: ...
    @property
    def table(self) -> Table: ...
    def __iter__(self) -> Iterator[Any]: ...  # of pa.RecordBatch
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


class Moment(Protocol):
    """The database as it was at `position`, for as long as the block lasts."""

    @property
    def position(self) -> int: ...
    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer | None:
        """Any SELECT, answered as of the position; None where the database can no longer answer as of then."""


class Writes(Protocol):
    """A transaction being written. `position` holds once it has committed."""

    @property
    def position(self) -> int: ...
    def execute(self, sql: str, params: Params = ()) -> None: ...
    def executemany(self, sql: str, rows: Iterable[Params]) -> None: ...


class Source(Protocol):
    """A database that we read. `changes` belongs to one thread; everything else may be called from any."""

    name: str  # stable: the same database has the same name after a restart
    dialect: str
    prepares_first: bool  # the database must read a query before we plan it: only it knows what the names in it mean
    holds_log: bool  # what we create in the database makes it keep its log until we have read it
    ephemeral: bool  # nothing must survive this process: what we create in the database ends with it, where possible
    address: str | None  # by which another process can open it to read tables; None where only this process can

    def attach(self, directory: Path) -> None:
        """Called before anything is captured, with the data directory that the changes are captured into.

        What a source creates in the database is named after the directory; what it stores outside of it goes there.
        """

    def tables(self) -> tuple[Table, ...]:
        """The tables of the database now, without those that are Headwater's own."""

    def rows_about(self, table: str) -> int | None:
        """An estimate of a table's row count that does not read the table; None where there is none."""

    def statistics(self, tables: Iterable[str]) -> Statistics:
        """What the database knows of the rows of tables, without reading them. It may be old."""

    def capture(self, table: str, *, by_key: bool = False) -> Table:
        """From here on the table's changes are reported, also after a restart. Capturing twice is capturing once.
        `by_key`: only those of rows that are fetched need be. What was captured by key can be captured anew in full;
        what is reported of it until then means nothing.

        Raises `ChangesLost` where those since the last time are lost, until `changes` is called.
        """

    def capture_all(self, tables: Sequence[str]) -> list[Table]:
        """As `capture` of each, in full; together, where that costs the database less."""

    def fetch(self, table: str, demand: KeyDemand, condition: str) -> FetchedRows:
        """The rows of some keys of a table that is captured by key: those for which an SQL condition holds. Every later
        change of a row with one of these keys, before or after it, is reported; perhaps others, too."""

    def follow_only(self, table: str, demands: Demands, fetched: Iterable[LoggedFetch] = ()) -> bool:
        """Of a table that is captured by key these keys alone are asked for now. After a restart, with what the log has
        of earlier fetches: what the source did not store of them itself, before `forget`, it knows from there. False
        where the changes of one of the keys are not known: then the table is to be captured anew."""

    def captured(self) -> frozenset[str] | None:
        """The tables that an earlier process captured and whose changes can still be read; called after `attach`. None
        where the database itself stores all that is needed for that."""

    def changes(self, after: int, timeout_s: float) -> list[Item]:
        """What was committed after a position, in commit order; waits until there is something, up to the timeout.

        Transactions are whole: never split, merged only where `notes` says so. A transaction without changes only says
        that its position is reached; every position that this source returned is reported when it is. `after` is the
        position of an item, or a result of `position`. Raises where the changes after it no longer exist.
        """

    def position(self) -> int:
        """The position of the last committed change, whoever made it. A schema change that was committed before it is
        reported before this position is."""

    def schema_position(self) -> int:
        """The position by which `changes` has reported every schema change that is committed by now."""

    def snapshot(self, table: str, rows_max: int = 65536) -> Snapshot:
        """A captured table, read consistently, in batches of at most `rows_max` rows."""

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
        """A SELECT on the user's tables and views, answered by the database now; `PermissionDenied` where it does more.
        `LimitExceeded` past the time limit of the cancellation, which has a default."""

    def query_together(
        self, questions: Sequence[tuple[str, Params]], cancellation: Cancellation | None = None
    ) -> list[Answer]:
        """Several such SELECTs on one connection, all answered as of one position; the limits are those of all of them
        together. Where one fails, all do."""

    def select_all(self, table: Table) -> str:
        """The SQL that selects all columns of a table, in their order."""

    def moment(self) -> AbstractContextManager[Moment]:
        """A snapshot of now; while it is held, the changes up to its position can be waited for. Leave it soon."""

    def prepare(self, sql: str) -> None:
        """The database parses the SQL and runs nothing; `SqlError` with its message where it refuses."""

    def reads(self, sql: str, params: Params = ()) -> Reads:
        """What a query reads, without running it; `SqlError` with the database's message where it is no query."""

    def execute(self, sql: str, params: Params = ()) -> int:
        """One statement, one transaction; the position just after its commit."""

    def executemany(self, sql: str, rows: Iterable[Params]) -> int:
        """One statement per row, all in one transaction; the position just after its commit."""

    def transaction(self) -> AbstractContextManager[Writes]:
        """Commits at the end of the block, or rolls back when it raises. Never nested."""

    def forget(self, position: int) -> None:
        """Changes up to here will not be asked for again. Cheap to call often: it acts only when it pays."""

    def lag_bytes(self) -> int:
        """How much log the database keeps only because we have not read it yet; 0 where it keeps none for us."""

    def abandon(self, reason: str) -> None:
        """From now on the database keeps no log for us. Every captured table ends with the reason when changes are next
        asked for; a table that is captured after that starts afresh."""

    def detach(self) -> list[str]:
        """Removes everything that is ours from the database; returns what that was."""

    def notes(self) -> tuple[str, ...]:
        """What a user must know about this database: for EXPLAIN and doctor."""

    def close(self) -> None:
        """Closes all connections. Captured tables stay captured."""
