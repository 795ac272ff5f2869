"""Ranked: a sorted sequence that knows the place of each key; `reframe`: what a transaction does to a frame of it.

A sort key is the encoded ORDER BY values and the row's identity: memcmp is the whole comparison. `Ranked` keeps the
keys in blocks with a Fenwick tree over their sizes, so that a place costs O(log n) and a change O(block). `reframe`
turns one transaction into edits of a LIMIT/OFFSET frame that mention as few rows as possible. Neither sees a row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from headwater.engine.ranking.sort_keys import Keys

_BLOCK_MAX = 1024
_FEW = 16  # of so many keys of a block, one
T = TypeVar("T", list[bytes], Keys)


class Ranked:
    """Distinct sort keys in order. Blocks that nobody has looked into may be packed."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._blocks: list[list[bytes] | Keys] = [*_halves(sorted(keys))]
        self._rebuild()

    @classmethod
    def packed(cls, keys: Keys) -> Self:
        """Of keys that are in order."""
        ranked = cls()
        ranked._blocks = [*_halves(keys)]
        ranked._rebuild()
        return ranked

    def __len__(self) -> int:
        return self._length

    def rank(self, key: bytes) -> int:
        """How many keys are smaller."""
        block = bisect_left(self._lasts, key)
        return self._before(block) + (bisect_left(self._keys(block), key) if block < len(self._blocks) else 0)

    def insert(self, key: bytes) -> None:
        if not self._blocks:
            self._blocks = [[key]]
            self._rebuild()
            return
        block = min(bisect_left(self._lasts, key), len(self._blocks) - 1)
        keys = self._keys(block)
        insort(keys, key)
        if len(keys) > _BLOCK_MAX:
            self._split(block)
        else:
            self._grow(block, 1)

    def remove(self, key: bytes) -> None:
        block = bisect_left(self._lasts, key)
        keys = self._keys(block)
        place = bisect_left(keys, key)
        assert keys[place] == key, "a row left that was never there"
        del keys[place]
        if keys:
            self._grow(block, -1)
        else:
            del self._blocks[block]
            self._rebuild()

    def exchange(self, gone: set[bytes], came: set[bytes]) -> None:
        """All of these at once: many keys are taken in order, and the places are counted again once."""
        if len(gone) + len(came) < len(self._blocks) // 4:
            for key in gone:
                self.remove(key)
            for key in came:
                self.insert(key)
            return
        self._blocks = self._blocks or [[]]
        left, entered = self._shares(gone), self._shares(came)
        for block in {*left, *entered}:
            self._blocks[block] = _exchanged(self._keys(block), left.get(block, []), entered.get(block, []))
        self._blocks = [part for keys in self._blocks for part in _parts(keys)]
        self._rebuild()

    def _shares(self, keys: set[bytes]) -> dict[int, list[bytes]]:
        """Keys in order, by the block that they belong to."""
        ordered, shares = sorted(keys), dict[int, list[bytes]]()
        last, start = len(self._blocks) - 1, 0
        while start < len(ordered):
            block = min(bisect_left(self._lasts, ordered[start]), last)
            end = len(ordered) if block == last else bisect_right(ordered, self._lasts[block], start)
            shares[block] = ordered[start:end]
            start = end
        return shares

    def select(self, place: int) -> bytes:
        return self.slice(place, place + 1)[0]

    def slice(self, start: int, end: int) -> list[bytes]:
        """The keys at places [start, end), as far as there are any."""
        end = min(end, self._length)
        if start >= end:
            return []
        block, skipped = self._locate(start)
        out = self._keys(block)[start - skipped : end - skipped]
        while len(out) < end - start:
            block += 1
            out.extend(self._keys(block)[: end - start - len(out)])
        return out

    def _keys(self, block: int) -> list[bytes]:
        """Unpacked."""
        keys = self._blocks[block]
        if not isinstance(keys, list):
            keys = self._blocks[block] = keys.tolist()
        return keys

    def _locate(self, place: int) -> tuple[int, int]:
        """The block that holds a place, and how many keys stand before the block."""
        block = skipped = 0
        bit = 1 << (len(self._blocks).bit_length() - 1)
        while bit:
            if block + bit <= len(self._blocks) and skipped + self._tree[block + bit] <= place:
                block += bit
                skipped += self._tree[block]
            bit >>= 1
        return block, skipped

    def _before(self, block: int) -> int:
        total = 0
        while block:
            total += self._tree[block]
            block &= block - 1
        return total

    def _grow(self, block: int, by: int) -> None:
        self._lasts[block] = self._keys(block)[-1]
        self._length += by
        node = block + 1
        while node < len(self._tree):
            self._tree[node] += by
            node += node & -node

    def _split(self, block: int) -> None:
        keys = self._keys(block)
        half = len(keys) // 2
        self._blocks[block : block + 1] = [keys[:half], keys[half:]]
        self._rebuild()

    def _rebuild(self) -> None:
        self._lasts = [bytes(block[-1]) for block in self._blocks]
        self._length = sum(map(len, self._blocks))
        self._tree = [0, *map(len, self._blocks)]
        for node in range(1, len(self._tree)):
            parent = node + (node & -node)
            if parent < len(self._tree):
                self._tree[parent] += self._tree[node]


