"""Rows of a table without a key, where a query hides columns: a row is identified by its visible columns.

A change to a hidden column is not a change (law 5): a row that looks the same after a transaction as one did before it
is that row, and keeps its name. It is not needed where every column is shown, or where the table has a key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headwater.engine.rows.arrays import Int64s
from headwater.engine.windows.changes import ABSENT, Changes
from headwater.engine.windows.visibility import Look

Sight = tuple[int, int, Look]  # in which transaction, in which group, how


def looking_alike(changes: Changes, number: Int64s, place: Int64s, looks: Sequence[Look]) -> Changes:
    """The same rows, paired so that as many as can be look the same before and after; what is left keeps its pair."""
    sights = _sights(changes, number, place, looks)
    old, new = changes.old.tolist(), changes.new.tolist()
    open_pairs = [
        n for n in range(len(changes)) if _sight(sights, old[n]) is None or sights[old[n]] != _sight(sights, new[n])
    ]
    gone: dict[Sight, list[int]] = defaultdict(list)
    for n in open_pairs:
        if (sight := _sight(sights, old[n])) is not None:
            gone[sight].append(n)
    matched = [
        (gone[sight].pop(), n) for n in open_pairs if (sight := _sight(sights, new[n])) is not None and gone.get(sight)
    ]
    return _rematched(changes, matched) if matched else changes


def _sights(changes: Changes, number: Int64s, place: Int64s, looks: Sequence[Look]) -> dict[int, Sight]:
    """How each row that is in a result is shown, where and when."""
    at = np.zeros(len(place), np.int64)
    for side in (changes.old, changes.new):
        at[side[side >= 0]] = changes.tx[side >= 0]
    inside = np.flatnonzero((place >= 0) & (number >= 0)).tolist()
    return {row: (int(at[row]), int(number[row]), looks[place[row]]) for row in inside}


def _sight(sights: Mapping[int, Sight], row: int) -> Sight | None:
    return sights.get(row) if row != ABSENT else None


def _rematched(changes: Changes, matched: list[tuple[int, int]]) -> Changes:
    """`matched`: the change whose old row is the new row of which other change. What they leave over stands alone."""
    old, new, tx = changes.old.tolist(), changes.new.tolist(), changes.tx.tolist()
    pairs = [(tx[one], old[one], new[other]) for one, other in matched]
    for one, _ in matched:
        old[one] = ABSENT
    for _, other in matched:
        new[other] = ABSENT
    rest = [pair for pair in zip(tx, old, new, strict=True) if pair[1:] != (ABSENT, ABSENT)]
    columns = zip(*sorted([*pairs, *rest]), strict=True)
    tx_column, old_column, new_column = (np.array(column, np.int64) for column in columns)
    return replace(changes, old=old_column, new=new_column, tx=tx_column)
