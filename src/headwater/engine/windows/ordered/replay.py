"""Windows stepped one transaction at a time: ordered ones, and any that are in error or near a limit.

The sorted sequence of a group moves with each transaction. Edits are collected as numbers (`edit_list.py`) and become
columns once, at the end. A row that only crosses a frame's edge is fetched from the arrangement by identity, or taken
from this step where it has touched the row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.engine.emissions.block import DELETE, INSERT, NOWHERE, RESULT, UPDATE
from headwater.engine.emissions.index import Entry, Kind
from headwater.engine.emissions.outbox import Outbox
from headwater.engine.ranking.rank import Reframed, Touch, move, reframe
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.windows.changes import Changes
from headwater.engine.windows.empty_groups import bucket
from headwater.engine.windows.instance_index import RowGroups
from headwater.engine.windows.keyless_rows import looking_alike
from headwater.engine.windows.ordered.edit_list import EditList
from headwater.engine.windows.ordered.replayed_hashes import ReplayedHashes, coming_and_going, crossing
from headwater.engine.windows.ordered.skip_unseen import FarChanges, SkippedKeys
from headwater.engine.windows.ordered.step_rows import Pair, StepRows
from headwater.engine.windows.shown_hashes import NO_NAMES
from headwater.engine.windows.size_limits import outgrown
from headwater.engine.windows.template_program import Program, Projection, identity_of, looks
from headwater.engine.windows.window import Window, WindowGroup
from headwater.model.limits import Limits
from headwater.model.size import SMALL


def replay(
    program: Program,
    arrangement: Arrangement,
    changes: Changes,
    joined: RowGroups,
    seen: Projection,
    outbox: Outbox,
    limits: Limits,
) -> list[Window]:
    """Emits the step; the windows that had to be closed are returned."""
    if program.veiled:
        changes = looking_alike(changes, joined.number, seen.place, looks(seen.pool))
    rows = StepRows(program, changes, seen)
    edits = EditList(rows, arrangement)
    one = Replay(
        program, joined, rows, edits, ReplayedHashes(rows, edits), SkippedKeys(limits, bool(seen.failed)), outbox
    )
    return one.run()


@dataclass(slots=True)
class Replay:
    program: Program
    joined: RowGroups
    rows: StepRows
    edits: EditList
    names: ReplayedHashes
    skipped: SkippedKeys
    outbox: Outbox
    numbers: list[int] = field(init=False)  # of each row, that of its group
    closed: list[Window] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = self.joined.number.tolist()

    def run(self) -> list[Window]:
        silent = self.rows.silent()
        far = self._far()
        for tx, start, stop in self._transactions(far):
            if far is None or not self._advance_near(far, tx, start, stop, silent):
                self._advance_all(tx, start, stop, silent)
        self.skipped.exchange_all()
        self.edits.finish(self.outbox)
        return self.closed

    def _transactions(self, far: FarChanges | None) -> Iterator[tuple[int, int, int]]:
        """In order, without those that are skipped: each with its first change, and where the next one begins."""
        rows, tx = self.rows, self.rows.changes.tx.tolist()
        while (start := rows.reached if far is None else self._skip_far(far, tx)) < len(tx):
            rows.reached = bisect_right(tx, tx[start], start)
            yield tx[start], start, rows.reached

    def _far(self) -> FarChanges | None:
        """Where a larger step is all of one group, most of it may lie behind every frame of the group."""
        number, changes = self.joined.number, self.rows.changes
        if len(changes) <= SMALL.near_changes or not self.program.ordered:
            return None
        alone = (number[number >= 0] == number.max()).all()
        return FarChanges(changes, self.rows.seen) if alone and self._has_room(len(changes)) else None

    def _only_group(self) -> WindowGroup:
        return self.joined.groups[int(self.joined.number.max())]

    def _has_room(self, more: int) -> bool:
        """Whether the one group of the step stays within its limit, whatever of the step comes to it."""
        return self._only_group().size + more <= self.skipped.limits.ranked_rows_max

    def _skip_far(self, far: FarChanges, tx: list[int]) -> int:
        """Skips transactions that no window shows; where the next one begins."""
        rows, group = self.rows, self._only_group()
        head = self.skipped.head(group)
        if head is None:
            return rows.reached
        near = far.until(rows.reached, head.end)
        start = near if near == len(tx) else bisect_left(tx, tx[near])
        if start > rows.reached:
            gone, came = (rows.keys(side[rows.reached : start]) for side in (rows.changes.old, rows.changes.new))
            self.skipped.skip(group, gone, came)
            rows.reached = start
        return start

    def _advance_all(self, tx: int, start: int, stop: int, silent: list[bool]) -> None:
        """One transaction, group by group."""
        numbers, touched = self.numbers, dict[int, list[Pair]]()
        for change in zip(range(start, stop), self.rows.old[start:stop], self.rows.new[start:stop], strict=True):
            for number, pair in _placed(*change, numbers):
                touched.setdefault(number, []).append(pair)
        for number, pairs in touched.items():
            group = self.joined.groups[number]
            near = self._near(group, pairs)
            if near is None:
                self.skipped.exchange(group)
            if near is None or near:
                self._advance(group, tx, pairs if near is None else near, silent)

    def _advance_near(self, far: FarChanges, tx: int, start: int, stop: int, silent: list[bool]) -> bool:
        """One larger transaction of the only group, without looking at what is behind its head. False where that must
        be looked at: nothing was done."""
        rows, group = self.rows, self._only_group()
        head = self.skipped.head(group)
        if head is None or stop - start <= SMALL.near_changes:
            return False
        mask = far.near(start, stop, head.end)
        at = [start + n for n in np.flatnonzero(mask).tolist()]
        rest = [rows.keys(side[start:stop][~mask]) for side in (rows.changes.old, rows.changes.new)]
        near = self._near(group, [(n, rows.old[n], rows.new[n]) for n in at], *rest)
        if near:
            self._advance(group, tx, near, silent)
        return near is not None

    def _near(
        self, group: WindowGroup, pairs: list[Pair], gone: Sequence[bytes] = (), came: Sequence[bytes] = ()
    ) -> list[Pair] | None:
        """What concerns the head of the group. The rest is skipped, with further keys that are behind it. None where
        the whole transaction is needed: then nothing was skipped."""
        head = self.skipped.head(group)
        if head is None:
            return None
        gone, came, near, more = list(gone), list(came), list[Pair](), 0
        for n, old, new in pairs:
            was, now = self.rows.key(old), self.rows.key(new)
            if was is not None and was > head.end:
                gone.append(was)
                was, old = None, NOWHERE
            if now is not None and now > head.end:
                came.append(now)
                now, new = None, NOWHERE
            if was is not None or now is not None:
                near.append((n, old, new))
                more += (now is not None) - (was is not None)
        return near if self.skipped.takes(group, head, more, gone, came) else None

    def _advance(self, group: WindowGroup, tx: int, pairs: list[Pair], silent: list[bool]) -> None:
        failing = bool(group.failed)
        self._count_failures(group, pairs)
        touch = self.rows.touch
        touches = [touch(pair, silent) for pair in pairs]
        group.size += sum((touch.new is not None) - (touch.old is not None) for touch in touches)
        moved = move(group.ranked, touches) if group.ranked is not None else None
        if failing and group.failed:
            return
        for window in list(group.windows):
            if group.failed:
                self._enter(window, tx, "error", group.error)
            elif (excess := outgrown(window, self.skipped.limits)) is not None:
                self._close(window, tx, excess)
            elif failing:
                self._recover(window, tx)
            elif moved is not None and group.ranked is not None:
                self._ordered(window, tx, reframe(group.ranked, moved, window.frame))
            else:
                self._unordered(window, tx, touches)

    def _count_failures(self, group: WindowGroup, pairs: list[Pair]) -> None:
        failed, id = self.rows.seen.failed, self.rows.changes.id
        for _, old, _ in pairs:
            if old in failed:
                group.failed.pop(int(id[old]), None)
        for _, _, new in pairs:
            if new in failed:
                group.failed[int(id[new])] = failed[new]

    def _ordered(self, window: Window, tx: int, reframed: Reframed) -> None:
        edits, names, group = self.edits, self.names, window.group
        start = len(edits.edits)
        names.before = {}
        if self.program.veiled or window.names.kept:
            names.rename(window, crossing(reframed))
        for touch, old_index, index in reframed.touched:
            self._edit(window, tx, touch, old_index, index)
        for key, index in reframed.left:
            id = identity_of(key)
            edits.add(window, tx, DELETE, names.was(id), 0, index, NOWHERE, edits.ref(group, id), NOWHERE)
        for key, index in reframed.entered:
            id = identity_of(key)
            edits.add(window, tx, INSERT, 0, window.names.of(id), NOWHERE, index, NOWHERE, edits.ref(group, id))
        self._tell(window, tx, start)

    def _unordered(self, window: Window, tx: int, touches: list[Touch]) -> None:
        start = len(self.edits.edits)
        self.names.before = {}
        if self.program.veiled or window.names.kept:
            self.names.rename(window, coming_and_going(touches))
        for touch in touches:
            if not touch.silent:
                self._edit(
                    window, tx, touch, None if touch.old is None else NOWHERE, None if touch.new is None else NOWHERE
                )
        self._tell(window, tx, start)

    def _tell(self, window: Window, tx: int, start: int) -> None:
        """The edits since `start` as an emission. Where the window looks as before there is none, and rows are shown
        under the names that they had."""
        if len(self.edits.edits) == start:
            return
        names = self.names.unseen(window, start) if self.program.hidden else None
        if names is None:
            self._enter(window, tx, "diff")
            return
        del self.edits.edits[start:]
        self.names.keep(window, names)

    def _edit(self, window: Window, tx: int, touch: Touch, old_index: int | None, index: int | None) -> None:
        """None for an index: the row is not in the window there."""
        if old_index is None and index is None:
            return
        rows = self.rows
        old, new = rows.old[touch.change], rows.new[touch.change]
        kind = UPDATE if old_index is not None and index is not None else DELETE if index is None else INSERT
        gone, came = (NOWHERE, 0), (NOWHERE, 0)
        if old_index is not None:
            gone = rows.places[old], self.names.was(rows.ids[old])
        if index is not None:
            came = rows.places[new], window.names.of(rows.ids[new])
        places = [NOWHERE if at is None else at for at in (old_index, index)]
        self.edits.add(window, tx, kind, gone[1], came[1], *places, gone[0], came[0])

    def _enter(self, window: Window, tx: int, kind: Kind, reason: str = "") -> None:
        window.prev, window.seq = window.seq, tx
        entry = Entry(window.instance.id, tx, window.prev, kind, self.program.template.id, reason)
        self.outbox.index.append(entry)

    def _close(self, window: Window, tx: int, reason: str) -> None:
        self._enter(window, tx, "closed", reason)
        window.group.windows.remove(window)
        self.closed.append(window)

    def _recover(self, window: Window, tx: int) -> None:
        """The row that failed is gone: the whole result as it is at this transaction."""
        self._enter(window, tx, "result")
        window.names = NO_NAMES
        group, frame = window.group, window.frame
        if group.ranked is not None:
            ids = [identity_of(key) for key in group.ranked.slice(frame.start, frame.end)]
            rows = [(id, self.edits.ref(group, id)) for id in ids]
        else:
            rows = sorted(self._bucket(group).items())
        for index, (id, ref) in enumerate(rows):
            self.edits.add(window, tx, RESULT, 0, id, NOWHERE, index, NOWHERE, ref)

    def _bucket(self, group: WindowGroup) -> dict[int, int]:
        """An unordered group's rows now: the arrangement's, except where this step has touched them."""
        step, latest = self.rows, self.rows.latest()
        gathered = bucket(self.edits.arrangement, self.program.template, group)
        seen = self.program.see(gathered.rows, gathered.id)
        base = self.edits.pool(seen.pool)
        rows = {
            id: base + place
            for id, place in zip(gathered.id.tolist(), seen.place.tolist(), strict=True)
            if place >= 0 and id not in latest
        }
        mine = [(step.ids[row], step.places[row]) for row in np.flatnonzero(self.joined.number == group.slot).tolist()]
        rows.update({id: place for id, place in mine if place >= 0 and place == step.place_of(latest.get(id))})
        return rows


def _placed(n: int, old: int, new: int, numbers: list[int]) -> Iterator[tuple[int, Pair]]:
    """A change as each group sees it: whole where both rows are its own, else what left or what came."""
    left = numbers[old] if old >= 0 else NOWHERE
    came = numbers[new] if new >= 0 else NOWHERE
    if left == came:
        if left >= 0:
            yield left, (n, old, new)
        return
    if left >= 0:
        yield left, (n, old, NOWHERE)
    if came >= 0:
        yield came, (n, NOWHERE, new)