def _exchanged(keys: list[bytes], gone: list[bytes], came: list[bytes]) -> list[bytes]:
    """Few are exchanged one by one; many at once, for what is nearly in order is sorted fast."""
    if len(gone) + len(came) < len(keys) // _FEW:
        for key in gone:
            place = bisect_left(keys, key)
            assert keys[place] == key, "a row left that was never there"
            del keys[place]
        for key in came:
            insort(keys, key)
        return keys
    left = set(gone)
    kept = [key for key in keys if key not in left] if left else list(keys)
    assert len(kept) == len(keys) - len(left), "a row left that was never there"
    kept += came
    kept.sort()
    return kept


def _parts(keys: list[bytes] | Keys) -> Iterable[list[bytes] | Keys]:
    """A block as it is, or in several where it has grown too large; none where it is empty."""
    if isinstance(keys, list) and len(keys) > _BLOCK_MAX:
        return _halves(keys)
    return [keys] if len(keys) else []


def _halves(keys: T) -> Iterator[T]:
    """Blocks that have room to grow."""
    half = _BLOCK_MAX // 2
    return (keys[at : at + half] for at in range(0, len(keys), half))


@dataclass(slots=True)
class Touch:
    """A row a transaction changed: its sort key before and after, None where it was not or is not in the result.

    `silent` means that nothing a subscriber sees changed, save perhaps the place. `change` is the caller's own mark.
    """

    change: int
    old: bytes | None
    new: bytes | None
    silent: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """The whole sequence before and after one transaction, as far as `reframe` must know it."""

    before: int
    after: int
    gone: list[Touch]
    gone_at: list[int]
    came: list[Touch]
    came_at: list[int]


@dataclass(frozen=True, slots=True)
class LimitRange:
    """LIMIT and OFFSET; no `end` is no limit."""

    start: int = 0
    end: int = 1 << 62


@dataclass(slots=True)
class Reframed:
    """`touched`: (touch, old_index, index), None for out of the frame. `left`, `entered`: keys that crossed an edge.
    `stayed`: silent touches in the frame that need no edit."""

    touched: list[tuple[Touch, int | None, int | None]] = field(default_factory=list)
    left: list[tuple[bytes, int]] = field(default_factory=list)
    entered: list[tuple[bytes, int]] = field(default_factory=list)
    stayed: list[Touch] = field(default_factory=list)


def move(ranked: Ranked, touches: Sequence[Touch]) -> Moved:
    """Applies one transaction to the sequence."""
    gone = sorted((touch for touch in touches if touch.old is not None), key=lambda touch: touch.old or b"")
    came = sorted((touch for touch in touches if touch.new is not None), key=lambda touch: touch.new or b"")
    before = len(ranked)
    gone_at = [ranked.rank(touch.old or b"") for touch in gone]
    for touch in gone:
        if touch.old != touch.new:
            ranked.remove(touch.old or b"")
    for touch in came:
        if touch.old != touch.new:
            ranked.insert(touch.new or b"")
    return Moved(before, len(ranked), gone, gone_at, came, [ranked.rank(touch.new or b"") for touch in came])


