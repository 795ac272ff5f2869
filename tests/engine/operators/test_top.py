"""top alone, against sorting everything."""

from __future__ import annotations

from collections import Counter

import pytest

from headwater.engine.operators.failures import Failures
from headwater.engine.operators.top import TopOperator
from headwater.engine.rows.batch import table_of
from headwater.engine.rows.work import Work
from headwater.model.encoding.keys import encode_value
from headwater.model.limits import Limits
from headwater.model.value import Row
from headwater.sql.ir.expr import OrderKey
from headwater.sql.ir.relation import Top
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
@pytest.mark.parametrize("rows_max", [0, 1000])
def test_a_frame_is_a_slice_of_the_sorted_rows(
    partitioned: bool, limit: int | None, offset: int, rows_max: int
) -> None:
    top = Top(L, ORDER, limit, offset, (ref(LEFT[0]),) if partitioned else ())
    check(lambda: made(top, rows_max), lambda bags: naive(top, bags), 1, range(3 * FUZZ))


def made(top: Top, rows_max: int) -> TopOperator:
    return TopOperator(top, table_of(LEFT), Work(), Failures(), Limits(head_rows_max=rows_max))
