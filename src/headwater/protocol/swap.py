"""Turns a diff that only exchanges the places of a few rows into a swap of those places."""

from __future__ import annotations

from headwater.model.emission import Diff, RowChange, Swap

_PAIRS_MAX = 4


def as_swap(diff: Diff) -> Diff | Swap:
    """The same effect, said shorter; the diff itself where a value changed or rows came or went."""
    if len(diff.changes) > 2 * _PAIRS_MAX or not all(_only_moved(change) for change in diff.changes):
        return diff
    moves = {change.old_index or 0: change.index or 0 for change in diff.changes}
    pairs = _exchanged(moves)
    return diff if pairs is None else Swap(diff.seq, diff.prev, diff.gen, diff.position, pairs)


def _only_moved(change: RowChange) -> bool:
    return (
        change.old_index is not None
        and change.index is not None
        and change.old_hash == change.new_hash
        and repr(change.old) == repr(change.new)
    )


def _exchanged(moves: dict[int, int]) -> tuple[tuple[int, int], ...] | None:
    """One row that moved by one place has exchanged it with its neighbour; others must answer each other."""
    if len(moves) == 1:
        ((old, new),) = moves.items()
        return ((min(old, new), max(old, new)),) if abs(old - new) == 1 else None
    if any(moves.get(new) != old for old, new in moves.items()):
        return None
    return tuple(sorted((old, new) for old, new in moves.items() if old < new))
