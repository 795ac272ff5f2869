"""RangeIndex: which groups of a template want a row, where they ask by lists and bounds.

A row may belong to many groups. A row is a point: its encoded keys, one listed and one bounded column. A group is one
range of such points, or one for each value of its list. New groups wait in a list; from some number on they become a
level, and levels of similar size are merged, so that a group is indexed about log n times. Conditions that the point
does not contain are checked on the pairs that were found, column by column. It never reads other columns of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.ranges.ranges import Span, Wanted, encoded_column, selected_columns, within
from headwater.engine.ranges.segment_tree import SegmentTree
from headwater.engine.rows.arrays import Int64s
from headwater.engine.rows.work import Work
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.plan.template import Template

Pairs = tuple[Int64s, Int64s]  # row and slot, by row and then slot
_MASKED_GROUPS_MAX = 4  # so many each test a whole batch
_SLOT_BITS = 32
_SLOT = (1 << _SLOT_BITS) - 1
_GONE = -1
_within = np.frompyfunc(within, 2, 1)


@dataclass(frozen=True, slots=True)
class _Level:
    """Spans that are filed, and the owner of each: a slot, and when it was taken."""

    filed: SegmentTree
    owner: Int64s

    def __len__(self) -> int:
        return len(self.owner)


class RangeIndex:
    """The groups by slot, each with the bucket of its keys and what else it wants."""

    def __init__(self, template: Template, work: Work) -> None:
        ops = {each.op == "in" for each in template.selectors}
        self._columns = selected_columns(template)
        self._pointed = len(ops)  # how many columns a point has besides the keys
        self._keyed = bool(template.keys)
        self._work = work
        self._groups: dict[int, tuple[bytes, Wanted]] = {}
        self._waiting: dict[int, None] = {}
        self._levels: list[_Level] = []
        self._owner = np.full(1, _GONE, np.int64)
        self._spans = np.empty((len(self._columns), 1), object)
        self._taken = self._left = 0

    def add(self, slot: int, bucket: bytes, wanted: Wanted) -> None:
        if slot >= len(self._owner):
            self._grow(slot + 1)
        self._taken += 1
        self._owner[slot] = self._taken << _SLOT_BITS | slot
        for column, spans in enumerate(wanted.spans):
            self._spans[column, slot] = spans
        self._groups[slot] = bucket, wanted
        self._waiting[slot] = None

    def _grow(self, count: int) -> None:
        more = max(count, 2 * len(self._owner)) - len(self._owner)
        self._owner = np.concatenate((self._owner, np.full(more, _GONE, np.int64)))
        self._spans = np.concatenate((self._spans, np.empty((len(self._columns), more), object)), axis=1)

    def remove(self, slot: int) -> None:
        self._owner[slot] = _GONE
        self._spans[:, slot] = None
        del self._groups[slot]
        if slot in self._waiting:
            del self._waiting[slot]
        else:
            self._left += 1

    def pairs(self, rows: pa.RecordBatch, table: Table, encoded: Sequence[bytes] | None) -> Pairs:
        """Every row with every group that wants it. `encoded`: the keys of each row, None where there are none."""
        count = rows.num_rows
        if not self._keyed and len(self._groups) <= _MASKED_GROUPS_MAX and count > SMALL.masked_rows:
            return self._masked(rows, table)
        columns = [encoded_column(rows, table, name) for name in self._columns]
        return self.find([b""] * count if encoded is None else encoded, columns)

    def find(self, buckets: Sequence[bytes], columns: Sequence[list[bytes]]) -> Pairs:
        """As `pairs`, by the bucket of each row's keys and the encoded values of the columns that are selected by."""
        if len(buckets) * len(self._waiting) > SMALL.wanted_pairs or self._left > len(self._groups):
            self._file()
        found = [*map(np.array, self._one_by_one(buckets, columns))]
        return _together([(found[0], found[1]), *(self._filed(level, buckets, columns) for level in self._levels)])

    def _masked(self, rows: pa.RecordBatch, table: Table) -> Pairs:
        found = [(np.flatnonzero(wanted.mask(rows, table)), slot) for slot, (_, wanted) in self._groups.items()]
        self._work.paired += sum(len(row) for row, _ in found)
        return _together([(row, np.full(len(row), slot, np.int64)) for row, slot in found])

    def _one_by_one(self, buckets: Sequence[bytes], columns: Sequence[list[bytes]]) -> tuple[list[int], list[int]]:
        """Of those that wait."""
        row, slot = list[int](), list[int]()
        for each in self._waiting:
            bucket, wanted = self._groups[each]
            for place, values in enumerate(zip(*columns, strict=True)):
                if buckets[place] == bucket and wanted.has(values):
                    row.append(place)
                    slot.append(each)
        self._work.paired += len(row)
        return row, slot

    def _filed(self, level: _Level, buckets: Sequence[bytes], columns: Sequence[list[bytes]]) -> Pairs:
        points = [b"".join(parts) for parts in zip(buckets, *columns[: self._pointed], strict=True)]
        row, span = level.filed.find(points)
        self._work.paired += len(row)
        owner = level.owner[span]
        slot = owner & _SLOT
        there = self._owner[slot] == owner
        row, slot = row[there], slot[there]
        for n in range(self._pointed if level.filed.exact else 0, len(columns)):
            row, slot = self._checked(n, np.array(columns[n], object), row, slot)
        return (row, slot) if level.filed.exact else self._surely(buckets, row, slot)

    def _checked(self, column: int, values: npt.NDArray[np.object_], row: Int64s, slot: Int64s) -> Pairs:
        """The pairs whose group wants what the row holds in a column."""
        if not len(row):
            return row, slot
        wanted = _within(self._spans[column][slot], values[row]).astype(np.bool_)
        return row[wanted], slot[wanted]

    def _surely(self, buckets: Sequence[bytes], row: Int64s, slot: Int64s) -> Pairs:
        """Where points were cut short: the keys are looked at as well, and a pair that was found twice is one."""
        pairs = set(zip(row.tolist(), slot.tolist(), strict=True))
        sure = [(place, each) for place, each in pairs if self._groups[each][0] == buckets[place]]
        return np.array([place for place, _ in sure], np.int64), np.array([each for _, each in sure], np.int64)

    def _file(self) -> None:
        """What waits becomes a level, together with levels that are not much larger, or are mostly gone."""
        slots, self._waiting = list(self._waiting), {}
        everything = self._left > len(self._groups)
        while self._levels and (everything or 2 * len(slots) > len(self._levels[-1])):
            slots += self._current(self._levels.pop())
        self._left = 0 if everything else self._left
        spans = [(span, slot) for slot in slots for span in self._points(slot)]
        if spans:
            owner = self._owner[[slot for _, slot in spans]]
            self._levels.append(_Level(SegmentTree([span for span, _ in spans]), owner))

    def _current(self, level: _Level) -> list[int]:
        slot = level.owner & _SLOT
        slots: list[int] = np.unique(slot[self._owner[slot] == level.owner]).tolist()
        return slots

    def _points(self, slot: int) -> Iterator[Span]:
        """The spans of points that a group wants."""
        bucket, wanted = self._groups[slot]
        for low, high in wanted.spans[0]:
            if self._pointed == 1:
                yield bucket + low, bucket + high
            else:  # `low` is a listed value
                yield from ((bucket + low + first, bucket + low + past) for first, past in wanted.spans[1])


def _together(parts: Sequence[Pairs]) -> Pairs:
    row, slot = (np.concatenate([part[n] for part in parts]).astype(np.int64) for n in (0, 1))
    order = np.lexsort((slot, row))
    return row[order], slot[order]
