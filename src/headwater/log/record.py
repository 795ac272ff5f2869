"""A record: its place in the one order, its kind, its bytes; and the form it has on disk. Never looks into a payload.

On disk, little endian: crc, length of the payload, offset, generation of the writer, kind; then the payload.
The crc covers everything that follows it, the length too.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

FIRST_OFFSET = 1  # so that a tx is never 0, the seq of a subscriber who has seen nothing
HEADER_BYTES = 24
OFFSET_AT = 8  # where in the header the offset stands
_CRC = struct.Struct("<I")
_REST = struct.Struct("<IQII")
_ORDINAL_BITS = 16

Piece = bytes | memoryview
Payload = bytes | Sequence[Piece]


class Kind(enum.IntEnum):
    """The numbers are on disk: never change one, never use one again."""

    FRAME = 1
    SUBSCRIBE = 2
    UNSUBSCRIBE = 3
    LEASE = 4
    CAPTURE = 5
    ACTIVATE = 6
    ANSWER = 7
    SCHEMA = 8
    DECISION = 9
    TICK = 10
    END_EPOCH = 11
    SNAPSHOT = 12
    DIFFS = 13
    REPORT = 14
    RELEASE = 15
    FETCH = 16
    UNWANT = 17
    MOVE = 20


_KINDS = {int(kind): kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    kind: Kind
    payload: bytes


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why the bytes at some place are no record."""

    expected: str
    found: str


def tx_of(offset: int, ordinal: int) -> int:
    """The tx of a frame's transaction: ordered as the log is, and as the transactions are within one frame."""
    return offset << _ORDINAL_BITS | ordinal


def offset_of(tx: int) -> int:
    return tx >> _ORDINAL_BITS


def pack(offset: int, kind: Kind, generation: int, payload: Payload) -> list[Piece]:
    """The record as it is written, in pieces that follow one another."""
    parts: list[Piece] = [payload] if isinstance(payload, bytes) else list(payload)
    rest = _REST.pack(sum(map(len, parts)), offset, generation, kind)
    crc = zlib.crc32(rest)
    for part in parts:
        crc = zlib.crc32(part, crc)
    return [_CRC.pack(crc), rest, *parts]


def offset_bytes(offset: int) -> bytes:
    """The offset as a header holds it."""
    return offset.to_bytes(8, "little")


def packed_bytes(header: memoryview) -> int:
    """The length of the record that begins with `header`, if it is one."""
    length: int = _REST.unpack_from(header, _CRC.size)[0]
    return HEADER_BYTES + length


def unpack(packed: memoryview, offset: int) -> Record | Flaw:
    """The record that fills `packed` and stands at `offset`."""
    (crc,) = _CRC.unpack_from(packed)
    actual = zlib.crc32(packed[_CRC.size :])
    if crc != actual:
        return Flaw(f"checksum {crc:08x}", f"{actual:08x}")
    _, at, _, number = _REST.unpack_from(packed, _CRC.size)
    if at != offset:
        return Flaw(f"offset {offset}", str(at))
    kind = _KINDS.get(number)
    if kind is None:
        return Flaw(f"a kind from {min(Kind)} to {max(Kind)}", f"{number}, perhaps of a newer version")
    return Record(offset, kind, bytes(packed[HEADER_BYTES:]))
