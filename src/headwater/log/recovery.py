"""What a writer does before its first append: find the end of the log, and cut what a crash left behind it.

Only bytes that were never promised are cut. Damage before them raises `Corrupt`, and then nothing was changed.
Called by the process that owns the log; never by readers.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from headwater.fs.sync import sync_now
from headwater.log.head_file import Head, read_head
from headwater.log.record import FIRST_OFFSET, Flaw
from headwater.log.segment_file import (
    BEGIN,
    SegmentFile,
    create_segment,
    end_of,
    list_segments,
    segment_path,
)
from headwater.model.errors import Corrupt


@dataclass(frozen=True, slots=True)
class _End:
    """How far one segment is good, and why no further. `end` is 0 where not even its header is."""

    base: int
    next_offset: int
    end: int
    last: int
    flaw: Flaw | None


def recover(directory: Path) -> Head:
    """The head to go on from. Everything up to it is good and durable, and nothing follows it."""
    head, bases = read_head(directory), list_segments(directory)
    if head is not None and head.segment not in bases:
        raise Corrupt(
            f"{segment_path(directory, head.segment)}: expected the segment that the head names, found no such file",
            hint="restore the file from a backup",
        )
    ends = [_examine(directory, base, head) for base in bases if head is None or base >= head.segment]
    _check_continuous(directory, ends)
    return _cut(directory, ends)


def _examine(directory: Path, base: int, head: Head | None) -> _End:
    promised = head.synced if head is not None and head.segment == base else 0
    with contextlib.closing(SegmentFile(directory, base)) as segment:
        found = _end_of_good(segment)
        if found.end < promised:
            raise segment.corrupt(found.end, found.flaw or Flaw(f"{promised} durable bytes", f"{found.end}"))
    return found


def _end_of_good(segment: SegmentFile) -> _End:
    if (flaw := segment.header_flaw()) is not None:
        if segment.size > BEGIN:  # the header is durable before any record is written
            raise segment.corrupt(0, flaw)
        return _End(segment.base, segment.base, 0, 0, flaw)
    offset, end, last = segment.base, BEGIN, 0
    for place, found in segment.scan(segment.size):
        if isinstance(found, Flaw):
            return _End(segment.base, offset, place, last, found)
        offset, end, last = offset + 1, end_of(place, found), place
    return _End(segment.base, offset, end, last, None)


def _check_continuous(directory: Path, ends: list[_End]) -> None:
    """A segment is begun only when the one before it is complete and durable."""
    for before, after in pairwise(ends):
        with contextlib.closing(SegmentFile(directory, before.base)) as segment:
            if before.flaw is not None:
                raise segment.corrupt(before.end, before.flaw)
            if before.next_offset != after.base:
                flaw = Flaw(f"records up to offset {after.base - 1}", f"none after {before.next_offset - 1}")
                raise segment.corrupt(before.end, flaw)


def _cut(directory: Path, ends: list[_End]) -> Head:
    """A segment without a record goes, unless it is all there is: it was begun for a record that never came."""
    base = ends[-1].base if ends else FIRST_OFFSET
    if ends and not ends[-1].last and (len(ends) > 1 or not ends[-1].end):
        segment_path(directory, ends.pop().base).unlink()
        sync_now(directory)
    if not ends:
        create_segment(directory, base)
        return Head(base, base, BEGIN, 0, BEGIN)
    found = ends[-1]
    _cut_file(segment_path(directory, found.base), found.end)
    return Head(found.next_offset, found.base, found.end, found.last, found.end)


def cut_back(directory: Path, head: Head) -> None:
    """What a failed write left past the head goes: it was never acknowledged."""
    for base in list_segments(directory):
        if base > head.segment:
            segment_path(directory, base).unlink()
    sync_now(directory)
    _cut_file(segment_path(directory, head.segment), head.length)


def _cut_file(path: Path, end: int) -> None:
    file = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(file, end)
        os.fsync(file)
    finally:
        os.close(file)
