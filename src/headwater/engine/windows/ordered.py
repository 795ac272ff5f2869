"""Windows stepped one transaction at a time: ordered ones, and any that are in error or near a limit.

The sorted sequence of a group moves with each transaction; edits are collected as places in pools of projected rows and
become columns once, at the end. Rows that only cross a frame's edge are fetched from the arrangement by identity, or
from this step where it has touched them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.engine.emissions.edits import DELETE, INSERT, NOWHERE, RESULT, UPDATE, Block, Entry, Kind, Outbox
from headwater.engine.ranking.rank import Ranked, Reframed, Touch, move, reframe
from headwater.engine.ranking.sort_keys import PackedSortKeys
from headwater.engine.state.arrangement import Arrangement
from headwater.engine.windows.empty_groups import bucket
from headwater.engine.windows.keyless_rows import looking_alike
from headwater.engine.windows.pairs import Changes
from headwater.engine.windows.params import FEW, RowGroups, Window, WindowGroup
from headwater.engine.windows.row_identity import Int64s
from headwater.engine.windows.row_names import NO_NAMES, RowNames
from headwater.engine.windows.skip_unseen import FarChanges, settled
from headwater.engine.windows.template_program import Program, Projection, differ, identity_of, looks
from headwater.engine.windows.visibility import Lazily, Look, before, same_bag
from headwater.model.limits import Limits
from headwater.model.value import Type

_FEW = 8  # changes, below which Python beats the set-up of numpy
_FETCHED = 1 << 40  # a place in the rows fetched at the end
Edit = tuple[int, int, int, int, int, int, int, int, int]
Pair = tuple[int, int, int]  # change, old row, new row
# What stays and looks the same; what leaves and what enters a window: rows that changed, or keys that crossed an edge.
Renaming = tuple[list[Touch], list[Touch | bytes], list[Touch | bytes]]


@dataclass(slots=True)
class Replay:
    program: Program
    arrangement: Arrangement
    changes: Changes
    joined: RowGroups
    seen: Projection
    outbox: Outbox
    limits: Limits
    edits: list[Edit] = field(default_factory=list)
    pools: list[pa.RecordBatch] = field(default_factory=list)
    pooled: int = 0
    fetched: list[tuple[int, int]] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)  # see `_latest`
    remembered: int = 0  # changes that `latest` knows
    reached: int = 0  # changes that have happened
    closed: list[Window] = field(default_factory=list)
    ends: dict[WindowGroup, bytes | None] = field(default_factory=dict)  # the last key of the furthest frame
    unseen: dict[WindowGroup, tuple[set[bytes], set[bytes]]] = field(
        default_factory=dict
    )  # keys that go, keys that come
    before: dict[int, int] = field(default_factory=dict)  # the names of rows before this transaction, by identity
    places: list[int] = field(init=False)
    ids: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.places, self.ids = self.seen.place.tolist(), self.changes.id.tolist()
        if self.program.veiled:
            self.changes = looking_alike(self.changes, self.joined.number, self.seen.place, looks(self.seen.pool))

    def run(self) -> list[Window]:
        """Emits the step; the windows that had to be closed are returned."""
        self._pool(self.seen.pool)
        silent = self._silent()
        numbers = self.joined.number.tolist()
        for tx, changes in self._transactions():
            touched: dict[int, list[Pair]] = {}
            for n, old, new in changes:
                for number, pair in _placed(n, old, new, numbers):
                    touched.setdefault(number, []).append(pair)
            for number, pairs in touched.items():
                self._advance(self.joined.groups[number], tx, pairs, silent)
        for group in list(self.unseen):
            self._exchange(group)
        self._finish()
        return self.closed

    def _transactions(self) -> Iterator[tuple[int, list[Pair]]]:
        """In order, without those that are passed over."""
        changes, far = self.changes, self._far()
        tx, old, new = changes.tx.tolist(), changes.old.tolist(), changes.new.tolist()
        while (start := self.reached if far is None else self._passed(far, tx)) < len(tx):
            self.reached = bisect_right(tx, tx[start], start)
            yield tx[start], [(n, old[n], new[n]) for n in range(start, self.reached)]

    def _far(self) -> FarChanges | None:
        """Where a step of some size is all of one group, most of it may lie past every frame of the group."""
        number = self.joined.number
        alone = self.program.ordered and len(self.changes) > FEW and (number[number >= 0] == number.max()).all()
        return FarChanges(self.changes, self.seen) if alone and self._has_room(len(self.changes)) else None

    def _has_room(self, more: int) -> bool:
        """Whether the one group of the step stays within its limit, whatever of the step comes to it."""
        return self.joined.groups[int(self.joined.number.max())].size + more <= self.limits.ranked_rows_max

    def _passed(self, far: FarChanges, tx: list[int]) -> int:
        """Passes over transactions that nobody sees; where the next one begins."""
        group = self.joined.groups[int(self.joined.number.max())]
        end = self._end(group)
        if end is None:
            return self.reached
        near = far.until(self.reached, end)
        start = near if near == len(tx) else bisect_left(tx, tx[near])
        if start > self.reached:
            gone, came = (self._keys(rows[self.reached : start]) for rows in (self.changes.old, self.changes.new))
            self._postpone(group, gone, came)
            self.reached = start
        return start

    def _keys(self, rows: Int64s) -> list[bytes]:
        """The sort keys of those that are in the result."""
        places = self.seen.place[rows[rows >= 0]]
        return [self.seen.keys[place] for place in places[places >= 0].tolist()]

    def _silent(self) -> list[bool]:
        """Of each change whether its row looks the same before and after, and is the same row.

        Where nothing else says who a row is, a row that looks the same is the same."""
        changes, place = self.changes, self.seen.place
        if len(changes) <= _FEW:
            return self._silent_few()
        both = np.flatnonzero((changes.old >= 0) & (changes.new >= 0))
        both = both[(place[changes.old[both]] >= 0) & (place[changes.new[both]] >= 0)]
        old, new = changes.old[both], changes.new[both]
        silent = np.zeros(len(changes), np.bool_)
        same = self.program.veiled | (changes.id[old] == changes.id[new])
        silent[both] = same & ~differ(self.seen.pool, place[old], place[new])
        flags: list[bool] = silent.tolist()
        return flags

    def _silent_few(self) -> list[bool]:
        """Row by row: what the vectorised form gives, sooner."""
        pairs = [*zip(self.changes.old.tolist(), self.changes.new.tolist(), strict=True)]
        places = [(self.places[old] if old >= 0 else -1, self.places[new] if new >= 0 else -1) for old, new in pairs]
        rows = looks(self.seen.pool)
        return [
            was >= 0 and now >= 0 and (self.program.veiled or self.ids[old] == self.ids[new]) and rows[was] == rows[now]
            for (old, new), (was, now) in zip(pairs, places, strict=True)
        ]

    def _latest(self) -> dict[int, int]:
        """By identity the row of this step as it is after this transaction, −1 once it left."""
        if self.remembered == self.reached:
            return self.latest
        part = slice(self.remembered, self.reached)
        self.remembered = self.reached
        if part.stop - part.start == 1:
            self._remember(int(self.changes.old[part.start]), int(self.changes.new[part.start]))
            return self.latest
        tx, old, new = self.changes.tx[part], self.changes.old[part], self.changes.new[part]
        rows, left = np.concatenate((old, new)), np.repeat(np.array([True, False]), len(tx))
        order = np.lexsort((~left, np.concatenate((tx, tx))))
        order = order[rows[order] >= 0]
        now = np.where(left, NOWHERE, rows)[order]
        self.latest.update(zip(self.changes.id[rows[order]].tolist(), now.tolist(), strict=True))
        return self.latest

    def _remember(self, old: int, new: int) -> None:
        if old >= 0:
            self.latest[self.ids[old]] = NOWHERE
        if new >= 0:
            self.latest[self.ids[new]] = new

    def _advance(self, group: WindowGroup, tx: int, pairs: list[Pair], silent: list[bool]) -> None:
        if self._beyond(group, pairs):
            return
        self._exchange(group)
        failing = bool(group.failed)
        self._count_failures(group, pairs)
        touches = [self._touch(pair, silent) for pair in pairs]
        group.size += sum((touch.new is not None) - (touch.old is not None) for touch in touches)
        moved = move(group.ranked, touches) if group.ranked is not None else None
        if failing and group.failed:
            return
        for window in list(group.windows):
            if group.failed:
                self._enter(window, tx, "error", group.error)
            elif (excess := outgrown(window, self.limits)) is not None:
                self._close(window, tx, excess)
            elif failing:
                self._recover(window, tx)
            elif moved is not None and group.ranked is not None:
                self._ordered(window, tx, reframe(group.ranked, moved, window.frame))
            else:
                self._unordered(window, tx, touches)

    def _beyond(self, group: WindowGroup, pairs: list[Pair]) -> bool:
        """Whether a transaction stays past the end of every frame: then nobody sees it, and the sequence may wait."""
        end = self._end(group)
        if end is None:
            return False
        gone = [key for _, old, _ in pairs if (key := self._key(old)) is not None]
        came = [key for _, _, new in pairs if (key := self._key(new)) is not None]
        if (gone and min(gone) <= end) or (came and min(came) <= end):
            return False
        if group.size + len(came) - len(gone) > self.limits.ranked_rows_max:
            return False
        self._postpone(group, gone, came)
        return True

    def _postpone(self, group: WindowGroup, gone: list[bytes], came: list[bytes]) -> None:
        group.size += len(came) - len(gone)
        going, coming = self.unseen.setdefault(group, (set(), set()))
        leave, enter = settled(gone, came)
        back, again = leave & coming, enter & going
        coming ^= back | (enter - again)
        going ^= again | (leave - back)

    def _exchange(self, group: WindowGroup) -> None:
        self.ends.pop(group, None)
        going, coming = self.unseen.pop(group, (set(), set()))
        if group.ranked is not None:
            group.ranked.exchange(going, coming)

    def _end(self, group: WindowGroup) -> bytes | None:
        """None where a frame is not full, or what a row looks like is not all that counts."""
        if group not in self.ends:
            last = max((window.frame.end for window in group.windows), default=0) - 1
            plain = group.ranked is not None and not group.failed and not self.seen.failed
            full = plain and 0 <= last < len(group.ranked or ())
            self.ends[group] = group.ranked.select(last) if full and group.ranked is not None else None
        return self.ends[group]

    def _count_failures(self, group: WindowGroup, pairs: list[Pair]) -> None:
        for _, old, _ in pairs:
            if old in self.seen.failed:
                group.failed.pop(int(self.changes.id[old]), None)
        for _, _, new in pairs:
            if new in self.seen.failed:
                group.failed[int(self.changes.id[new])] = self.seen.failed[new]

    def _touch(self, pair: Pair, silent: list[bool]) -> Touch:
        change, old, new = pair
        old_key, new_key = self._key(old), self._key(new)
        return Touch(change, old_key, new_key, silent[change] and old >= 0 and new >= 0)

    def _key(self, row: int) -> bytes | None:
        """The sort key of a row that is in the result; unordered rows have an empty one."""
        place = self.places[row] if row >= 0 else NOWHERE
        if place < 0:
            return None
        return self.seen.keys[place] if self.program.ordered else b""

    def _ordered(self, window: Window, tx: int, reframed: Reframed) -> None:
        start = len(self.edits)
        self.before = {}
        if self.program.veiled or window.names.kept:
            self._rename(window, _crossing(reframed))
        for touch, old_index, index in reframed.touched:
            self._edit(window, tx, touch, old_index, index)
        for key, index in reframed.left:
            id = identity_of(key)
            self._add(window, tx, DELETE, self._was(id), 0, index, NOWHERE, self._ref(window.group, id), NOWHERE)
        for key, index in reframed.entered:
            id = identity_of(key)
            self._add(window, tx, INSERT, 0, window.names.of(id), NOWHERE, index, NOWHERE, self._ref(window.group, id))
        self._tell(window, tx, start)

    def _unordered(self, window: Window, tx: int, touches: list[Touch]) -> None:
        start = len(self.edits)
        self.before = {}
        if self.program.veiled or window.names.kept:
            self._rename(window, _coming_and_going(touches))
        for touch in touches:
            if not touch.silent:
                self._edit(
                    window, tx, touch, None if touch.old is None else NOWHERE, None if touch.new is None else NOWHERE
                )
        self._tell(window, tx, start)

    def _tell(self, window: Window, tx: int, start: int) -> None:
        """The edits since `start` as an emission. Where what is shown looks as before there is none, and rows are shown
        under the names that they had."""
        if len(self.edits) == start:
            return
        names = self._unseen_names(window, start) if self.program.hidden else None
        if names is None:
            self._enter(window, tx, "diff")
            return
        del self.edits[start:]
        if window.names is NO_NAMES:
            window.names = RowNames()
        window.names.assign(names)
        window.note()

    def _edit(self, window: Window, tx: int, touch: Touch, old_index: int | None, index: int | None) -> None:
        """None for an index: the row is not in the window there."""
        old, new = int(self.changes.old[touch.change]), int(self.changes.new[touch.change])
        if old_index is None and index is None:
            return
        kind = UPDATE if old_index is not None and index is not None else DELETE if index is None else INSERT
        gone, came = (NOWHERE, 0), (NOWHERE, 0)
        if old_index is not None:
            gone = self.places[old], self._was(self.ids[old])
        if index is not None:
            came = self.places[new], window.names.of(self.ids[new])
        places = [NOWHERE if at is None else at for at in (old_index, index)]
        self._add(window, tx, kind, gone[1], came[1], *places, gone[0], came[0])

    def _rename(self, window: Window, renaming: Renaming) -> None:
        """A row that stays and looks the same keeps its name."""
        stayed, gone, came = renaming
        ids, old, new = self.ids, self.changes.old, self.changes.new
        kept = [(ids[old[touch.change]], ids[new[touch.change]]) for touch in stayed]
        left = [identity_of(one) if isinstance(one, bytes) else ids[old[one.change]] for one in gone]
        entered = [identity_of(one) if isinstance(one, bytes) else ids[new[one.change]] for one in came]
        if window.names is NO_NAMES:
            window.names = RowNames()
        self.before = window.names.turn(kept, left, entered)
        window.note()

    def _was(self, id: int) -> int:
        """The name of a row before this transaction."""
        return self.before.get(id, id)

    def _unseen_names(self, window: Window, start: int) -> dict[int, int] | None:
        """The names from now on, by identity, where the edits since `start` leave the window as it looks; else None.
        In a list rows nobody touched may look alike too: the places between the edits are compared."""
        edits = self.edits[start:]
        if sum((edit[8] >= 0) - (edit[7] >= 0) for edit in edits):
            return None
        seen = self._looks([ref for edit in edits for ref in edit[7:]])
        sides = list(zip(edits, seen[0::2], seen[1::2], strict=True))
        names = same_bag([(was, edit[3], now, window.names.holder(edit[4])) for edit, was, now in sides])
        if names is None or window.group.ranked is None:
            return names
        gone: dict[int, Look | None] = {edit[5]: was for edit, was, _ in sides if was is not None}
        came = {edit[6] for edit, _, now in sides if now is not None}
        shown = Lazily(lambda a, b: self._looks_at(window, a, b), min((*gone, *came)))
        if any(look != shown(place) for place, look in before(gone, came, shown)):
            return None
        ids = Lazily(lambda a, b: self._ids_at(window, a, b), min((*gone, *came)))
        called = {edit[5]: edit[3] for edit, was, _ in sides if was is not None}
        return {ids(place): name for place, name in before(called, came, lambda at: window.names.of(ids(at)))}

    def _ids_at(self, window: Window, start: int, end: int) -> list[int]:
        """Who stands at these places of an ordered window."""
        assert window.group.ranked is not None
        first = window.frame.start
        return [
            identity_of(key) for key in window.group.ranked.slice(first + start, min(first + end, window.frame.end))
        ]

    def _looks_at(self, window: Window, start: int, end: int) -> list[Look | None]:
        known = len(self.fetched)
        looks = self._looks([self._ref(window.group, id) for id in self._ids_at(window, start, end)])
        del self.fetched[known:]
        return looks

    def _looks(self, refs: list[int]) -> list[Look | None]:
        """Rows as they are shown, by their places in this step's rows or among the fetched; None for no row."""
        near = [ref for ref in refs if 0 <= ref < _FETCHED]
        far = [self.fetched[ref - _FETCHED] for ref in refs if ref >= _FETCHED]
        here = iter(looks(self.pools[0].take(pa.array(near))) if near else ())
        there = iter(looks(self.program.project(self.arrangement.find(far))) if far else ())
        return [None if ref < 0 else next(there if ref >= _FETCHED else here) for ref in refs]

    def _add(self, window: Window, *edit: int) -> None:
        self.edits.append((window.instance.id, *edit))  # type: ignore[arg-type]

    def _ref(self, group: WindowGroup, id: int) -> int:
        """Where the row of an identity will be found: in this step's rows, or fetched."""
        row = self._latest().get(id)
        if row is not None:
            return int(self.seen.place[row])
        self.fetched.append((self.arrangement.hash(group.bucket), id))
        return _FETCHED + len(self.fetched) - 1

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
            rows = [(id, self._ref(group, id)) for id in ids]
        else:
            rows = sorted(self._bucket(group).items())
        for index, (id, ref) in enumerate(rows):
            self._add(window, tx, RESULT, 0, id, NOWHERE, index, NOWHERE, ref)

    def _bucket(self, group: WindowGroup) -> dict[int, int]:
        """An unordered group's rows now: the arrangement's, except where this step has touched them."""
        gathered, latest = bucket(self.arrangement, self.program.template, group), self._latest()
        seen = self.program.see(gathered.rows, gathered.id)
        base = self._pool(seen.pool)
        rows = {
            id: base + place
            for id, place in zip(gathered.id.tolist(), seen.place.tolist(), strict=True)
            if place >= 0 and id not in latest
        }
        mine = [(self.ids[row], self.places[row]) for row in np.flatnonzero(self.joined.number == group.slot).tolist()]
        rows.update({id: place for id, place in mine if place >= 0 and place == self._place_of(latest.get(id))})
        return rows

    def _place_of(self, row: int | None) -> int:
        return NOWHERE if row is None or row < 0 else self.places[row]

    def _pool(self, rows: pa.RecordBatch) -> int:
        base = self.pooled
        self.pools.append(rows)
        self.pooled += rows.num_rows
        return base

    def _finish(self) -> None:
        if not self.edits:
            return
        if self.fetched:
            base = self._pool(self.program.project(self.arrangement.find(self.fetched)))
            self.edits = [(*edit[:7], _resolved(edit[7], base), _resolved(edit[8], base)) for edit in self.edits]
        pool = self.pools[0] if len(self.pools) == 1 else pa.concat_batches(self.pools)
        self.outbox.add(self.program.template.id, block_of(self.edits, pool, self.program.types))


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


