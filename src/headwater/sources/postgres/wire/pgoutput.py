"""The messages of PostgreSQL's logical replication, protocol versions 1 to 4: bytes in, values out.

Pure. The only state is whether a block of an in-progress transaction is open, for then changes begin with their xid.
Values of columns stay bytes: what they mean is told by their type, which is known elsewhere.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.errors import SourceError


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
class Emitted:
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
    | Emitted
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | Prepared
)

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_STREAM_START = struct.Struct(">IB")
_STREAM_COMMIT = struct.Struct(">IBQQq")
_TWO_XIDS = struct.Struct(">II")
_OID = struct.Struct(">I")
_LSN = struct.Struct(">Q")
_COUNT = struct.Struct(">H")
_COLUMN = struct.Struct(">Ii")
_MESSAGE = struct.Struct(">BQ")
_TRUNCATE = struct.Struct(">IB")
_BEGIN_PREPARE = struct.Struct(">QQqI")
_PREPARE = struct.Struct(">BQQqI")
_ROLLBACK_PREPARED = struct.Struct(">BQQqqI")
_LENGTHS = struct.Struct(">I")

_NULL, _UNCHANGED = ord("n"), ord("u")
_WHOLE, _NEW = ord("O"), ord("N")
_STREAM_STARTS, _BLOCKS = b"S", (b"S", b"E")


class Decoder:
    """Messages as they come, one at a time."""

    def __init__(self) -> None:
        self._streaming = False

    def decode(self, data: bytes) -> Message:
        kind = data[:1]
        read = _READERS.get(kind)
        if read is None:
            raise _malformed(f"one that begins with {kind!r}")
        try:
            if self._streaming and kind in _WITH_XID:
                message = read(data, 5, _OID.unpack_from(data, 1)[0])
            else:
                message = read(data, 1, 0)
        except (struct.error, IndexError, ValueError) as error:
            raise _malformed(f"a {kind.decode()!r} that does not read: {error}") from None
        if kind in _BLOCKS:
            self._streaming = kind == _STREAM_STARTS
        return message


def _malformed(found: str) -> SourceError:
    return SourceError(
        f"expected a message of logical replication, found {found}",
        hint="is something between us and PostgreSQL that changes what it says?",
    )


def _begin(data: bytes, at: int, xid: int) -> Begin:
    return Begin(*_BEGIN.unpack_from(data, at))


def _commit(data: bytes, at: int, xid: int) -> Commit:
    return Commit(*_COMMIT.unpack_from(data, at)[1:])


def _origin(data: bytes, at: int, xid: int) -> Origin:
    return Origin(_LSN.unpack_from(data, at)[0], _text(data, at + 8)[0])


def _relation(data: bytes, at: int, xid: int) -> Relation:
    (oid,) = _OID.unpack_from(data, at)
    schema, at = _text(data, at + 4)
    name, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _COUNT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[at] & 1)
        named, at = _text(data, at + 1)
        type, modifier = _COLUMN.unpack_from(data, at)
        columns.append(RelationColumn(is_key, named, type, modifier))
        at += _COLUMN.size
    return Relation(xid, oid, schema or "pg_catalog", name, identity, tuple(columns))


def _type(data: bytes, at: int, xid: int) -> NamedType:
    (oid,) = _OID.unpack_from(data, at)
    schema, at = _text(data, at + 4)
    return NamedType(xid, oid, schema or "pg_catalog", _text(data, at)[0])


def _insert(data: bytes, at: int, xid: int) -> Insert:
    return Insert(xid, _OID.unpack_from(data, at)[0], _cells(data, at + 5)[0])


def _update(data: bytes, at: int, xid: int) -> Update:
    (oid,) = _OID.unpack_from(data, at)
    kind = data[at + 4]
    if kind == _NEW:
        return Update(xid, oid, None, False, _cells(data, at + 5)[0])
    old, at = _cells(data, at + 5)
    return Update(xid, oid, old, kind == _WHOLE, _cells(data, at + 1)[0])


def _delete(data: bytes, at: int, xid: int) -> Delete:
    (oid,) = _OID.unpack_from(data, at)
    return Delete(xid, oid, _cells(data, at + 5)[0], data[at + 4] == _WHOLE)


def _truncate(data: bytes, at: int, xid: int) -> Truncate:
    count, options = _TRUNCATE.unpack_from(data, at)
    oids = struct.unpack_from(f">{count}I", data, at + _TRUNCATE.size)
    return Truncate(xid, oids, bool(options & 1), bool(options & 2))


def _emitted(data: bytes, at: int, xid: int) -> Emitted:
    flags, lsn = _MESSAGE.unpack_from(data, at)
    prefix, at = _text(data, at + _MESSAGE.size)
    (length,) = _LENGTHS.unpack_from(data, at)
    return Emitted(xid, bool(flags & 1), lsn, prefix, _taken(data, at + 4, length))


def _stream_start(data: bytes, at: int, xid: int) -> StreamStart:
    started, first = _STREAM_START.unpack_from(data, at)
    return StreamStart(started, bool(first))


def _stream_stop(data: bytes, at: int, xid: int) -> StreamStop:
    return StreamStop()


def _stream_commit(data: bytes, at: int, xid: int) -> StreamCommit:
    committed, _, lsn, end, at_us = _STREAM_COMMIT.unpack_from(data, at)
    return StreamCommit(committed, lsn, end, at_us)


def _stream_abort(data: bytes, at: int, xid: int) -> StreamAbort:
    """With parallel streaming, place and time of the abort follow; they tell us nothing."""
    return StreamAbort(*_TWO_XIDS.unpack_from(data, at))


def _begin_prepare(data: bytes, at: int, xid: int) -> Prepared:
    lsn, end, _, prepared = _BEGIN_PREPARE.unpack_from(data, at)
    return Prepared("b", lsn, end, prepared, _text(data, at + _BEGIN_PREPARE.size)[0])


def _prepare(data: bytes, at: int, xid: int) -> Prepared:
    _, lsn, end, _, prepared = _PREPARE.unpack_from(data, at)
    return Prepared(chr(data[0]), lsn, end, prepared, _text(data, at + _PREPARE.size)[0])


def _rollback_prepared(data: bytes, at: int, xid: int) -> Prepared:
    _, lsn, end, _, _, prepared = _ROLLBACK_PREPARED.unpack_from(data, at)
    return Prepared("r", lsn, end, prepared, _text(data, at + _ROLLBACK_PREPARED.size)[0])


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A string that ends with a zero byte, and the place behind it."""
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _taken(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise ValueError(f"{length} bytes were announced and {len(data) - at} are there")
    return data[at : at + length]


def _cells(data: bytes, at: int) -> tuple[Cells, int]:
    """The values of one row, and the place behind them."""
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    cells: list[Cell] = []
    length = _LENGTHS.unpack_from
    for _ in range(count):
        kind = data[at]
        if kind == _NULL:
            cells.append(None)
            at += 1
        elif kind == _UNCHANGED:
            cells.append(UNCHANGED)
            at += 1
        else:
            start = at + 5
            at = start + length(data, at + 1)[0]
            cells.append(data[start:at])
    if at > len(data):
        raise ValueError("a row ends behind its message")
    return tuple(cells), at


_READERS: dict[bytes, Callable[[bytes, int, int], Message]] = {
    b"B": _begin,
    b"C": _commit,
    b"O": _origin,
    b"R": _relation,
    b"Y": _type,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _emitted,
    b"S": _stream_start,
    b"E": _stream_stop,
    b"c": _stream_commit,
    b"A": _stream_abort,
    b"b": _begin_prepare,
    b"P": _prepare,
    b"K": _prepare,
    b"r": _rollback_prepared,
    b"p": _prepare,
}
_WITH_XID = frozenset({b"R", b"Y", b"I", b"U", b"D", b"T", b"M"})
