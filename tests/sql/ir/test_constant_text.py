"""The text of constants tells values apart, whatever their type."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from headwater.dialects.sqlite import literals
from headwater.model.value import INTEGER_MAX, INTEGER_MIN, Value
from headwater.sql.ir.constant_text import literal_text

VALUES = st.one_of(
    st.none(),
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)


@given(VALUES, VALUES)
def test_equal_texts_are_equal_values_of_one_type(one: Value, other: Value) -> None:
    same = type(one) is type(other) and repr(one) == repr(other)
    assert (literal_text(one) == literal_text(other)) is same


@given(VALUES.filter(lambda value: not isinstance(value, float)))
def test_sqlite_reads_them_back(value: Value) -> None:
    assert literals.evaluate(literal_text(value)) == value


def test_a_number_is_told_by_its_digits() -> None:
    assert literal_text(Decimal("1.50")) == "1.50"
