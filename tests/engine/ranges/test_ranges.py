"""What a group of subscriptions wants, asked of many rows at once, is what it wants of each."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.ranges.ranges import Wanted, _spans, encoded_column
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value
from headwater.plan.template import Selector
from headwater.sql.ir.predicate import Op
from tests.engine.world import batch_of
from tests.support.fuzz import tries

VALUES: dict[Type, list[Value]] = {
    Type.INTEGER: [0, 1, -1, 2**53 + 1, 2**53, 2**63 - 1],
    Type.REAL: [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1e300],
    Type.TEXT: ["", "a", "A", "a\x00", "é", "b"],
    Type.NUMERIC: [Decimal(text) for text in ("1.0", "1.00", "1.00000000000000000001", "NaN", "-Infinity", "0")],
    Type.DATE: [date(2024, 2, 29), date(1970, 1, 1), date(1, 1, 1)],
    Type.TIMESTAMP: [datetime(2024, 2, 29, 12), datetime(1969, 12, 31, 23, 59, 59, 999_999)],
    Type.TIMESTAMPTZ: [datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)],
    Type.BOOLEAN: [False, True],
}
_OPS: st.SearchStrategy[tuple[Op, ...]] = st.sampled_from(
    (("in",), ("<",), ("<=",), (">",), (">=",), (">=", "<="), (">", "<"))
)


@pytest.mark.parametrize("type", VALUES)
@tries(25)
@given(data=st.data(), ops=_OPS, collation=st.sampled_from(("BINARY", "NOCASE")))
def test_many_rows_are_wanted_as_each_is(type: Type, data: st.DataObject, ops: tuple[Op, ...], collation: str) -> None:
    """NaN, both zeros, numbers of one double and NULL among them; few values in a list, and many."""
    some = st.sampled_from(VALUES[type])
    table = Table("t", (Column("c", type, collation=collation),))
    lists = 1 + 9 * data.draw(st.booleans())
    asked = [(op, tuple(data.draw(some) for _ in range(lists if op == "in" else 1))) for op in ops]
    conditions = tuple((Selector("c", op), values) for op, values in asked)
    wanted = Wanted(("c",), (_spans(asked, collation),), conditions)
    values = [data.draw(some | st.none()) for _ in range(10)] * 10
    rows: list[Row] = [(value,) for value in values]
    batch = batch_of(table, rows)
    assert wanted.mask(batch, table).tolist() == [wanted.has((each,)) for each in encoded_column(batch, table, "c")]
