"""Columns of values as bytes: what is sooner for many is the same as value by value."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.encoding.tagged_bytes import pack_any, pack_column, storable, storable_rows, unpack_column

ints = st.integers(-(2**63), 2**63 - 1)
one = st.one_of(ints, st.floats(allow_nan=False), st.text(), st.binary(), st.booleans(), st.none(), st.dates())
columns = st.one_of(st.lists(ints), st.lists(st.text()), st.lists(st.floats(allow_nan=False)), st.lists(one))


@given(columns)
def test_a_column_is_packed_as_its_values_are(values: list[Any]) -> None:
    packed = pack_column(values)
    assert packed == [pack_any(value) for value in values]
    assert pack_column(unpack_column(packed)) == packed


@given(st.lists(st.tuples(one, one)))
def test_rows_are_stored_as_each_row_is(rows: list[tuple[Any, Any]]) -> None:
    assert [list(row) for row in storable_rows(rows)] == [storable(row) for row in rows]


def test_what_msgpack_does_not_hold_is_wrapped() -> None:
    rows: list[Any] = [(1, Decimal("1.50")), (2, date(2026, 1, 1))]
    assert storable_rows(rows) == [storable(row) for row in rows] != rows