def reframe(ranked: Ranked, moved: Moved, frame: LimitRange) -> Reframed:
    """The edits of one frame. The rows nobody touched keep their order: each has one number, and places, gaps and the
    frame's edges are all counted in those numbers."""
    gone_gap = [at - n for n, at in enumerate(moved.gone_at)]
    came_gap = [at - n for n, at in enumerate(moved.came_at)]
    old_from, old_to = (_untouched(edge, moved.before, moved.gone_at) for edge in (frame.start, frame.end))
    new_from, new_to = (_untouched(edge, moved.after, moved.came_at) for edge in (frame.start, frame.end))
    out = Reframed()
    for number in _outside(old_from, old_to, new_from, new_to):
        key = ranked.select(number + bisect_right(came_gap, number))
        out.left.append((key, number + bisect_right(gone_gap, number) - frame.start))
    for number in _outside(new_from, new_to, old_from, old_to):
        place = number + bisect_right(came_gap, number)
        out.entered.append((ranked.select(place), place - frame.start))
    stay = (max(old_from, new_from), min(old_to, new_to))
    _reframe_touched(out, moved, frame, _Gaps(gone_gap, came_gap, stay))
    return out


def _untouched(edge: int, length: int, touched_at: list[int]) -> int:
    return min(edge, length) - bisect_left(touched_at, edge)


def _outside(start: int, end: int, other_start: int, other_end: int) -> list[int]:
    """The numbers of [start, end) that are not in [other_start, other_end)."""
    return [*range(start, min(end, other_start)), *range(max(start, other_end), end)]


@dataclass(frozen=True, slots=True)
class _Gaps:
    gone: list[int]
    came: list[int]
    stay: tuple[int, int]

    def clamp(self, gap: int) -> int:
        start, end = self.stay
        return min(max(gap, start), end) if start < end else 0


def _reframe_touched(out: Reframed, moved: Moved, frame: LimitRange, gaps: _Gaps) -> None:
    old = {id(touch): (at, gaps.gone[n]) for n, (touch, at) in enumerate(zip(moved.gone, moved.gone_at, strict=True))}
    seen: set[int] = set()
    quiet: dict[int, list[tuple[int, int, Touch]]] = defaultdict(list)
    for n, (touch, at) in enumerate(zip(moved.came, moved.came_at, strict=True)):
        seen.add(id(touch))
        old_at, old_gap = old.get(id(touch), (-1, -1))
        was, now = frame.start <= old_at < frame.end, frame.start <= at < frame.end
        gap = gaps.clamp(gaps.came[n])
        if was and now and touch.silent and gaps.clamp(old_gap) == gap:
            quiet[gap].append((old_at, at, touch))
        elif was or now:
            out.touched.append((touch, old_at - frame.start if was else None, at - frame.start if now else None))
    for touch, at in zip(moved.gone, moved.gone_at, strict=True):
        if id(touch) not in seen and frame.start <= at < frame.end:
            out.touched.append((touch, at - frame.start, None))
    for rows in quiet.values():
        kept = longest_rising([old_at for old_at, _, _ in rows])
        out.stayed.extend(touch for n, (_, _, touch) in enumerate(rows) if n in kept)
        out.touched.extend(
            (touch, old_at - frame.start, at - frame.start)
            for n, (old_at, at, touch) in enumerate(rows)
            if n not in kept
        )


def longest_rising(values: list[int]) -> set[int]:
    """The places of a longest rising subsequence: the most rows that can be said not to have moved."""
    tails: list[int] = []
    places: list[int] = []
    previous: list[int] = []
    for n, value in enumerate(values):
        at = bisect_left(tails, value)
        previous.append(places[at - 1] if at else -1)
        if at == len(tails):
            tails.append(value)
            places.append(n)
        else:
            tails[at], places[at] = value, n
    kept: set[int] = set()
    last = places[-1] if places else -1
    while last >= 0:
        kept.add(last)
        last = previous[last]
    return kept
