"""The ordered sequence against a sorted list; frames against slices; and no row mentioned that need not be."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.engine.ranking import rank as ranking
from headwater.engine.ranking.rank import LimitRange, Ranked, Reframed, Touch, move, reframe
from headwater.engine.ranking.sort_keys import Keys, PackedSortKeys, packed
from headwater.model.encoding.keys import BEHIND
from tests.engine.world import FUZZ

KEYS = st.integers(0, 40).map(lambda n: bytes([n]))


@settings(max_examples=100 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(st.sets(st.integers(0, 3000)), st.lists(st.integers(0, 3000), max_size=300), st.integers(2, 9), st.booleans())
def test_ranked_is_a_sorted_list(first: set[int], toggled: list[int], block: int, pack: bool) -> None:
    original, ranking._BLOCK_MAX = ranking._BLOCK_MAX, block
    try:
        keys = {n.to_bytes(2, "big") for n in first}
        ranked = Ranked.packed(in_order(keys)) if pack else Ranked(keys)
        for n in toggled:
            key = n.to_bytes(2, "big")
            (ranked.remove if key in keys else ranked.insert)(key)
            keys ^= {key}
            plain = sorted(keys)
            assert len(ranked) == len(plain)
            assert ranked.rank(key) == sum(each < key for each in plain)
        plain = sorted(keys)
        assert ranked.slice(0, 1 << 60) == plain
        assert [ranked.select(n) for n in range(len(plain))] == plain
        assert all(ranked.slice(n, n + 5) == plain[n : n + 5] for n in range(0, len(plain) + 3, 3))
    finally:
        ranking._BLOCK_MAX = original


@settings(max_examples=100 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(
    st.sets(st.integers(0, 300)), st.lists(st.sets(st.integers(0, 300)), max_size=5), st.integers(2, 9), st.booleans()
)
def test_an_exchange_is_its_removals_and_insertions(
    first: set[int], toggled: list[set[int]], block: int, pack: bool
) -> None:
    original, ranking._BLOCK_MAX = ranking._BLOCK_MAX, block
    try:
        keys = {n.to_bytes(2, "big") for n in first}
        ranked = Ranked.packed(in_order(keys)) if pack else Ranked(keys)
        for numbers in toggled:
            touched = {n.to_bytes(2, "big") for n in numbers}
            ranked.exchange(touched & keys, touched - keys)
            keys ^= touched
            assert ranked.slice(0, 1 << 60) == sorted(keys)
            assert all(ranked.rank(key) == sum(each < key for each in keys) for key in touched)
    finally:
        ranking._BLOCK_MAX = original


def in_order(keys: set[bytes]) -> Keys:
    """What packing and numpy make of keys of two bytes."""
    array = np.array([*keys], "V2") if keys else np.zeros(0, "V2")
    return PackedSortKeys(array).in_order(np.arange(len(keys)))


@settings(max_examples=100 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(st.lists(st.tuples(st.binary(min_size=3, max_size=3), st.integers(0, 1 << 63)), min_size=1))
def test_packed_keys_are_in_the_order_of_their_bytes(rows: list[tuple[bytes, int]]) -> None:
    """Zeros at the end, and bytes past 127, among them."""
    values, ids = zip(*rows, strict=True)
    keys = packed(pa.array(values, pa.large_binary()), np.array(ids, np.uint64))
    assert keys is not None
    plain = [value + BEHIND + id.to_bytes(8, "big") for value, id in rows]
    assert [*keys] == [keys[n] for n in range(len(keys))] == plain
    assert keys.in_order(np.arange(len(keys))).tolist() == sorted(plain)
    assert packed(pa.array([*values, b""], pa.large_binary()), np.zeros(len(values) + 1, np.uint64)) is None


def places(kept: list[str], all_of_them: list[str]) -> list[int]:
    return [all_of_them.index(name) for name in kept]


class Model:
    """Rows with a name and a sort key; a transaction changes some keys, drops some rows, brings others."""

    def __init__(self, before: dict[str, bytes], after: dict[str, bytes], loud: set[str], frame: LimitRange) -> None:
        self.before, self.after, self.loud, self.frame = before, after, loud, frame
        self.old, self.new = (self.sorted(state)[frame.start : frame.end] for state in (before, after))

    @staticmethod
    def sorted(state: dict[str, bytes]) -> list[str]:
        return sorted(state, key=lambda name: (state[name], name))

    def key(self, state: dict[str, bytes], name: str) -> bytes | None:
        return state[name] + name.encode() if name in state else None

    def run(self) -> Reframed:
        ranked = Ranked(key + name.encode() for name, key in self.before.items())
        touches = []
        for n, name in enumerate(sorted({*self.before, *self.after})):
            old, new = self.key(self.before, name), self.key(self.after, name)
            if old != new or name in self.loud:
                silent = old is not None and new is not None and name not in self.loud
                touches.append(Touch(n, old, new, silent))
        moved = move(ranked, touches)
        assert ranked.slice(0, 1 << 60) == sorted(key + name.encode() for name, key in self.after.items())
        return reframe(ranked, moved, self.frame)

    def applied(self, reframed: Reframed) -> list[str]:
        """As `model.emission.apply` does it: take out by old index, descending; put in by index, ascending."""
        gone = [at for _, at, _ in reframed.touched if at is not None] + [at for _, at in reframed.left]
        names = list(self.old)
        for at in sorted(gone, reverse=True):
            del names[at]
        came = [(at, (touch.new or b"").decode()[-1]) for touch, _, at in reframed.touched if at is not None]
        came += [(at, key.decode()[-1]) for key, at in reframed.entered]
        for at, name in sorted(came):
            names.insert(at, name)
        return names

    def fewest(self) -> int:
        """By brute force: the most rows of both lists that keep their order, of those that need no mention."""
        quiet = [name for name in self.old if name in self.new and name not in self.loud]
        untouched = {name for name in quiet if self.key(self.before, name) == self.key(self.after, name)}
        movable = [name for name in quiet if name not in untouched]
        for count in range(len(movable) + 1):
            for moved in combinations(movable, count):
                kept = [name for name in quiet if name not in moved]
                if places(kept, self.new) == sorted(places(kept, self.new)):
                    return len({*self.old, *self.new} - set(kept))
        raise AssertionError("rows nobody touched changed their order")


NAMES = "abcdefgh"
STATES = st.dictionaries(st.sampled_from(NAMES), st.integers(48, 53).map(lambda n: bytes([n])))
FRAMES = st.one_of(
    st.just(LimitRange()), st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda f: LimitRange(f[0], f[0] + f[1]))
)


@settings(max_examples=600 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(STATES, STATES, st.sets(st.sampled_from(NAMES)), FRAMES)
def test_a_frame_moves_as_its_slice_does_with_the_fewest_edits(
    before: dict[str, bytes], after: dict[str, bytes], loud: set[str], frame: LimitRange
) -> None:
    model = Model(before, after, loud & set(before) & set(after), frame)
    reframed = model.run()
    assert model.applied(reframed) == model.new
    mentioned = len(reframed.touched) + len(reframed.left) + len(reframed.entered)
    assert mentioned == model.fewest()
