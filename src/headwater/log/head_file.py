"""The `head` file: how far the log may be read. A few bytes, overwritten in place after every commit, in one write.

Readers trust it alone, and the write to it is what wakes them. It is written after the records are durable,
so it never promises what a crash could take back; the head itself may come back older, and that is harmless.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headwater.fs.reopening_file import ReopeningFile
from headwater.model.errors import Corrupt

NAME = "head"
_FIELDS = struct.Struct("<8sQQQQQ")
_CRC = struct.Struct("<I")
_MAGIC = b"HWHEAD01"
_BYTES_MAX = 4096  # a head is shorter; what is longer is none
_READS_MAX = 50  # a read that meets a write may see half of it
_PAUSE_S = 0.001


@dataclass(frozen=True, slots=True)
class Head:
    """`length` bytes of the segment that begins at offset `segment` may be read; the last record begins at byte
    `last` (0: there is none). Of these bytes `synced` are known to be durable, and so are all segments before."""

    next_offset: int
    segment: int
    length: int
    last: int
    synced: int

    def pack(self) -> bytes:
        fields = _FIELDS.pack(_MAGIC, self.next_offset, self.segment, self.length, self.last, self.synced)
        return fields + _CRC.pack(zlib.crc32(fields))

    @classmethod
    def unpack(cls, packed: bytes) -> Self | None:
        if len(packed) != _FIELDS.size + _CRC.size or packed[: len(_MAGIC)] != _MAGIC:
            return None
        (crc,) = _CRC.unpack_from(packed, _FIELDS.size)
        if crc != zlib.crc32(packed[: _FIELDS.size]):
            return None
        return cls(*_FIELDS.unpack_from(packed)[1:])


class HeadFile:
    """Reads the head of one log again and again."""

    def __init__(self, directory: Path) -> None:
        self._file = ReopeningFile(directory / NAME)

    def read(self) -> Head | None:
        """The head as it is now; None while there is no log."""
        for attempt in range(_READS_MAX):
            try:
                packed = os.pread(self._file.fileno(), _BYTES_MAX, 0)
            except (FileNotFoundError, NotADirectoryError):
                return None
            if (head := Head.unpack(packed)) is not None:
                return head
            time.sleep(_PAUSE_S * (attempt > 0))
        raise Corrupt(
            f"{self._file.path}: expected {_FIELDS.size + _CRC.size} bytes with a valid checksum, found {packed.hex()}",
            hint="restore it from a backup; or stop the writer and delete this file: "
            "the log then counts as durable up to the first bad record of its last segment",
        )

    def close(self) -> None:
        self._file.close()


def read_head(directory: Path) -> Head | None:
    """The head as it is now; None while there is no log."""
    file = HeadFile(directory)
    try:
        return file.read()
    finally:
        file.close()
