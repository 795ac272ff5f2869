"""What every origin database offers us, as contracts. Values and protocols only; nothing here opens anything.

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

from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Value
from headwater.sources.cancellation import Cancellation

Params = Sequence[Value] | Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A captured table has another shape from here on: every later change has the columns and types of `after`.

    No `after`: the table is gone, and `reason` is what its subscribers are told. `position` is at least that of every
    transaction reported before it and at most that of the next one. It may be equal to the former, and then the change
    is reported again to whoever asks for changes after that position: known by its `after.schema_id`, which grows with
    every change of the table. `lost`: the table is there, only its changes since are not; it may be captured anew.
    """

    position: int
    before: Table
    after: Table | None
    reason: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Redefinition:
    """Views or functions may be others from here on: what queries read through them must be learned again. `position`
    is as that of a `SchemaChange`."""

    position: int


Item = Transaction | SchemaChange | Redefinition


class Lost(SourceError):
    """What was committed to a captured table since cannot be had any more. It may be captured anew."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, read in one piece at `position`."""

    columns: tuple[str, ...]
    rows: list[Row]
    position: int


@dataclass(frozen=True, slots=True)
class Reads:
    """What a query is made of: the names of its columns, the columns it reads of each table, the functions it calls.

    A table of which only rows are counted has the column `""`. `row_by_row`: it reads no view, and the origin knows
    that no function in it gathers rows, looks across them or makes several of one. `typed` are its columns as if
    of a table, where the origin tells. `sees_through`: it reads a view, or calls a function that users define.
    """

    columns: tuple[str, ...]
    tables: Mapping[str, frozenset[str]]
    functions: frozenset[str]
    row_by_row: bool = False
    typed: tuple[Column, ...] = ()
    sees_through: bool = False


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
    """The origin as it was at `position`, for as long as the block lasts."""

    @property
    def position(self) -> int: ...
    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer | None:
        """Any SELECT, answered as of the position; None where the origin has gone on and cannot tell any more."""


class Writes(Protocol):
    """A transaction being written. `position` holds once it has committed."""

    @property
    def position(self) -> int: ...
    def execute(self, sql: str, params: Params = ()) -> None: ...
    def executemany(self, sql: str, rows: Iterable[Params]) -> None: ...


class Source(Protocol):
    """An origin database. `changes` belongs to one thread; everything else may be called from any."""

    name: str  # stable: the same database has the same name after a restart
    dialect: str
    holds_log: bool  # what is made at the origin holds back its log while nobody reads
    ephemeral: bool  # nothing need survive this process: what is made at the origin ends with it, where that can be
    address: str | None  # what another process opens it by, to read its tables; none where only this one can

    def attach(self, directory: Path) -> None:
        """Before anything is captured: the data directory that the changes are captured into.

        What a source creates at the origin is named after it, and what it keeps beside the origin goes there.
        """

    def tables(self) -> tuple[Table, ...]:
        """The tables as the origin has them now. Ours are not among them."""

    def rows_about(self, table: str) -> int | None:
        """How many rows a table has, by what the origin knows without reading it; None where it knows nothing."""

    def capture(self, table: str) -> Table:
        """From here on the table's changes are reported, also after a restart. Asking twice is asking once.

        `Lost` where those since the last time are not to be had any more: said until `changes` was asked for.
        """

    def captured(self) -> frozenset[str] | None:
        """The tables that an earlier life captured and whose changes can still be told; asked for after `attach`. None
        where the origin itself keeps all that is needed for that."""

    def changes(self, after: int, timeout_s: float) -> list[Item]:
        """What was committed after a position, in commit order; waits for something, but no longer than the timeout.

        Transactions are whole: never split, merged only where `notes` says so. One without changes only tells that
        its position is reached; each that was handed out is told when it is. `after` is the position of
        something reported before, or what `position` said. Raises where the changes after it are no longer there.
        """

    def position(self) -> int:
        """The position of the last committed change, whoever made it. A change of the schema that was committed before
        is told before this position is."""

    def schema_position(self) -> int:
        """The position by which `changes` has told of every change of the schema that is committed by now."""

    def snapshot(self, table: str, rows_max: int = 65536) -> Snapshot:
        """A captured table in one consistent read, in batches of at most `rows_max` rows."""

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
        """A SELECT on the user's tables and views, answered by the origin at its now; `PermissionDenied` where it wants
        more. `LimitExceeded` past the time limit of the cancellation, which has a default."""

    def moment(self) -> AbstractContextManager[Moment]:
        """Now, held still: while it is, the changes up to its position may be waited for. To be left soon."""

    def prepare(self, sql: str) -> None:
        """The origin parses the SQL and runs nothing; `SqlError` with its words where it will not."""

    def reads(self, sql: str, params: Params = ()) -> Reads:
        """What a query reads, without running it; `SqlError` in the origin's words where it is none."""

    def execute(self, sql: str, params: Params = ()) -> int:
        """One statement, one transaction; the position just after its commit."""

    def executemany(self, sql: str, rows: Iterable[Params]) -> int:
        """One statement for each row, all in one transaction; the position just after its commit."""

    def transaction(self) -> AbstractContextManager[Writes]:
        """Commits at the end of the block, or rolls back when it raises. Never nested."""

    def forget(self, position: int) -> None:
        """Changes up to here will not be asked for again. Cheap to call often: it acts only when it is worth it."""

    def lag_bytes(self) -> int:
        """What the origin keeps for us alone, because it was not taken over yet; 0 where that harms nobody."""

    def abandon(self, reason: str) -> None:
        """The origin keeps nothing for us any more, from now on, where it had to. Every captured table ends with the
        reason when changes are next asked for; one that is captured after that begins anew."""

    def detach(self) -> list[str]:
        """Removes everything of ours from the origin; what that was."""

    def notes(self) -> tuple[str, ...]:
        """What a user must know about this origin: for EXPLAIN and doctor."""

    def close(self) -> None:
        """Lets go of the origin. Captured tables stay captured."""
