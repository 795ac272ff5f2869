"""Small files that are either the old whole or the new whole, whenever the power goes, and that tell when they are not.

A checked file carries a frame before its content: a mark, the length, and a digest of both and of the content. A bit
that flipped, an end that is missing and bytes of another file are all told as `Corrupt`. It never looks into a content.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from pathlib import Path

import xxhash

from headwater.fs.permissions import open_to_write
from headwater.fs.sync import sync_now
from headwater.model.errors import Corrupt

_MARK = b"HWFILE01"
_FRAME = struct.Struct("<8sQ")
_DIGEST_BYTES = 8
CONTENT_AT = _FRAME.size + _DIGEST_BYTES  # where the content of a checked file begins


def write_durably(path: Path, *pieces: bytes) -> None:
    """Writes to a draft, syncs, renames into place, syncs the directory."""
    _durable_draft(path, *pieces).replace(path)
    sync_now(path.parent)


def _durable_draft(path: Path, *pieces: bytes) -> Path:
    draft = path.with_name(f"{path.name}.{threading.get_ident()}.new")
    with open_to_write(draft) as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return draft


def write_checked(path: Path, content: bytes) -> None:
    """As `write_durably`, framed: for `read_checked`."""
    write_durably(path, *framed(content))


def draft_checked(path: Path, content: bytes) -> Path:
    """The first half of `write_checked`: durable beside its place. Renamed to `path`, and the directory synced, it
    counts."""
    return _durable_draft(path, *framed(content))


def read_checked(path: Path) -> bytes:
    """The content as it was written. Raises `Corrupt` where it is not, and FileNotFoundError where there is no file."""
    whole = path.read_bytes()
    content = whole[CONTENT_AT:]
    if whole[:CONTENT_AT] != framed(content)[0]:
        raise Corrupt(
            f"{path}: expected the file as it was written, found {len(whole)} bytes whose checksum does not match",
            hint="restore it from a backup, or start with a fresh data directory",
        )
    return content


def digest_of(content: bytes | memoryview | mmap.mmap) -> str:
    """What tells a large file from a damaged one, kept in another place: its name, a manifest, a record."""
    return xxhash.xxh3_128_hexdigest(content)


def digest_of_file(path: Path) -> str | None:
    """None where there is no file."""
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return digest_of(b"")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return digest_of(mapped)
    except FileNotFoundError:
        return None


def framed(content: bytes) -> tuple[bytes, bytes]:
    """The frame, and the content that follows it."""
    head = _FRAME.pack(_MARK, len(content))
    digest = xxhash.xxh3_64(head)
    digest.update(content)
    return head + digest.digest(), content
