"""An emission as a list of operations on a list of rows: what `observe` hands to a user interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwater.model.emission import Diff, Emission, Fields, Result, State, Swap


@dataclass(frozen=True, slots=True)
class Operation:
    """`set` and `insert` carry the whole row; `swap` exchanges `index` and `other`."""

    type: Literal["set", "insert", "remove", "swap"]
    index: int
    row: Fields | None = None
    other: int | None = None


def operations(before: State, emission: Emission, after: State) -> list[Operation]:
    """Applied in order to the rows before, they give the rows after."""
    match emission:
        case Result():
            removed = [Operation("remove", index) for index in reversed(range(len(before.rows)))]
            return removed + [Operation("insert", index, row) for index, row in enumerate(after.rows)]
        case Swap(pairs=pairs):
            return [Operation("swap", a, other=b) for a, b in pairs]
        case Diff():
            return _ordered(emission, after) if _has_places(emission) else _unordered(before, emission, after)


def _has_places(diff: Diff) -> bool:
    return any(change.index is not None or change.old_index is not None for change in diff.changes)


def _ordered(diff: Diff, after: State) -> list[Operation]:
    if all(change.index == change.old_index for change in diff.changes):
        return [Operation("set", change.index or 0, after.rows[change.index or 0]) for change in diff.changes]
    leaving = sorted((c.old_index for c in diff.changes if c.old_index is not None), reverse=True)
    coming = sorted(change.index for change in diff.changes if change.index is not None)
    removed = [Operation("remove", index) for index in leaving]
    return removed + [Operation("insert", index, after.rows[index]) for index in coming]


def _unordered(before: State, diff: Diff, after: State) -> list[Operation]:
    """`apply` keeps the places of rows that stay, drops the others and appends new ones."""
    old = {hash: place for place, hash in enumerate(before.hashes)}
    new = {hash: place for place, hash in enumerate(after.hashes)}
    updates = [c for c in diff.changes if c.type == "update" and c.old_hash and c.new_hash]
    sets = [Operation("set", old[c.old_hash or ""], after.rows[new[c.new_hash or ""]]) for c in updates]
    gone = sorted((old[c.old_hash or ""] for c in diff.changes if c.type == "delete"), reverse=True)
    inserts = sorted(new[c.new_hash or ""] for c in diff.changes if c.type == "insert")
    removes = [Operation("remove", place) for place in gone]
    return sets + removes + [Operation("insert", place, after.rows[place]) for place in inserts]
