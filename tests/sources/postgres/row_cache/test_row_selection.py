"""Rows that are picked and put together, of any type, with NULLs and from the middle of a batch: as Arrow does it, only
in another way."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.sources.postgres.row_cache.row_selection import RowSelection, gathered, picked
from headwater.sources.postgres.row_cache.runs import ordered
from tests.support.fuzz import tries

_VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, -1, 2**63 - 1],
    pa.float64(): [0.0, -0.0, 1.5, float("inf")],
    pa.timestamp("us"): [0, 10**15],
    pa.int32(): [7, -7],
    pa.bool_(): [True, False],
    pa.large_string(): ["", "x", "größer ☃", "y" * 50],
    pa.large_binary(): [b"", b"\x00\xff"],
}
_SCHEMA = pa.schema([(f"c{n}", type) for n, type in enumerate(_VALUES)])


def _batch(chance: random.Random) -> pa.RecordBatch:
    """A part of a longer one."""
    count, nulls = chance.randrange(12), chance.choice([0, 0, 0.3])
    columns = [
        pa.array([None if chance.random() < nulls else chance.choice(some) for _ in range(count)], type)
        for type, some in _VALUES.items()
    ]
    begin = chance.randrange(count + 1)
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA).slice(begin, chance.randrange(count - begin + 1))


@tries(100)
@given(st.integers(0, 1 << 30))
def test_picked_is_taken(seed: int) -> None:
    chance = random.Random(seed)
    batch = _batch(chance)
    at = np.array([chance.randrange(batch.num_rows) for _ in range(chance.randrange(9)) if batch.num_rows], np.int64)
    for column in batch.columns:
        found = picked(column, at)
        found.validate(full=True)
        assert found.equals(column.take(pa.array(at)))


@tries(100)
@given(st.integers(0, 1 << 30))
def test_gathered_is_all_pieces_in_another_order(seed: int) -> None:
    chance = random.Random(seed)
    batches = [_batch(chance) for _ in range(chance.randrange(4))]
    pieces = [RowSelection(one, chance.choice([None, _some(chance, one)])) for one in batches]
    rows = [one.rows.num_rows if one.at is None else len(one.at) for one in pieces]
    places = np.array(chance.sample(range(sum(rows)), sum(rows)), np.int64)
    cuts = np.cumsum([0, *rows]).tolist()
    found = gathered(pieces, [places[a:b] for a, b in pairwise(cuts)], _SCHEMA)
    found.validate(full=True)
    joined = [row for piece in pieces for row in _rows(piece)]
    assert [found.slice(place, 1).to_pylist()[0] for place in places.tolist()] == joined


def _some(chance: random.Random, batch: pa.RecordBatch) -> Any:
    return np.array([chance.randrange(batch.num_rows) for _ in range(5) if batch.num_rows], np.int64)


def _rows(piece: RowSelection) -> list[Any]:
    rows: list[Any] = piece.rows.to_pylist()
    return rows if piece.at is None else [rows[place] for place in piece.at.tolist()]


@tries(100)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 3, 40, 64]), st.sampled_from([0, 60]))
def test_hashes_are_ordered_and_equal_ones_stay(seed: int, bits: int, shift: int) -> None:
    """Also those that only their last bits, or their first ones, tell apart."""
    chance = random.Random(seed)
    hashes = [(chance.getrandbits(bits) << shift) & ((1 << 64) - 1) for _ in range(chance.randrange(60))]
    hash = np.array(hashes, np.uint64)
    assert ordered(hash).tolist() == np.argsort(hash, kind="stable").tolist()
