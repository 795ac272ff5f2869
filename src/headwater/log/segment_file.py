"""One segment: a file that begins with a header and holds records of consecutive offsets, the first one in its name.

Knows the bytes of one file; never how far they are durable, nor which segment comes next.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from headwater.fs.permissions import FILE
from headwater.fs.sync import sync_now
from headwater.log.record import HEADER_BYTES, OFFSET_AT, Flaw, Piece, Record, offset_bytes, packed_bytes, unpack
from headwater.model.errors import Corrupt

_SUFFIX = ".segment"
_HEADER = struct.Struct("<8sQ")
_CRC = struct.Struct("<I")
_MAGIC = b"HWLOG001"
BEGIN = _HEADER.size + _CRC.size  # where the first record stands
_CHUNK_BYTES = 256 << 10
_LARGE_BYTES = 64 << 10  # of a piece that is not worth copying

fdatasync = getattr(os, "fdatasync", os.fsync)


def segment_path(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}{_SUFFIX}"


def list_segments(directory: Path) -> list[int]:
    """The first offset of every segment, ascending."""
    try:
        return sorted(int(path.stem) for path in directory.iterdir() if path.suffix == _SUFFIX and path.stem.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []


def create_segment(directory: Path, base: int) -> None:
    """An empty segment, durable with its name."""
    file = os.open(segment_path(directory, base), os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE)
    try:
        os.write(file, _header(base))
        os.fsync(file)
    finally:
        os.close(file)
    sync_now(directory)


def write_all(file: int, pieces: Iterable[Piece], at: int) -> None:
    """One behind the other: small ones are copied together first, large ones are not."""
    for is_large, neighbours in groupby(pieces, lambda piece: len(piece) > _LARGE_BYTES):
        for piece in neighbours if is_large else [b"".join(neighbours)]:
            _write_whole(file, piece, at)
            at += len(piece)


def _write_whole(file: int, piece: Piece, at: int) -> None:
    """`pwrite` may write less than it was given."""
    view = memoryview(piece)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _header(base: int) -> bytes:
    fields = _HEADER.pack(_MAGIC, base)
    return fields + _CRC.pack(zlib.crc32(fields))


class SegmentFile:
    """Reads the records of one segment, through a small buffer. What is buffered is never read from disk again."""

    def __init__(self, directory: Path, base: int) -> None:
        self.base = base
        self.path = segment_path(directory, base)
        self._file = os.open(self.path, os.O_RDONLY)
        self._buffer = b""
        self._start = 0

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    def header_flaw(self) -> Flaw | None:
        found = os.pread(self._file, BEGIN, 0)
        return None if found == _header(self.base) else Flaw(f"segment header {_header(self.base).hex()}", found.hex())

    def read(self, place: int, offset: int, limit: int) -> Record | Flaw:
        """The record of that offset at that byte, which must end at byte `limit` or before."""
        if place + HEADER_BYTES > limit:
            return Flaw(f"a record of at least {HEADER_BYTES} bytes", f"{limit - place} bytes")
        end = place + packed_bytes(self._bytes(place, HEADER_BYTES, limit))
        if end > limit:
            return Flaw(f"a record that ends by byte {limit}", f"one that claims to end at byte {end}")
        return unpack(self._bytes(place, end - place, limit), offset)

    def scan(self, limit: int) -> Iterator[tuple[int, Record | Flaw]]:
        """Every record with its place, from the first; a flaw is the last."""
        place, offset = BEGIN, self.base
        while place < limit:
            found = self.read(place, offset, limit)
            yield place, found
            if isinstance(found, Flaw):
                return
            place, offset = end_of(place, found), offset + 1

    def find(self, start: int, offset: int, limit: int) -> int | None:
        """Where, from `start` on, a good record of that offset begins; it need not follow from the one before."""
        data, at = self._pread(start, limit - start), -1
        while (at := data.find(offset_bytes(offset), at + 1)) >= 0:
            place = start + at - OFFSET_AT
            if place >= start and not isinstance(self.read(place, offset, limit), Flaw):
                return place
        return None

    def corrupt(self, place: int, flaw: Flaw) -> Corrupt:
        return Corrupt(
            f"{self.path}, byte {place}: expected {flaw.expected}, found {flaw.found}",
            hint="restore this file from a backup; or remove the log directory and let the source be captured again",
        )

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _bytes(self, place: int, count: int, limit: int) -> memoryview:
        at = place - self._start
        if at < 0 or at + count > len(self._buffer):
            self._buffer = self._pread(place, min(max(count, _CHUNK_BYTES), limit - place))
            self._start, at = place, 0
        if at + count > len(self._buffer):
            raise self.corrupt(place, Flaw(f"{count} bytes", f"{len(self._buffer)} before the end of the file"))
        return memoryview(self._buffer)[at : at + count]

    def _pread(self, place: int, count: int) -> bytes:
        data = os.pread(self._file, count, place)
        while len(data) < count and (more := os.pread(self._file, count - len(data), place + len(data))):
            data += more
        return data


def end_of(place: int, record: Record) -> int:
    return place + HEADER_BYTES + len(record.payload)
