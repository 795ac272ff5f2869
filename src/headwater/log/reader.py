"""Reads a segment-file log, in any process. Trusts the head for how far; every record is verified all the same.

It never writes, and takes no lock: readers do not affect the writer. What a writer in the same process appends while it
waits is handed to it, and is not read.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.fs.doorbell import Doorbell
from headwater.log import head_file as head_file
from headwater.log.head_file import Head, HeadFile
from headwater.log.local_tail import Handed, Mailbox, attach, tail_name
from headwater.log.record import FIRST_OFFSET, Flaw, Record
from headwater.log.segment_file import BEGIN, SegmentFile, end_of, list_segments
from headwater.model.errors import Corrupt, LogError
from headwater.model.limits import DEFAULT

OLDEST = 0
_SKIP_RECORDS_MAX = 64


class SegmentReader:
    """A `LogReader` over a directory, which need not exist yet.

    `looks` counts how often the head was read: a reader that waits well looks about once per wake.
    """

    def __init__(self, directory: Path, offset: int = OLDEST) -> None:
        self.looks = 0
        self._directory = directory
        self._offset = offset
        self._segment: SegmentFile | None = None
        self._place = 0
        self._head = HeadFile(directory)
        self._bell: Doorbell | None = None
        self._name = tail_name(directory)
        self._is_watched = False  # by an event loop, which a file wakes
        self._mailbox: Mailbox | None = None
        self._handed: deque[Handed] = deque()
        self._is_settled = False  # all that comes is handed over, and was since the last look
        self._stand = (0, 0, 0)  # an offset, and the segment and the place where its record is to be found

    @property
    def offset(self) -> int:
        return self._offset or self._oldest()

    def seek(self, offset: int) -> None:
        self._leave()
        self._offset, self._is_settled = offset, False

    def poll(
        self, max_records: int = DEFAULT.step_records_max, max_bytes: int = DEFAULT.step_bytes_max
    ) -> list[Record]:
        records = self._taken(max_records, max_bytes)
        if self._is_settled or len(records) >= max_records:
            return records
        size = sum(len(record.payload) for record in records)
        head = self._look()
        self._is_settled = self._mailbox is not None and head is not None and self.offset >= head.next_offset
        while head is not None and self.offset < head.next_offset and len(records) < max_records and size < max_bytes:
            try:
                record = self._next(head)
            except LogError:
                if records:  # the good ones first; the next poll stands before the bad one
                    return records
                raise
            records.append(record)
            size += len(record.payload)
        return records

    def _taken(self, max_records: int, max_bytes: int) -> list[Record]:
        """What was handed over, where it follows."""
        if self._mailbox is None:
            return []
        while handed := self._mailbox.take():
            self._handed += handed
        if self._handed and not self._offset:
            self._offset = self.offset
        while self._handed and self._handed[0].record.offset < self._offset:
            self._handed.popleft()
        records: list[Record] = []
        size = 0
        while self._handed and len(records) < max_records and size < max_bytes:
            if self._handed[0].record.offset != self._offset:
                self._is_settled = False  # files hold what is missing
                break
            record, segment, end = self._handed.popleft()
            records.append(record)
            size += len(record.payload)
            self._offset += 1
            self._stand = self._offset, segment, end
        if records and self._segment is not None:
            self._leave()
        if self._mailbox.is_broken and not self._handed:
            self._detach()
        return records

    def _detach(self) -> None:
        self._mailbox, self._is_settled = None, False
        self._handed.clear()

    def skip(self) -> None:
        """After `poll` raised: to the next record that reads. For logs that can spare one, and never for others."""
        head, segment = self._look(), self._segment
        if head is None:
            return
        if segment is None or not self._skip_within(segment, head):
            later = [base for base in list_segments(self._directory) if base > self.offset]
            self.seek(later[0] if later else head.next_offset)

    def _skip_within(self, segment: SegmentFile, head: Head) -> bool:
        """A record names its offset: that of the next few is looked for, byte by byte."""
        limit = _limit(segment, head)
        for offset in range(self._offset + 1, min(self._offset + _SKIP_RECORDS_MAX, head.next_offset)):
            place = segment.find(self._place + 1, offset, limit)
            if place is not None:
                self._place, self._offset = place, offset
                return True
        if segment.base == head.segment:
            self._place, self._offset = limit, head.next_offset
        return segment.base == head.segment

    def wait(self, timeout_s: float) -> bool:
        if self._mailbox is None and not self._is_watched and (mailbox := attach(self._name)) is not None:
            self._mailbox, self._is_settled = mailbox, False
        if self._mailbox is not None:
            return self._wait_local(self._mailbox, timeout_s)
        return self._wait_bell(timeout_s)

    def _wait_local(self, mailbox: Mailbox, timeout_s: float) -> bool:
        """Where nothing comes, the next poll looks at the files: the writer may be another one by now."""
        if self._handed or (not self._is_settled and self._readable()):
            return True
        handed = mailbox.take(timeout_s)
        if handed is None:
            self._is_settled = False
            return self._readable()
        self._handed += handed
        if not handed:
            self._detach()
        return bool(handed) or self._readable()

    def _wait_bell(self, timeout_s: float) -> bool:
        bell = self._doorbell()
        bell.wait(0)  # what rang until now is seen by the look that follows
        deadline = time.monotonic() + timeout_s
        while not self._readable():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            bell.wait(left_s)
        return True

    def tail(self) -> Record | None:
        head = self._look()
        return read_last(self._directory, head) if head is not None else None

    def fileno(self) -> int:
        """Readable when there may be something new: for event loops. Then `wait(0)` silences it."""
        self._is_watched = True
        return self._doorbell().fileno()

    def close(self) -> None:
        self._leave()
        self._head.close()
        if self._mailbox is not None:
            self._mailbox.end()
            self._detach()
        if self._bell is not None:
            self._bell.close()
            self._bell = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _look(self) -> Head | None:
        self.looks += 1
        return self._head.read()

    def _readable(self) -> bool:
        head = self._look()
        return head is not None and self.offset < head.next_offset

    def _doorbell(self) -> Doorbell:
        if self._bell is None:
            self._bell = Doorbell(self._directory / head_file.NAME)
        return self._bell

    def _next(self, head: Head) -> Record:
        segment = self._segment or self._enter(head)
        limit = _limit(segment, head)
        if self._place == limit and segment.base != head.segment:
            segment = self._enter(head)
            limit = _limit(segment, head)
        record = _verified(segment, self._place, self._offset, limit)
        self._place = end_of(self._place, record)
        self._offset += 1
        return record

    def _enter(self, head: Head) -> SegmentFile:
        """Opens the segment that holds the next record, and stands before it."""
        self._leave()
        offset = self.offset
        segment = self._open(offset)
        try:
            known = self._stand[:2] == (offset, segment.base)
            self._place = self._stand[2] if known else _place(segment, offset, _limit(segment, head))
        except LogError:
            segment.close()
            raise
        self._segment, self._offset = segment, offset
        return segment

    def _open(self, offset: int) -> SegmentFile:
        base = max((base for base in list_segments(self._directory) if base <= offset), default=None)
        if base is None:
            raise self._truncated(offset)
        try:
            segment = SegmentFile(self._directory, base)
        except FileNotFoundError:
            raise self._truncated(offset) from None
        if (flaw := segment.header_flaw()) is not None:
            segment.close()
            raise segment.corrupt(0, flaw)
        return segment

    def _truncated(self, offset: int) -> Corrupt:
        return Corrupt(
            f"{self._directory}: expected offset {offset}, but the log was truncated and begins at {self._oldest()}",
            hint="start from a newer manifest, or with a fresh data directory",
        )

    def _oldest(self) -> int:
        return next(iter(list_segments(self._directory)), FIRST_OFFSET)

    def _leave(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None


def read_last(directory: Path, head: Head) -> Record | None:
    """The record that the head says is the last."""
    if not head.last:
        return None
    with contextlib.closing(SegmentFile(directory, head.segment)) as segment:
        return _verified(segment, head.last, head.next_offset - 1, head.length)


def _limit(segment: SegmentFile, head: Head) -> int:
    """How far the segment may be read: one that the head has moved past is complete."""
    return head.length if segment.base == head.segment else segment.size


def _place(segment: SegmentFile, offset: int, limit: int) -> int:
    """Where the record of that offset begins, found by walking over those before it."""
    place = BEGIN
    for passed in range(segment.base, offset):
        place = end_of(place, _verified(segment, place, passed, limit))
    return place


def _verified(segment: SegmentFile, place: int, offset: int, limit: int) -> Record:
    found = segment.read(place, offset, limit)
    if isinstance(found, Flaw):
        raise segment.corrupt(place, found)
    return found
