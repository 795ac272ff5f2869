"""Ordered keys and their heads against a sorted list: after merges, saves and restores, keys come in order."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.rows.work import Work
from headwater.engine.state import ordered_keys, ordered_keys_head, persistence
from headwater.engine.state.ordered_keys import OrderedKeys, OrderedKeysPart
from headwater.engine.state.ordered_keys_head import OrderedKeysHead
from tests.support.fuzz import tries

PARTS = (b"\x00\x01", b"\x00\xff", b"\x01\x00", b"\xff\xff")
_PARTS = st.sampled_from(PARTS)
_KEYS = st.binary(min_size=1, max_size=2) | st.integers(0, 9).map(lambda n: bytes([n]))
_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("come", "come", "go")), _PARTS, _KEYS),
        st.tuples(st.sampled_from(("settle", "save", "restore", "spill")), _PARTS, _KEYS),
    ),
    max_size=60,
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and heads of a few keys."""
    monkeypatch.setattr(ordered_keys, "_RECENT_MAX", 5)
    monkeypatch.setattr(ordered_keys, "_READ_AT_ONCE", 2)
    monkeypatch.setattr(ordered_keys_head, "_SPARE", 2)
    monkeypatch.setattr(ordered_keys_head, "_TRIM", 2)


def ordered(there: Counter[tuple[bytes, bytes]], part: bytes) -> list[tuple[bytes, int]]:
    return sorted((key, times) for (name, key), times in there.items() if name == part and times)


def again(made: OrderedKeys, place: Path) -> OrderedKeys:
    other = OrderedKeys(Work())
    persistence.restore(other, place, persistence.save(made, place))
    return other


@tries(100)
@given(_ACTIONS, st.integers(0, 4))
def test_keys_come_in_order_with_how_often_they_are_there(actions: list[tuple[str, bytes, bytes]], need: int) -> None:
    made, there = OrderedKeys(Work()), Counter[tuple[bytes, bytes]]()
    heads = {part: OrderedKeysHead(OrderedKeysPart(made, part), need) for part in PARTS}
    with TemporaryDirectory() as where:
        for action, part, key in actions:
            match action:
                case "come":
                    heads[part].change(key, 1)
                    there[part, key] += 1
                case "go" if there[part, key]:
                    heads[part].change(key, -1)
                    there[part, key] -= 1
                case "settle":
                    made.settle()
                case "save":
                    persistence.save(made, Path(where))
                case "restore":
                    made = again(made, Path(where))
                    heads = {name: OrderedKeysHead(OrderedKeysPart(made, name), need) for name in PARTS}
                case "spill":
                    persistence.save(made, Path(where))
                    for run in persistence.runs_inside(made, Path(where)):
                        run.let_go()
                    assert not any(run.bytes for run in made.runs)
            check(made, heads[part], there, part, need)
        for part in PARTS:
            check(made, heads[part], there, part, need)


def check(made: OrderedKeys, one: OrderedKeysHead, there: Counter[tuple[bytes, bytes]], part: bytes, need: int) -> None:
    plain = ordered(there, part)
    assert list(made.behind(part)) == plain
    for key, _ in plain[:3]:
        assert list(made.behind(part, key)) == [each for each in plain if each[0] > key]
    one.fill()
    known = list(one)
    assert known == plain[: len(known)]
    assert one.rows == sum(times for _, times in known) >= min(need, sum(times for _, times in plain))


@tries(60)
@given(st.lists(st.tuples(_PARTS, _KEYS, st.integers(-2, 3)), min_size=1, max_size=40), st.booleans())
def test_many_at_once_are_what_each_by_itself_comes_to(rows: list[tuple[bytes, bytes, int]], padded: bool) -> None:
    """Keys of one length, and of several."""
    rows = [(part, key.ljust(2, b"\x00") if padded else key, weight) for part, key, weight in rows]
    one, other = OrderedKeys(Work()), OrderedKeys(Work())
    for part, key, weight in rows:
        one.add(part, key, weight)
    keys = pa.array([part + key for part, key, _ in rows], pa.large_binary())
    other.fill(keys, np.array([weight for _, _, weight in rows], np.int64))
    assert all(list(one.behind(part)) == list(other.behind(part)) for part in PARTS)


def test_a_head_knows_no_more_than_it_is_asked_for() -> None:
    made, rng = OrderedKeys(Work()), random.Random(1)
    one = OrderedKeysHead(OrderedKeysPart(made, b"p"), 3, new=True)
    keys = rng.sample(range(100_000), 2000)
    for number in keys:
        one.change(number.to_bytes(4, "big"), 1)
        one.fill()
        assert len(one) <= 10
    assert [key for key, _ in islice(one, 3)] == [n.to_bytes(4, "big") for n in sorted(keys)[:3]]
    for number in sorted(keys):
        assert next(iter(one)) == (number.to_bytes(4, "big"), 1)
        one.change(number.to_bytes(4, "big"), -1)
        one.fill()
        assert len(one) <= 10
    assert not one.rows and not list(made.behind(b"p"))
