"""The messages of PostgreSQL's logical replication, protocol versions 1 to 4: bytes in, values out.

Pure. The only state is whether a block of an in-progress transaction is open, for then changes begin with their xid.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from headwater.model.errors import SourceError
from headwater.sources.postgres.wire.messages import (
    UNCHANGED,
    Begin,
    Cell,
    Cells,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    NamedType,
    Origin,
    Prepared,
    Relation,
    RelationColumn,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    Update,
)

_OID = struct.Struct(">I")
_LSN = struct.Struct(">Q")
_COUNT = struct.Struct(">H")
_COLUMN = struct.Struct(">Ii")
_MESSAGE = struct.Struct(">BQ")
_TRUNCATE = struct.Struct(">IB")
_LENGTHS = struct.Struct(">I")

_NULL, _UNCHANGED = ord("n"), ord("u")
_WHOLE, _NEW = ord("O"), ord("N")
_STREAM_STARTS, _BLOCKS = b"S", (b"S", b"E")


_Reader = Callable[[bytes, int, int], Message]  # of the bytes from a place on, and the xid that was before it


class MessageDecoder:
    """Messages as they come, one at a time."""

    def __init__(self) -> None:
        self._streaming = False

    def decode(self, data: bytes) -> Message:
        kind = data[:1]
        read = _READERS.get(kind)
        if read is None:
            raise _malformed(f"unknown type {kind!r}")
        try:
            if self._streaming and kind in _WITH_XID:
                message = read(data, 5, _OID.unpack_from(data, 1)[0])
            else:
                message = read(data, 1, 0)
        except (struct.error, IndexError, ValueError) as error:
            raise _malformed(f"type {kind.decode()!r}: {error}") from None
        if kind in _BLOCKS:
            self._streaming = kind == _STREAM_STARTS
        return message


def _malformed(found: str) -> SourceError:
    return SourceError(
        f"malformed logical replication message: {found}",
        hint="check whether a proxy between Headwater and PostgreSQL alters the stream",
    )


def _fixed(message: Callable[..., Message], fields: str) -> _Reader:
    """A message whose fields have a fixed length, as `struct` describes them; `x` is a byte that tells us nothing."""
    unpack = struct.Struct(fields).unpack_from
    return lambda data, at, xid: message(*unpack(data, at))


def _two_phase(fields: str) -> _Reader:
    """Place, end and xid of a phase of two-phase commit, and behind them its name."""
    layout = struct.Struct(fields)

    def read(data: bytes, at: int, xid: int) -> Prepared:
        lsn, end, prepared = layout.unpack_from(data, at)
        return Prepared(chr(data[0]), lsn, end, prepared, _text(data, at + layout.size)[0])

    return read


def _origin(data: bytes, at: int, xid: int) -> Origin:
    return Origin(_LSN.unpack_from(data, at)[0], _text(data, at + _LSN.size)[0])


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


def _emitted(data: bytes, at: int, xid: int) -> LogicalMessage:
    flags, lsn = _MESSAGE.unpack_from(data, at)
    prefix, at = _text(data, at + _MESSAGE.size)
    (length,) = _LENGTHS.unpack_from(data, at)
    return LogicalMessage(xid, bool(flags & 1), lsn, prefix, _taken(data, at + 4, length))


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A string that ends with a zero byte, and the place behind it."""
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _taken(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise ValueError(f"{length} bytes announced, {len(data) - at} found")
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
        raise ValueError("a row extends past its message")
    return tuple(cells), at


_READERS: dict[bytes, _Reader] = {
    b"B": _fixed(Begin, ">QqI"),
    b"C": _fixed(Commit, ">xQQq"),
    b"O": _origin,
    b"R": _relation,
    b"Y": _type,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _emitted,
    b"S": _fixed(StreamStart, ">I?"),
    b"E": _fixed(StreamStop, ">"),
    b"c": _fixed(StreamCommit, ">IxQQq"),
    b"A": _fixed(StreamAbort, ">II"),  # with parallel streaming, place and time follow; they tell us nothing
    b"b": _two_phase(">QQ8xI"),
    b"P": _two_phase(">xQQ8xI"),
    b"K": _two_phase(">xQQ8xI"),
    b"r": _two_phase(">xQQ16xI"),
    b"p": _two_phase(">xQQ8xI"),
}
_WITH_XID = frozenset({b"R", b"Y", b"I", b"U", b"D", b"T", b"M"})
