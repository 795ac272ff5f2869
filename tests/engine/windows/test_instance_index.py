"""The params join looks up many keys at once: exactly what a dictionary would say, whatever came and went before."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from headwater.engine.ranking.rank import LimitRange
from headwater.engine.windows import instance_index
from headwater.engine.windows.instance_index import NOBODY, InstanceIndex
from headwater.engine.windows.window import Window
from headwater.model.encoding.keys import encode_row, hash_encoded
from headwater.plan.template import Instance
from tests.engine.world import FUZZ

Hash = Callable[[bytes], int]


def poor(key: bytes) -> int:
    """Many keys have one hash."""
    return hash_encoded(key) % 50


def a_key(rng: random.Random) -> bytes:
    value = rng.choice(
        (rng.randrange(300), rng.randrange(300) + 0.5, "x" * rng.randrange(60), b"\x00" * rng.randrange(40))
    )
    return encode_row((value,), ("BINARY",))


def opened(all_of_them: InstanceIndex, key: bytes, id: int) -> Window:
    return all_of_them.open(Instance(id, "t", ()), all_of_them.group("t", key), LimitRange(), 1, 0)


@pytest.mark.parametrize("hashed", [hash_encoded, poor])
@pytest.mark.parametrize("seed", range(4 * FUZZ))
def test_many_keys_at_once_are_found_as_one_by_one(hashed: Hash, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_index, "hash_encoded", hashed)
    rng, all_of_them = random.Random(seed), InstanceIndex()
    windows: list[Window] = []
    for id in range(1, 900):
        windows.append(opened(all_of_them, a_key(rng), id))
        if rng.random() < 0.4:
            all_of_them.close(windows.pop(rng.randrange(len(windows))))
        if id % 60 == 0:
            encoded = [a_key(rng) for _ in range(400)]
            found = all_of_them.join(encoded, np.array(list(map(hashed, encoded)), np.uint64), None)
            asked = [all_of_them.groups.get(key) for key in encoded]
            assert found is not None
            assert found.number.tolist() == [NOBODY if group is None else group.slot for group in asked]
    assert {group.key for group in all_of_them.by_slot.values()} == {window.group.key for window in windows}


def test_a_slot_given_back_keeps_nothing() -> None:
    all_of_them = InstanceIndex()
    first = opened(all_of_them, b"k", 1)
    first.group.size, first.seq = 7, 9
    all_of_them.close(first)
    second = opened(all_of_them, b"l", 2)
    assert (second.slot, second.group.slot) == (first.slot, first.group.slot)
    assert (second.group.size, second.seq, second.prev) == (0, 1, 0)
