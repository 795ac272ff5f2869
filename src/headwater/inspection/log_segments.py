"""A log as its files have it: segments, how many records of each kind, and some records. It never writes."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headwater.inspection.damage import DamageList
from headwater.inspection.records import RecordReport, record_report
from headwater.log.head_file import Head, read_head
from headwater.log.record import Flaw, Record
from headwater.log.segment_file import SegmentFile, list_segments, segment_path


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Which records are told one by one: `count` of them, from an offset on, or the newest where it is None."""

    count: int = 0
    start: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """`records` counts those that read; `bytes` are those on disk."""

    file: str
    first_offset: int
    records: int
    bytes: int


@dataclass(slots=True)
class LogReport:
    """`next_offset` is None where there is no head that reads."""

    next_offset: int | None = None
    segments: list[SegmentReport] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    records: list[RecordReport] = field(default_factory=list)


def log_report(directory: Path, wanted: RecordRange, damage: DamageList) -> LogReport:
    head = None
    with damage.of(directory / "head"):
        head = read_head(directory)
    report, kinds = LogReport(None if head is None else head.next_offset), Counter[str]()
    told: deque[Record] = deque(maxlen=wanted.count)
    for base in list_segments(directory):
        path = segment_path(directory, base)
        with damage.of(path), contextlib.closing(SegmentFile(directory, base)) as segment:
            count = 0
            for record in _records(segment, head, damage):
                count += 1
                kinds[record.kind.name] += 1
                if _is_wanted(record, wanted, told):
                    told.append(record)
            report.segments.append(SegmentReport(path.name, base, count, segment.size))
    report.kinds = dict(kinds)
    for record in told:
        with damage.of(segment_path(directory, _segment_of(directory, record.offset))):
            report.records.append(record_report(record))
    return report


def _is_wanted(record: Record, wanted: RecordRange, told: deque[Record]) -> bool:
    if wanted.start is None:
        return True
    return record.offset >= wanted.start and len(told) < wanted.count


def _records(segment: SegmentFile, head: Head | None, damage: DamageList) -> Iterator[Record]:
    """Up to the first that does not read. What lies behind the head was never promised, and is not looked at."""
    if (flaw := segment.header_flaw()) is not None:
        damage.add(segment.path, f"expected {flaw.expected}, found {flaw.found}")
        return
    is_last = head is not None and head.segment == segment.base
    for place, found in segment.scan(min(head.length, segment.size) if head is not None and is_last else segment.size):
        if isinstance(found, Flaw):
            damage.add(segment.path, f"byte {place}: expected {found.expected}, found {found.found}")
            return
        yield found
    if head is not None and is_last and segment.size < head.length:
        damage.add(segment.path, f"expected {head.length} bytes, as the head says, found {segment.size}")


def _segment_of(directory: Path, offset: int) -> int:
    return max((base for base in list_segments(directory) if base <= offset), default=offset)
