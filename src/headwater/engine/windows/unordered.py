"""Unordered windows, a whole step at once: with no order and no frame the diff of a window is the diff of its rows.

Used where no window is in error or near a limit. `ordered/replay.py` emits the same, one transaction at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwater.engine.emissions.block import DELETE, INSERT, NOWHERE, UPDATE, Block, Edit, FewEdits
from headwater.engine.emissions.index import Entry, Index
from headwater.engine.emissions.outbox import Outbox
from headwater.engine.rows.arrays import Int64s
from headwater.engine.windows.changes import Changes
from headwater.engine.windows.instance_index import NOBODY, InstanceIndex, RowGroups
from headwater.engine.windows.slot_array import Slots
from headwater.engine.windows.template_program import Program, Projection, differ, looks
from headwater.engine.windows.visibility import may_look_as_before
from headwater.engine.windows.window import SEVERAL
from headwater.model.size import SMALL


def linear(program: Program, changes: Changes, joined: RowGroups, seen: Projection, outbox: Outbox) -> bool:
    """False where a transaction may leave a window as it looks: then nothing was done, and it is not for this."""
    if len(changes) <= SMALL.linear_changes and not program.hidden:
        _small_linear(program, changes, joined, seen, outbox)
        return True
    return _large_linear(program, changes, joined, seen, outbox)


def _small_linear(program: Program, changes: Changes, joined: RowGroups, seen: Projection, outbox: Outbox) -> None:
    """What `_large_linear` does, change by change."""
    places, ids = seen.place.tolist(), changes.id.tolist()
    groups = [group if place >= 0 else NOBODY for group, place in zip(joined.number.tolist(), places, strict=True)]
    rows = looks(seen.pool)
    edits: list[Edit] = []
    told: set[tuple[int, int]] = set()  # tx, and the slot of a window
    for old, new, tx in zip(changes.old.tolist(), changes.new.tolist(), changes.tx.tolist(), strict=True):
        left, came = groups[old] if old >= 0 else NOBODY, groups[new] if new >= 0 else NOBODY
        if left == came:
            if left == NOBODY or (ids[old] == ids[new] and rows[places[old]] == rows[places[new]]):
                continue
            sides = [(left, UPDATE, ids[old], ids[new], places[old], places[new])]
        else:
            gone = (left, DELETE, ids[old], 0, places[old], NOWHERE)
            arrived = (came, INSERT, 0, ids[new], NOWHERE, places[new])
            sides = [each for each in (gone, arrived) if each[0] != NOBODY]
        for number, kind, old_hash, new_hash, was, now in sides:
            group = joined.groups[number]
            if kind != UPDATE:
                group.size += 1 if kind == INSERT else -1
            for window in group.windows:
                told.add((tx, window.slot))
                edits.append((window.instance.id, tx, kind, old_hash, new_hash, NOWHERE, NOWHERE, was, now))
    outbox.index.extend(_entries(program.template.id, told, joined.instances.window_slots))
    outbox.add(program.template.id, FewEdits(edits, seen.pool, program.types))


def _large_linear(program: Program, changes: Changes, joined: RowGroups, seen: Projection, outbox: Outbox) -> bool:
    old, old_group = _side(changes.old, joined, seen)
    new, new_group = _side(changes.new, joined, seen)
    same = (old_group == new_group) & (old_group >= 0)
    updated, alike = _changed(changes, seen, np.flatnonzero(same), old, new)
    deleted = np.flatnonzero((old_group >= 0) & ~same)
    inserted = np.flatnonzero((new_group >= 0) & ~same)
    at = np.concatenate((updated, deleted, inserted))
    if not len(at):
        return True
    cuts = (len(updated), len(updated) + len(deleted))
    kind = np.repeat(np.array([UPDATE, DELETE, INSERT], np.int8), (cuts[0], len(deleted), len(inserted)))
    old, new = old[at], new[at]
    old[cuts[1] :], new[cuts[0] : cuts[1]] = NOWHERE, NOWHERE
    group = np.where(kind == INSERT, new_group[at], old_group[at])
    emission = (changes.tx[at], group)
    if program.hidden and may_look_as_before(seen.pool, program.types, emission, (old, new), alike):
        return False
    _resize(joined.instances, old_group[deleted], -1)
    _resize(joined.instances, new_group[inserted], 1)
    window, spread = _spread(joined.instances, group)
    at, old, new, kind = at[spread], old[spread], new[spread], kind[spread]
    nowhere = np.full(len(at), NOWHERE, np.int64)
    old_hash = np.where(old < 0, np.uint64(0), changes.id[changes.old[at]])
    new_hash = np.where(new < 0, np.uint64(0), changes.id[changes.new[at]])
    template, slots, tx = program.template.id, joined.instances.window_slots, changes.tx[at]
    instance = slots.records["instance"][window]
    block = Block(instance, tx, kind, old_hash, new_hash, nowhere, nowhere, old, new, seen.pool, program.types)
    if len(tx) <= SMALL.entries:
        outbox.index.extend(_entries(template, set(zip(tx.tolist(), window.tolist(), strict=True)), slots))
    else:
        outbox.many.append(_entered(template, tx, window, slots))
    outbox.add(template, block)
    return True


def _side(rows: Int64s, joined: RowGroups, seen: Projection) -> tuple[Int64s, Int64s]:
    """Place in the pool and number of the group, −1 where the row is not in a result."""
    place = np.where(rows < 0, NOWHERE, seen.place[rows])
    return place, np.where(place < 0, NOWHERE, joined.number[rows])


def _changed(changes: Changes, seen: Projection, at: Int64s, old: Int64s, new: Int64s) -> tuple[Int64s, Int64s]:
    """An update nobody can see is nothing (law 5). Of the others which look alike: these have another identity."""
    renamed = changes.id[changes.old[at]] != changes.id[changes.new[at]]
    differs = differ(seen.pool, old[at], new[at])
    changed = renamed | differs
    return at[changed], np.flatnonzero(~differs[changed])


def _resize(instances: InstanceIndex, groups: Int64s, by: int) -> None:
    if len(groups):
        np.add.at(instances.group_slots.records["size"], groups, by)


def _spread(instances: InstanceIndex, group: Int64s) -> tuple[Int64s, Int64s]:
    """Each edit once per window of its group: the slot of each window, and the edit it is a copy of."""
    window: Int64s = instances.group_slots.records["window"][group]
    if (window != SEVERAL).all():
        return window, np.arange(len(group))
    several, number = np.unique(group, return_inverse=True)
    windows = [[each.slot for each in instances.by_slot[slot].windows] for slot in several.tolist()]
    counts, slots = np.array([len(each) for each in windows]), np.array([slot for each in windows for slot in each])
    first = np.cumsum(counts) - counts
    spread = np.repeat(np.arange(len(group)), counts[number])
    start = np.repeat(np.cumsum(counts[number]) - counts[number], counts[number])
    return slots[first[number][spread] + np.arange(len(spread)) - start], spread


def _entries(template: str, told: set[tuple[int, int]], slots: Slots) -> Iterator[Entry]:
    """What `_entered` tells, one by one: cheaper where there are few."""
    for at, slot in sorted(told):
        instance, seq, _, _ = slots.records[slot].item()
        slots.records[slot] = instance, at, seq, True
        yield Entry(instance, at, seq, "diff", template)


def _entered(template: str, tx: Int64s, window: Int64s, slots: Slots) -> Index:
    """An emission for each transaction and window, which follows the window's last; the chains go on from there."""
    order = np.lexsort((tx, window))
    tx, window = tx[order], window[order]
    fresh, again = np.ones(len(tx), np.bool_), np.zeros(len(tx), np.bool_)
    again[1:] = window[1:] == window[:-1]
    fresh[1:] = ~again[1:] | (tx[1:] != tx[:-1])
    tx, window, again = tx[fresh], window[fresh], again[fresh]
    prev = np.where(again, np.roll(tx, 1), slots.records["seq"][window])
    last = np.append(~again[1:], True)
    slots.records["seq"][window[last]], slots.records["prev"][window[last]] = tx[last], prev[last]
    slots.records["unsaved"][window] = True
    return Index.diffs(template, slots.records["instance"][window], tx, prev)
