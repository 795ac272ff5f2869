"""Hashes of whole columns against the library's, one value at a time."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.encoding.keys import hash_columns, hash_row
from headwater.model.encoding.xxh3 import hash_array
from headwater.model.value import Type, Value, to_array

_RANDOM = random.Random(3)
EVERY_LENGTH = [_RANDOM.randbytes(size) for size in range(300) for _ in range(3)]


def one_by_one(array: pa.Array) -> list[int]:
    return [xxhash.xxh3_64_intdigest(value.as_buffer()) for value in array]


def test_values_of_every_length_hash_as_the_library_says() -> None:
    array = pa.array(_RANDOM.sample(EVERY_LENGTH, len(EVERY_LENGTH)), pa.large_binary())
    assert hash_array(array).tolist() == one_by_one(array)


@pytest.mark.parametrize(("start", "size"), [(0, 0), (5, 0), (3, 1), (7, 200), (899, 1)])
def test_a_slice_hashes_as_its_values_do(start: int, size: int) -> None:
    array = pa.array(EVERY_LENGTH, pa.large_binary()).slice(start, size)
    assert hash_array(array).tolist() == one_by_one(array)


def test_more_values_than_are_hashed_at_once() -> None:
    array = pa.array([str(n) * (n % 5) for n in range(40_000)], pa.large_string())
    assert hash_array(array).tolist() == one_by_one(array)


def test_empty_values_need_no_data() -> None:
    array = pa.array([b"", b""], pa.large_binary())
    assert hash_array(array).tolist() == one_by_one(array)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(allow_nan=False),
            st.none() | st.text(max_size=40),
            st.none() | st.one_of(st.integers(-9, 9), st.text(max_size=3), st.binary(max_size=3)),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["BINARY", "NOCASE", "RTRIM"]),
)
def test_many_rows_hash_as_each_of_them_does(rows: list[tuple[Value, ...]], collation: str) -> None:
    types = [Type.INTEGER, Type.REAL, Type.TEXT, Type.ANY]
    many = rows * (600 // len(rows) + 1)
    columns = [to_array(list(column), type) for column, type in zip(zip(*many, strict=True), types, strict=True)]
    hashes = hash_columns(columns, types, [collation] * 4).tolist()
    assert hashes == [hash_row(row, [collation] * 4) for row in many]
