"""InstanceIndex: which instances of a template a row belongs to; in the algebra, the join with the params.

`join` is ΔT ⋈ P; hydrating a new group is T ⋈ ΔP. The keys of instances are in a dictionary, their lists and bounds in
a `RangeIndex`, so that a change costs the same with 100,000 instances as with 100. What a step must know of all of them
is in columns, by slot. It never evaluates an expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.ranges.range_index import RangeIndex
from headwater.engine.ranges.ranges import Wanted
from headwater.engine.ranking.rank import LimitRange
from headwater.engine.rows.arrays import Bools, Int64s
from headwater.engine.windows.slot_array import Slots
from headwater.engine.windows.window import GROUP, KEY_BYTES_MAX, SEVERAL, WINDOW, Window, WindowGroup
from headwater.model.encoding.keys import Uint64s, encode_row, hash_encoded
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.plan.template import Instance, Template

NOBODY = -1


@dataclass(frozen=True, slots=True)
class RowGroups:
    """`number[i]` is the slot of row i's group, −1 where nobody asked for it. Where a row has several groups, it is
    that of copy i, and `rows[i]` is the row it is a copy of."""

    number: Int64s
    instances: InstanceIndex
    rows: Int64s | None = None

    @property
    def groups(self) -> Mapping[int, WindowGroup]:
        """By number."""
        return self.instances.by_slot

    def looked(self) -> Int64s | None:
        """The rows that somebody asked for; None for all."""
        if self.rows is not None:
            return np.unique(self.rows)
        asked = np.flatnonzero(self.number >= 0)
        return None if len(asked) == len(self.number) else asked

    def asked(self) -> list[WindowGroup]:
        """The groups of these rows."""
        return [self.groups[number] for number in sorted(set(self.number.tolist()) - {NOBODY})]

    def troubled(self, room: int) -> bool:
        """Whether a group of these rows must be taken by turns, or has more rows than `room`."""
        if len(self.number) <= SMALL.grouped_rows:
            return any(group.by_turns or group.size > room for group in self.asked())
        records, asked = self.instances.group_slots.records, self.number[self.number != NOBODY]
        return bool(records["by_turns"][asked].any() or records["size"][asked].max() > room)


class InstanceIndex:
    """The instances of one template, grouped by encoded values.

    Many keys are looked up at once: by hash in a sorted array, then byte by byte in the records. The array may be
    behind what there is now; it is made again when that is worth it.
    """

    def __init__(self, ranges: RangeIndex | None = None) -> None:
        self.ranges = ranges
        self.groups: dict[bytes, WindowGroup] = {}
        self.by_slot: dict[int, WindowGroup] = {}
        self.group_slots, self.window_slots = Slots(GROUP), Slots(WINDOW)
        self._hash, self._slot = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._behind = 0

    def group(self, template: str, bucket: bytes, wanted: Wanted | None = None) -> WindowGroup:
        """The one that asks for this, which may be new."""
        key = bucket if wanted is None else bucket + wanted.key
        return self.groups.get(key) or self._new(template, key, bucket, wanted)

    def _new(self, template: str, key: bytes, bucket: bytes, wanted: Wanted | None) -> WindowGroup:
        short = key if len(key) <= KEY_BYTES_MAX else b""
        slot = self.group_slots.take((0, SEVERAL, hash_encoded(key), False, short))
        group = WindowGroup(template, key, bucket, wanted, self.group_slots, slot)
        self.groups[key] = self.by_slot[slot] = group
        self._behind += 1
        if self.ranges is not None and wanted is not None:
            self.ranges.add(slot, bucket, wanted)
        return group

    def open(self, instance: Instance, group: WindowGroup, frame: LimitRange, seq: int, prev: int) -> Window:
        slot = self.window_slots.take((instance.id, seq, prev, True))
        window = Window(instance, group, frame, self.window_slots, slot)
        group.windows.append(window)
        group.note()
        return window

    def close(self, window: Window) -> None:
        group = window.group
        if window in group.windows:
            group.windows.remove(window)
        self.window_slots.give(window.slot)
        group.note()
        if not group.windows and self.by_slot.get(group.slot) is group:
            del self.groups[group.key], self.by_slot[group.slot]
            self.group_slots.give(group.slot)
            if self.ranges is not None:
                self.ranges.remove(group.slot)
        if not self.groups:
            self._let_go()

    def _let_go(self) -> None:
        """The room for those that were there."""
        self.groups.clear()
        self.by_slot.clear()
        self._hash, self._slot, self._behind = np.zeros(0, np.uint64), np.zeros(0, np.int64), 0

    def windows(self) -> list[Window]:
        return [window for group in self.groups.values() for window in group.windows]

    def take_unsaved(self) -> list[int]:
        """The instances whose windows have changed since this was asked last."""
        records = self.window_slots.records
        slots = np.flatnonzero(records["unsaved"])
        records["unsaved"][slots] = False
        unsaved: list[int] = records["instance"][slots].tolist()
        return unsaved

    def join(self, encoded: Sequence[bytes] | None, hash: Uint64s, matches: Bools | None) -> RowGroups | None:
        """`encoded`: a key per row, None where there are no keys; `hash`: theirs. `matches` leaves out rows that match
        nothing."""
        if not self.groups:
            return None
        number = self._numbers(encoded, hash)
        if matches is not None:
            number[~matches] = NOBODY
        everyone = encoded is None and matches is None
        return RowGroups(number, self) if len(number) and (everyone or number.max() >= 0) else None

    def select(
        self, rows: pa.RecordBatch, table: Table, encoded: Sequence[bytes] | None, matches: Bools | None
    ) -> RowGroups | None:
        """`join`, where groups ask by lists and bounds: then a row may have several."""
        if not self.groups or self.ranges is None:
            return None
        row, slot = self.ranges.pairs(rows, table, encoded)
        if matches is not None:
            row, slot = row[matches[row]], slot[matches[row]]
        if not len(row):
            return None
        if (row[1:] == row[:-1]).any():
            return RowGroups(slot, self, row)
        number = np.full(rows.num_rows, NOBODY, np.int64)
        number[row] = slot
        return RowGroups(number, self)

    def _numbers(self, encoded: Sequence[bytes] | None, hash: Uint64s) -> Int64s:
        if encoded is None:
            return np.full(len(hash), next(iter(self.by_slot)), np.int64)
        if len(encoded) > SMALL.grouped_rows and len(self.groups) > SMALL.grouped_rows:
            return self._looked_up(encoded, hash)
        return self._asked(encoded)

    def _asked(self, encoded: Iterable[bytes]) -> Int64s:
        """One by one."""
        found = map(self.groups.get, encoded)
        return np.array([NOBODY if each is None else each.slot for each in found], np.int64)

    def _looked_up(self, encoded: Sequence[bytes], hash: Uint64s) -> Int64s:
        """Encoded values are never prefixes of each other: padded or cut short they differ where they did."""
        self._catch_up()
        place = np.minimum(np.searchsorted(self._hash, hash), len(self._hash) - 1)
        slot, met = self._slot[place], self._hash[place] == hash
        sure = met & (self.group_slots.records["key"][slot] == np.array(encoded, f"S{KEY_BYTES_MAX}"))
        number = np.where(sure, slot, NOBODY)
        unsure = np.flatnonzero(~sure if self._behind else met & ~sure)
        if len(unsure):
            number[unsure] = self._asked(encoded[row] for row in unsure.tolist())
        return number

    def _catch_up(self) -> None:
        if self._behind * 8 > len(self._slot):
            slots = np.fromiter(self.by_slot, np.int64, len(self.by_slot))
            hash = self.group_slots.records["hash"][slots]
            order = np.argsort(hash)
            self._hash, self._slot, self._behind = hash[order], slots[order], 0


def encode_instance(template: Template, instance: Instance, table: Table) -> bytes:
    """By the values of its keys."""
    return encode_row(instance.keyed(template), [table.column(name).collation for name in template.keys])