def _crossing(reframed: Reframed) -> Renaming:
    """Of an ordered window what stays as it looks, what leaves the frame and what enters it."""
    both = [touch for touch, was, now in reframed.touched if touch.silent and was is not None and now is not None]
    stayed = {id(touch) for touch in both}
    rest = [each for each in reframed.touched if id(each[0]) not in stayed]
    gone = [touch for touch, was, _ in rest if was is not None]
    came = [touch for touch, _, now in rest if now is not None]
    left, entered = ([key for key, _ in keys] for keys in (reframed.left, reframed.entered))
    return [*both, *reframed.stayed], [*gone, *left], [*came, *entered]


def _coming_and_going(touches: list[Touch]) -> Renaming:
    stayed = [touch for touch in touches if touch.silent and touch.old is not None and touch.new is not None]
    rest = [touch for touch in touches if not touch.silent]
    return stayed, [one for one in rest if one.old is not None], [one for one in rest if one.new is not None]


def _resolved(ref: int, base: int) -> int:
    return ref - _FETCHED + base if ref >= _FETCHED else ref


def block_of(edits: list[Edit], pool: pa.RecordBatch, types: tuple[Type, ...]) -> Block:
    instance, tx, kind, old_hash, new_hash, old_index, index, old, new = zip(*edits, strict=True)
    return Block(
        np.array(instance, np.int64),
        np.array(tx, np.int64),
        np.array(kind, np.int8),
        np.array(old_hash, np.uint64),
        np.array(new_hash, np.uint64),
        np.array(old_index, np.int64),
        np.array(index, np.int64),
        np.array(old, np.int64),
        np.array(new, np.int64),
        pool,
        types,
    )


def outgrown(window: Window, limits: Limits) -> str | None:
    """Why a window has to be closed: it shows too many rows, or chooses those it shows among too many."""
    if window.rows > limits.result_rows_max:
        return too_large(limits.result_rows_max)
    if window.group.ranked is not None and window.group.size > limits.ranked_rows_max:
        return f"more than {limits.ranked_rows_max} rows would have to be kept in order; add a narrower WHERE"
    return None


def too_large(rows_max: int) -> str:
    return f"the result has more than {rows_max} rows; add a LIMIT or a narrower WHERE"


def ranked_of(seen: Projection) -> Ranked:
    if isinstance(seen.keys, PackedSortKeys):
        return Ranked.packed(seen.keys.in_order(seen.place[seen.place >= 0]))
    return Ranked(seen.keys[place] for place in seen.place.tolist() if place >= 0)
