"""Puts the changes of a transaction in order where a table has foreign keys to itself. Pure.

An action of such a key may update the very row whose update or replacement set it off, and its change is logged first:
either with a row that is only about to appear, or behind the back of an update that still shows the row as it was.
"""

from __future__ import annotations

from headwater.model.change import Change
from headwater.model.value import Row


class Cascades:
    """The changes of one transaction, each starting from the row that the one before has left."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._taken: dict[tuple[str, Row], int] = {}  # rows that were there, and the change that took each

    def append(self, change: Change, referred: tuple[int, ...], cause: bool) -> None:
        """`referred`: the columns by which rows of the table are referred to, none where it does not refer to itself.
        `cause`: this update led to a change that is already here."""
        if not referred:
            self.changes.append(change)
            return
        change = self._current(change, referred)
        effect = self._taken.pop((change.table, change.new or ()), None) if cause else None
        if effect is None:
            self._put(len(self.changes), change)
        else:
            self._put(effect, Change(change.table, change.old, self.changes[effect].new))

    def _put(self, place: int, change: Change) -> None:
        self.changes[place : place + 1] = [change]
        if change.old is not None:
            self._taken[change.table, change.old] = place
        if change.new is not None:
            self._taken.pop((change.table, change.new), None)

    def _current(self, change: Change, referred: tuple[int, ...]) -> Change:
        """The change with the old image as it is by now. Rows that nothing can refer to may repeat: those stay."""
        old = change.old
        while old is not None and all(old[place] is not None for place in referred):
            place = self._taken.get((change.table, old))
            if place is None or self.changes[place].new is None:  # deleted: then this is another row that looks like it
                break
            old = self.changes[place].new
        return Change(change.table, old, change.new)
