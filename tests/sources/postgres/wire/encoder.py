"""Messages of logical replication as a server would write them: the inverse of the decoder, for its tests alone."""

from __future__ import annotations

import struct
from typing import assert_never

from headwater.sources.postgres.wire.messages import (
    UNCHANGED,
    Begin,
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
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    Update,
)


def written(message: Message, streaming: bool = False, parallel: bool = False) -> bytes:
    """`streaming`: inside a block of an in-progress transaction. `parallel`: aborts with place and time."""
    match message:
        case Begin(lsn, at_us, xid):
            return b"B" + struct.pack(">QqI", lsn, at_us, xid)
        case Commit(lsn, end, at_us):
            return b"C" + struct.pack(">BQQq", 0, lsn, end, at_us)
        case Origin(lsn, name):
            return b"O" + struct.pack(">Q", lsn) + _text(name)
        case StreamStart(xid, first):
            return b"S" + struct.pack(">IB", xid, first)
        case StreamStop():
            return b"E"
        case StreamCommit(xid, lsn, end, at_us):
            return b"c" + struct.pack(">IBQQq", xid, 0, lsn, end, at_us)
        case StreamAbort(xid, subxid):
            return b"A" + struct.pack(">II", xid, subxid) + (struct.pack(">Qq", 1, 2) if parallel else b"")
        case Prepared():
            return _prepared(message)
        case _:
            return _changed(message, struct.pack(">I", message.xid) if streaming else b"")


def _changed(
    message: Relation | NamedType | Insert | Update | Delete | Truncate | LogicalMessage,
    xid: bytes,
) -> bytes:
    match message:
        case Relation(_, oid, schema, name, identity, columns):
            head = b"R" + xid + struct.pack(">I", oid) + _schema(schema) + _text(name) + identity.encode()
            return (
                head
                + struct.pack(">H", len(columns))
                + b"".join(
                    struct.pack(">B", one.is_key) + _text(one.name) + struct.pack(">Ii", one.type, one.modifier)
                    for one in columns
                )
            )
        case NamedType(_, oid, schema, name):
            return b"Y" + xid + struct.pack(">I", oid) + _schema(schema) + _text(name)
        case Insert(_, oid, new):
            return b"I" + xid + struct.pack(">I", oid) + b"N" + _cells(new)
        case Update(_, oid, old, whole, new):
            before = b"" if old is None else (b"O" if whole else b"K") + _cells(old)
            return b"U" + xid + struct.pack(">I", oid) + before + b"N" + _cells(new)
        case Delete(_, oid, old, whole):
            return b"D" + xid + struct.pack(">I", oid) + (b"O" if whole else b"K") + _cells(old)
        case Truncate(_, oids, cascade, restart):
            return b"T" + xid + struct.pack(f">IB{len(oids)}I", len(oids), cascade | restart << 1, *oids)
        case LogicalMessage(_, transactional, lsn, prefix, content):
            head = b"M" + xid + struct.pack(">BQ", transactional, lsn)
            return head + _text(prefix) + struct.pack(">I", len(content)) + content
        case _:
            assert_never(message)


def _prepared(message: Prepared) -> bytes:
    lsn, end, xid, gid = message.lsn, message.end, message.xid, _text(message.gid)
    match message.kind:
        case "b":
            return b"b" + struct.pack(">QQqI", lsn, end, 7, xid) + gid
        case "r":
            return b"r" + struct.pack(">BQQqqI", 0, lsn, end, 7, 8, xid) + gid
        case kind:
            return kind.encode() + struct.pack(">BQQqI", 0, lsn, end, 7, xid) + gid


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _schema(schema: str) -> bytes:
    return _text("" if schema == "pg_catalog" else schema)


def _cells(cells: Cells) -> bytes:
    return struct.pack(">H", len(cells)) + b"".join(
        b"n" if cell is None else b"u" if cell is UNCHANGED else b"t" + struct.pack(">I", len(cell)) + cell
        for cell in cells
    )
