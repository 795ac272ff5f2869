"""StepRows: the rows of one step as the replay reads them: by change, by row number and by identity.

It never reads the arrangement, and it emits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.engine.emissions.block import NOWHERE
from headwater.engine.ranking.rank import Touch
from headwater.engine.rows.arrays import Int64s
from headwater.engine.windows.changes import Changes
from headwater.engine.windows.template_program import Program, Projection, differ, looks
from headwater.model.size import SMALL

Pair = tuple[int, int, int]  # change, old row, new row


@dataclass(slots=True)
class StepRows:
    """`reached` is how many changes have happened so far."""

    program: Program
    changes: Changes
    seen: Projection
    reached: int = 0
    old: list[int] = field(init=False)  # of each change
    new: list[int] = field(init=False)
    places: list[int] = field(init=False)  # of each row its place in the pool, −1 where it is not in the result
    ids: list[int] = field(init=False)
    _by_id: _RowsById | None = None
    _latest: dict[int, int] = field(default_factory=dict)
    _remembered: int = 0  # changes that `_latest` knows

    def __post_init__(self) -> None:
        self.places, self.ids = self.seen.place.tolist(), self.changes.id.tolist()
        self.old, self.new = self.changes.old.tolist(), self.changes.new.tolist()

    def key(self, row: int) -> bytes | None:
        """The sort key of a row that is in the result; unordered rows have an empty one."""
        place = self.places[row] if row >= 0 else NOWHERE
        if place < 0:
            return None
        return self.seen.keys[place] if self.program.ordered else b""

    def keys(self, rows: Int64s) -> list[bytes]:
        """The sort keys of those rows that are in the result."""
        places = self.seen.place[rows[rows >= 0]]
        return [self.seen.keys[place] for place in places[places >= 0].tolist()]

    def touch(self, pair: Pair, silent: list[bool]) -> Touch:
        change, old, new = pair
        old_key, new_key = self.key(old), self.key(new)
        return Touch(change, old_key, new_key, silent[change] and old >= 0 and new >= 0)

    def silent(self) -> list[bool]:
        """For each change whether its row looks the same before and after, and is the same row.

        Without a key, rows that look the same are the same row."""
        changes, place = self.changes, self.seen.place
        if len(changes) <= SMALL.silent_changes:
            return self._small_silent()
        both = np.flatnonzero((changes.old >= 0) & (changes.new >= 0))
        both = both[(place[changes.old[both]] >= 0) & (place[changes.new[both]] >= 0)]
        old, new = changes.old[both], changes.new[both]
        silent = np.zeros(len(changes), np.bool_)
        same = self.program.veiled | (changes.id[old] == changes.id[new])
        silent[both] = same & ~differ(self.seen.pool, place[old], place[new])
        flags: list[bool] = silent.tolist()
        return flags

    def _small_silent(self) -> list[bool]:
        """The same, row by row."""
        pairs = [*zip(self.old, self.new, strict=True)]
        places = [(self.places[old] if old >= 0 else -1, self.places[new] if new >= 0 else -1) for old, new in pairs]
        if not any(was >= 0 and now >= 0 for was, now in places):
            return [False] * len(pairs)
        rows = looks(self.seen.pool)
        return [
            was >= 0 and now >= 0 and (self.program.veiled or self.ids[old] == self.ids[new]) and rows[was] == rows[now]
            for (old, new), (was, now) in zip(pairs, places, strict=True)
        ]

    def latest_of(self, id: int) -> int | None:
        """The same of one identity; None where the step has not touched it yet."""
        if len(self.changes) <= SMALL.near_changes:
            return self.latest().get(id)
        self._by_id = self._by_id or _RowsById(self.changes)
        return self._by_id.latest(id, self.reached)

    def latest(self) -> dict[int, int]:
        """By identity, the row of this step that holds after the transactions so far; −1 for a row that left."""
        if self._remembered == self.reached:
            return self._latest
        part = slice(self._remembered, self.reached)
        self._remembered = self.reached
        if part.stop - part.start == 1:
            self._remember(int(self.changes.old[part.start]), int(self.changes.new[part.start]))
            return self._latest
        tx, old, new = self.changes.tx[part], self.changes.old[part], self.changes.new[part]
        rows, left = np.concatenate((old, new)), np.repeat(np.array([True, False]), len(tx))
        order = np.lexsort((~left, np.concatenate((tx, tx))))
        order = order[rows[order] >= 0]
        now = np.where(left, NOWHERE, rows)[order]
        self._latest.update(zip(self.changes.id[rows[order]].tolist(), now.tolist(), strict=True))
        return self._latest

    def _remember(self, old: int, new: int) -> None:
        if old >= 0:
            self._latest[self.ids[old]] = NOWHERE
        if new >= 0:
            self._latest[self.ids[new]] = new

    def place_of(self, row: int | None) -> int:
        return NOWHERE if row is None or row < 0 else self.places[row]


class _RowsById:
    """Finds a few rows of a large step by their identity."""

    def __init__(self, changes: Changes) -> None:
        self._order = np.argsort(changes.id, kind="stable")
        self._id = changes.id[self._order]
        self._tx = changes.tx
        self._change, self._came = changes.of_rows()

    def latest(self, id: int, reached: int) -> int | None:
        """That which holds after so many changes; −1 where it left, None where it is not among them."""
        start, end = self._id.searchsorted(np.uint64(id)), self._id.searchsorted(np.uint64(id), "right")
        rows = [row for row in self._order[start:end].tolist() if 0 <= self._change[row] < reached]
        if not rows:
            return None
        last: int = max(rows, key=lambda row: (self._tx[self._change[row]], self._came[row]))
        return last if self._came[last] else NOWHERE
