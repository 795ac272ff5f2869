"""What stays past a key is found in columns as it would be one by one; what may be near is never passed over."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine.windows.changes import Changes
from headwater.engine.windows.ordered.skip_unseen import FarChanges, settled
from headwater.engine.windows.template_program import Projection
from headwater.model.encoding.keys import encode_row
from tests.engine.world import FUZZ

NOTHING = pa.RecordBatch.from_pylist([], schema=pa.schema([]))


def a_key(rng: random.Random) -> bytes:
    value = rng.choice((rng.randrange(40), "x" * rng.randrange(40), "y", None))
    return encode_row((value,), ("BINARY",)) + rng.randbytes(8)


@pytest.mark.parametrize("seed", range(20 * FUZZ))
def test_nothing_near_is_passed_over(seed: int) -> None:
    rng = random.Random(seed)
    keys = sorted(a_key(rng) for _ in range(300))
    place = np.array([rng.randrange(-1, 300) for _ in range(500)])
    old, new = (np.array([rng.randrange(-1, 500) for _ in range(400)]) for _ in range(2))
    changes = Changes(NOTHING, np.zeros(500, np.uint64), old, new, np.arange(400))
    far = FarChanges(changes, Projection(place, NOTHING, keys, {}))
    for end in rng.sample(keys, 20):
        near = [
            n
            for n, rows in enumerate(zip(old.tolist(), new.tolist(), strict=True))
            if any(row >= 0 and place[row] >= 0 and keys[place[row]] <= end for row in rows)
        ]
        start = rng.randrange(400)
        assert start <= far.until(start, end) <= next((n for n in near if n >= start), 400)


@pytest.mark.parametrize("seed", range(20 * FUZZ))
def test_what_comes_and_goes_by_turns_is_settled(seed: int) -> None:
    rng = random.Random(seed)
    first = {bytes([n]) for n in range(20) if rng.random() < 0.5}
    now, gone, came = set(first), list[bytes](), list[bytes]()
    for _ in range(rng.choice((3, 60))):
        key = bytes([rng.randrange(20)])
        (gone if key in now else came).append(key)
        now ^= {key}
    assert settled(gone, came) == (first - now, now - first)
