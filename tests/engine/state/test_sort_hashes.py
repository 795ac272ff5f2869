"""The order of hashes is the one that comparing gives, however badly they are spread."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.engine.state.sort_hashes import rising, rising_by
from headwater.model.encoding.keys import Uint64s

_RANDOM = np.random.default_rng(5)
COUNT = 20_000
SPREAD = {
    "even": _RANDOM.integers(0, 2**64, COUNT, np.uint64),
    "with equals": _RANDOM.integers(0, 2**64, COUNT // 10, np.uint64)[_RANDOM.integers(0, COUNT // 10, COUNT)],
    "few alike above": _RANDOM.integers(0, 2**64, COUNT, np.uint64) // np.uint64(3) * np.uint64(3),
    "all alike above": _RANDOM.integers(0, 2**20, COUNT, np.uint64),
    "one": np.full(COUNT, 7, np.uint64),
    "few": _RANDOM.integers(0, 5, 10, np.uint64),
    "none": np.zeros(0, np.uint64),
}
SPREAD["two alike above"] = np.concatenate((SPREAD["even"], SPREAD["even"][:5] ^ np.uint64(1)))


@pytest.mark.parametrize("hash", SPREAD.values(), ids=SPREAD)
def test_hashes_rise_and_equals_stay_as_they_came(hash: Uint64s) -> None:
    assert rising(hash).tolist() == np.argsort(hash, kind="stable").tolist()


@pytest.mark.parametrize("hash", SPREAD.values(), ids=SPREAD)
def test_the_second_decides_between_equals_of_the_first(hash: Uint64s) -> None:
    first = hash % np.uint64(100)
    assert rising_by(first, hash).tolist() == np.lexsort((hash, first)).tolist()
    assert rising_by(hash, first).tolist() == np.lexsort((first, hash)).tolist()
