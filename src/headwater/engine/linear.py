"""Unordered windows, a whole step at once: with no order and no frame the diff of a window is the diff of its rows.

Used where no window is in error or near a limit; `replay.py` gives the same emissions one transaction at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from headwater.engine.edits import DELETE, INSERT, NOWHERE, UPDATE, Block, Entry, Outbox
from headwater.engine.pair import Changes
from headwater.engine.params import Group, Joined, Window
from headwater.engine.program import Program, Seen, differ

Int64s = npt.NDArray[np.int64]


def linear(program: Program, changes: Changes, joined: Joined, seen: Seen, outbox: Outbox) -> None:
    old, old_group = _side(changes.old, joined, seen)
    new, new_group = _side(changes.new, joined, seen)
    same = (old_group == new_group) & (old_group >= 0)
    updated = _changed(changes, seen, np.flatnonzero(same), old, new)
    deleted = np.flatnonzero((old_group >= 0) & ~same)
    inserted = np.flatnonzero((new_group >= 0) & ~same)
    _resize(joined.groups, old_group[deleted], -1)
    _resize(joined.groups, new_group[inserted], 1)
    at = np.concatenate((updated, deleted, inserted))
    if not len(at):
        return
    cuts = (len(updated), len(updated) + len(deleted))
    kind = np.repeat(np.array([UPDATE, DELETE, INSERT], np.int8), (cuts[0], len(deleted), len(inserted)))
    old, new = old[at], new[at]
    old[cuts[1] :], new[cuts[0] : cuts[1]] = NOWHERE, NOWHERE
    group = np.where(kind == INSERT, new_group[at], old_group[at])
    instance, spread = _spread(joined.groups, group)
    at, old, new, kind = at[spread], old[spread], new[spread], kind[spread]
    nowhere = np.full(len(at), NOWHERE, np.int64)
    old_hash = np.where(old < 0, np.uint64(0), changes.id[changes.old[at]])
    new_hash = np.where(new < 0, np.uint64(0), changes.id[changes.new[at]])
    block = Block(
        instance, changes.tx[at], kind, old_hash, new_hash, nowhere, nowhere, old, new, seen.pool, program.types
    )
    _enter(block, joined.groups, program, outbox)


def _side(rows: Int64s, joined: Joined, seen: Seen) -> tuple[Int64s, Int64s]:
    """Place in the pool and number of the group, −1 where the row is not in a result."""
    place = np.where(rows < 0, NOWHERE, seen.place[rows])
    return place, np.where(place < 0, NOWHERE, joined.number[rows])


def _changed(changes: Changes, seen: Seen, at: Int64s, old: Int64s, new: Int64s) -> Int64s:
    """An update nobody can see is nothing (law 5)."""
    renamed = changes.id[changes.old[at]] != changes.id[changes.new[at]]
    changed: Int64s = at[renamed | differ(seen.pool, old[at], new[at])]
    return changed


def _resize(groups: list[Group], numbers: Int64s, by: int) -> None:
    for number in numbers.tolist():
        groups[number].size += by


def _spread(groups: list[Group], group: Int64s) -> tuple[Int64s, Int64s]:
    """Each edit once per window of its group: the instance of each, and the edit it is a copy of."""
    counts = np.array([len(each.windows) for each in groups])
    ids = np.array([window.instance.id for each in groups for window in each.windows], np.int64)
    first = np.cumsum(counts) - counts
    spread = np.repeat(np.arange(len(group)), counts[group])
    start = np.repeat(np.cumsum(counts[group]) - counts[group], counts[group])
    return ids[first[group][spread] + np.arange(len(spread)) - start], spread


def _enter(block: Block, groups: list[Group], program: Program, outbox: Outbox) -> None:
    template = program.template.id
    windows: dict[int, Window] = {window.instance.id: window for each in groups for window in each.windows}
    for tx, instance in _emissions(block):
        window = windows[instance]
        window.prev, window.seq = window.seq, tx
        outbox.index.append(Entry(instance, tx, window.prev, "diff", template))
    outbox.add(template, block)


def _emissions(block: Block) -> Iterator[tuple[int, int]]:
    """Each (tx, instance) once, in that order."""
    order = np.lexsort((block.instance, block.tx))
    tx, instance = block.tx[order], block.instance[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (tx[1:] != tx[:-1]) | (instance[1:] != instance[:-1])
    return zip(tx[first].tolist(), instance[first].tolist(), strict=True)
