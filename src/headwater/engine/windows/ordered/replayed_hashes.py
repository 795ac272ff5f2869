"""ReplayedHashes: under which names rows are shown within a replay, where that is not their identity.

A row without a key that looks the same keeps its name. Where a transaction leaves a window as it looks, nothing is
emitted, and the rows are shown under the names that were there before (`shown_hashes.py`, `visibility.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.engine.ranking.rank import Reframed, Touch
from headwater.engine.windows.ordered.edit_list import EditList
from headwater.engine.windows.ordered.step_rows import StepRows
from headwater.engine.windows.shown_hashes import NO_NAMES, ShownHashes
from headwater.engine.windows.template_program import identity_of
from headwater.engine.windows.visibility import Lazily, Look, before, same_bag
from headwater.engine.windows.window import Window

# What stays and looks the same; what leaves and what enters a window: rows that changed, or keys that crossed an edge.
Renaming = tuple[list[Touch], list[Touch | bytes], list[Touch | bytes]]


@dataclass(slots=True)
class ReplayedHashes:
    """`before` are the names of rows before this transaction, by identity."""

    rows: StepRows
    edits: EditList
    before: dict[int, int] = field(default_factory=dict)

    def rename(self, window: Window, renaming: Renaming) -> None:
        """A row that stays and looks the same keeps its name."""
        stayed, gone, came = renaming
        ids, old, new = self.rows.ids, self.rows.changes.old, self.rows.changes.new
        kept = [(ids[old[touch.change]], ids[new[touch.change]]) for touch in stayed]
        left = [identity_of(one) if isinstance(one, bytes) else ids[old[one.change]] for one in gone]
        entered = [identity_of(one) if isinstance(one, bytes) else ids[new[one.change]] for one in came]
        self.before = _own(window).turn(kept, left, entered)
        window.note()

    def was(self, id: int) -> int:
        """The name of a row before this transaction."""
        return self.before.get(id, id)

    def keep(self, window: Window, names: dict[int, int]) -> None:
        """Shows rows under these names, by identity, from now on."""
        _own(window).assign(names)
        window.note()

    def unseen(self, window: Window, start: int) -> dict[int, int] | None:
        """The names from now on, by identity, where the edits since `start` leave the window as it looks; else None.
        In an ordered window rows that nothing touched may look alike too: the places between the edits are compared."""
        edits = self.edits.edits[start:]
        if sum((edit[8] >= 0) - (edit[7] >= 0) for edit in edits):
            return None
        seen = self.edits.looks([ref for edit in edits for ref in edit[7:]])
        sides = list(zip(edits, seen[0::2], seen[1::2], strict=True))
        names = same_bag([(was, edit[3], now, window.names.holder(edit[4])) for edit, was, now in sides])
        if names is None or window.group.ranked is None:
            return names
        gone: dict[int, Look | None] = {edit[5]: was for edit, was, _ in sides if was is not None}
        came = {edit[6] for edit, _, now in sides if now is not None}
        shown = Lazily(lambda a, b: self._looks_at(window, a, b), min((*gone, *came)))
        if any(look != shown(place) for place, look in before(gone, came, shown)):
            return None
        ids = Lazily(lambda a, b: _ids_at(window, a, b), min((*gone, *came)))
        called = {edit[5]: edit[3] for edit, was, _ in sides if was is not None}
        return {ids(place): name for place, name in before(called, came, lambda at: window.names.of(ids(at)))}

    def _looks_at(self, window: Window, start: int, end: int) -> list[Look | None]:
        known = len(self.edits.fetched)
        looks = self.edits.looks([self.edits.ref(window.group, id) for id in _ids_at(window, start, end)])
        del self.edits.fetched[known:]
        return looks


def _own(window: Window) -> ShownHashes:
    """The window's names, which other windows do not share."""
    if window.names is NO_NAMES:
        window.names = ShownHashes()
    return window.names


def _ids_at(window: Window, start: int, end: int) -> list[int]:
    """The identities of the rows at these places of an ordered window."""
    assert window.group.ranked is not None
    first = window.frame.start
    return [identity_of(key) for key in window.group.ranked.slice(first + start, min(first + end, window.frame.end))]


def crossing(reframed: Reframed) -> Renaming:
    """Of an ordered window what stays as it looks, what leaves the frame and what enters it."""
    both = [touch for touch, was, now in reframed.touched if touch.silent and was is not None and now is not None]
    stayed = {id(touch) for touch in both}
    rest = [each for each in reframed.touched if id(each[0]) not in stayed]
    gone = [touch for touch, was, _ in rest if was is not None]
    came = [touch for touch, _, now in rest if now is not None]
    left, entered = ([key for key, _ in keys] for keys in (reframed.left, reframed.entered))
    return [*both, *reframed.stayed], [*gone, *left], [*came, *entered]


def coming_and_going(touches: list[Touch]) -> Renaming:
    stayed = [touch for touch in touches if touch.silent and touch.old is not None and touch.new is not None]
    rest = [touch for touch in touches if not touch.silent]
    return stayed, [one for one in rest if one.old is not None], [one for one in rest if one.new is not None]
