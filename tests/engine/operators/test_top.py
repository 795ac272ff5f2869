"""top alone, against sorting everything; and the order it keeps."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from headwater.engine.operators.batch import table_of
from headwater.engine.operators.failures import Failures
from headwater.engine.operators.ordered import Ordered
from headwater.engine.operators.top import TopOperator
from headwater.engine.work import Work
from headwater.model.keys import encode_value
from headwater.model.value import Row
from headwater.sql.expr import OrderKey
from headwater.sql.relation import Top
from tests.engine.operators.alone import LEFT, Bags, L, check, ref
from tests.engine.world import FUZZ

ORDER = (OrderKey(ref(LEFT[1]), descending=True, nulls_first=False), OrderKey(ref(LEFT[0])))


def place(row: Row) -> bytes:
    return encode_value(row[1], descending=True, nulls_first=False) + encode_value(row[0])


def naive(top: Top, bags: Bags) -> Counter[Row]:
    out: Counter[Row] = Counter()
    by: dict[object, list[Row]] = {}
    for row in sorted(bags[0].elements(), key=place):
        by.setdefault(row[0] if top.partition else None, []).append(row)
    for rows in by.values():
        end = None if top.limit is None else top.offset + top.limit
        out.update(rows[top.offset : end])
    return out


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(("limit", "offset"), [(1, 0), (3, 0), (2, 2), (None, 2), (0, 0), (100, 0)])
def test_a_frame_is_a_slice_of_the_sorted_rows(partitioned: bool, limit: int | None, offset: int) -> None:
    top = Top(L, ORDER, limit, offset, (ref(LEFT[0]),) if partitioned else ())
    check(
        lambda: TopOperator(top, table_of(LEFT), Work(), Failures()), lambda bags: naive(top, bags), 1, range(6 * FUZZ)
    )


def test_blocks_keep_the_order_through_splits_and_removals() -> None:
    rng = random.Random(1)
    keys = [rng.randbytes(4) for _ in range(6000)]
    ordered, there = Ordered(keys[:2000]), set(keys[:2000])
    for key in keys[2000:]:
        if key not in there:
            ordered.insert(key)
            there.add(key)
    gone = rng.sample(sorted(there), len(there) - 50)
    for key in gone:
        ordered.remove(key)
    there -= set(gone)
    assert ordered.slice(0, 100) == sorted(there)
    assert ordered.slice(7, 20) == sorted(there)[7:20]
    for key in sorted(there):
        ordered.remove(key)
    assert not ordered and ordered.slice(0, 1) == []
