"""The key encoding against SQLite itself: order, equality, and the vectorised form against the scalar one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.model.encoding.keys import (
    encode_columns,
    encode_row,
    encode_value,
    hash_columns,
    hash_encoded,
    hash_hex,
    hash_row,
)
from headwater.model.value import Type, Value, to_array
from tests.support.values import BLOBS, EVERY, INTEGERS, OF_TYPE, REALS, TEXTS

COLLATIONS = ("BINARY", "NOCASE", "RTRIM")
VALUES: st.SearchStrategy[Value] = st.one_of(st.none(), INTEGERS, REALS, TEXTS, BLOBS)


def compared(a: Value, b: Value, collation: str) -> int:
    """What SQLite says of two values in a column of no affinity: -1, 0 or 1, with NULL the least."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB COLLATE {collation})")
        connection.executemany("INSERT INTO t (v) VALUES (?)", [(a,), (b,)])
        groups = connection.execute("SELECT count(*) FROM t GROUP BY v").fetchall()
        if len(groups) == 1:
            return 0
        first = connection.execute("SELECT id FROM t ORDER BY v LIMIT 1").fetchone()[0]
        return -1 if first == 1 else 1
    finally:
        connection.close()


def sign(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)


@settings(max_examples=400, derandomize=True, deadline=None)
@given(VALUES, VALUES, st.sampled_from(COLLATIONS))
@example(2**53 + 1, 2.0**53, "BINARY")
@example(2**63 - 1, 2.0**63, "BINARY")
@example(-0.0, 0, "BINARY")
@example("a\x00b", "a\x00C", "NOCASE")
@example("a\x00", "ab", "NOCASE")
def test_bytes_order_and_equal_as_sqlite_does(a: Value, b: Value, collation: str) -> None:
    ours = sign(encode_value(a, collation=collation), encode_value(b, collation=collation))
    assert ours == compared(a, b, collation)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(VALUES, VALUES)
def test_descending_reverses_and_nulls_go_where_they_are_sent(a: Value, b: Value) -> None:
    if a is not None and b is not None:
        up, down = (sign(*(encode_value(v, descending=d) for v in (a, b))) for d in (False, True))
        assert up == -down
    for descending in (False, True):
        first = encode_value(None, descending=descending, nulls_first=True)
        last = encode_value(None, descending=descending, nulls_first=False)
        if a is not None:
            assert first < encode_value(a, descending=descending) < last


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.tuples(VALUES, VALUES), st.tuples(VALUES, VALUES))
def test_rows_order_by_their_first_difference(a: tuple[Value, ...], b: tuple[Value, ...]) -> None:
    plain = ("BINARY", "BINARY")
    by_column = [sign(encode_value(x), encode_value(y)) for x, y in zip(a, b, strict=True)]
    assert sign(encode_row(a, plain), encode_row(b, plain)) == next((c for c in by_column if c), 0)


def columns_of(type: Type) -> st.SearchStrategy[list[Value]]:
    value: st.SearchStrategy[Value] = EVERY if type is Type.ANY else st.one_of(st.none(), OF_TYPE[type])
    return st.one_of(st.lists(value, max_size=8), st.lists(value, min_size=30, max_size=40))


@pytest.mark.parametrize("type", list(Type))
@settings(max_examples=60, derandomize=True, deadline=None)
@given(data=st.data(), collation=st.sampled_from(COLLATIONS), descending=st.booleans(), nulls_first=st.booleans())
def test_columns_encode_as_their_values(
    type: Type, data: st.DataObject, collation: str, descending: bool, nulls_first: bool
) -> None:
    values = data.draw(columns_of(type))
    array = to_array(values, type)
    encoded = encode_columns([array], [type], [collation], [descending], [nulls_first])
    assert encoded == [
        encode_value(value, collation=collation, descending=descending, nulls_first=nulls_first) for value in values
    ]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.none() | INTEGERS, st.none() | TEXTS, st.none() | BLOBS), min_size=1, max_size=40))
def test_hashes_of_columns_are_the_hashes_of_rows(rows: Sequence[tuple[Value, ...]]) -> None:
    types, collations = (Type.INTEGER, Type.TEXT, Type.BLOB), ("BINARY", "NOCASE", "BINARY")
    arrays = [to_array(list(column), type) for column, type in zip(zip(*rows, strict=True), types, strict=True)]
    assert hash_columns(arrays, types, collations).tolist() == [hash_row(row, collations) for row in rows]


def test_a_hash_is_stable_for_ever() -> None:
    assert hash_hex(hash_row((1, "a", None), ("BINARY",) * 3)) == hash_hex(hash_row((1.0, "a", None), ("BINARY",) * 3))
    assert hash_hex(hash_row((42,), ("BINARY",))) == "374d134655b3fb3f"
    assert hash_row((42,), ("BINARY",)) == hash_encoded(encode_value(42))


def test_nan_is_one_value_above_all_numbers() -> None:
    nan, infinity = float("nan"), float("inf")
    assert encode_value(infinity) < encode_value(nan) == encode_value(-nan) == encode_value(Decimal("NaN"))
    nans = to_array([nan, -nan] * 15, Type.REAL)
    assert encode_columns([nans], [Type.REAL], ["BINARY"]) == [encode_value(nan)] * 30
