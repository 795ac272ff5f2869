"""What PostgreSQL says in logical replication, as values. How they are read from bytes is told by `pgoutput`.

Values of columns stay bytes: what they mean is told by their type, which is known elsewhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Unchanged(enum.Enum):
    """Stands for a large value that an update did not touch and the server did not send."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Cell = bytes | None | Unchanged
Cells = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """`lsn` is that of the commit record to come."""

    lsn: int
    at_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """`end` is just behind the commit record."""

    lsn: int
    end: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    is_key: bool
    name: str
    type: int
    modifier: int


@dataclass(frozen=True, slots=True)
class Relation:
    """The shape of a table, sent before its first change and before the first one in another shape."""

    xid: int
    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class NamedType:
    xid: int
    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    xid: int
    oid: int
    new: Cells


@dataclass(frozen=True, slots=True)
class Update:
    """`old` is None where the key stayed; it is whole only where the replica identity is FULL: then `old_is_whole`."""

    xid: int
    oid: int
    old: Cells | None
    old_is_whole: bool
    new: Cells


@dataclass(frozen=True, slots=True)
class Delete:
    xid: int
    oid: int
    old: Cells
    old_is_whole: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    xid: int
    oids: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What someone said through `pg_logical_emit_message`."""

    xid: int
    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class StreamStart:
    """A block of a transaction that is still under way."""

    xid: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    lsn: int
    end: int
    at_us: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """`subxid` equals `xid` where all of the transaction is undone."""

    xid: int
    subxid: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """Phases of two-phase commit. `kind` is b: begins, P: prepared, K: committed, r: rolled back, p: prepared, of a
    streamed transaction."""

    kind: str
    lsn: int
    end: int
    xid: int
    gid: str


Message = (
    Begin
    | Commit
    | Origin
    | Relation
    | NamedType
    | Insert
    | Update
    | Delete
    | Truncate
    | LogicalMessage
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | Prepared
)
