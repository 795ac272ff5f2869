"""Hashes of whole columns at once: of keys, as the source compares values, and of rows, to the bit.

They find candidates and identify rows inside the engine. They never leave it: clients see those of
`model.encoding.keys.hash_row`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.encoding.keys import Uint64s, encode_value, hash_all, hash_columns, hash_encoded
from headwater.model.encoding.xxh3 import hash_array
from headwater.model.size import SMALL
from headwater.model.value import COUNTED, Type, Value, from_array

NULL_KEY = np.uint64(0x6E756C6C6B657973)  # of a key with a NULL in it, where such rows are looked up too
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0x6E756C6C6E756C6C)
_NULL_BITS, _BITS = int(_NULL), (1 << 64) - 1
_BY_BITS = frozenset({Type.REAL, *COUNTED})  # whose values are hashed as the bits of numbers
_FRACTION = np.uint64(0x7265616C00000000)
_INT_MIN, _INT_END = -(2.0**63), 2.0**63
_CHUNK_ROWS = 1 << 14
_SHIFTS = tuple(np.uint64(each) for each in (30, 27, 31, 1, 63))


def mixed(bits: Uint64s) -> Uint64s:
    """splitmix64's finaliser: no two inputs have one output."""
    bits = bits + _GOLDEN  # or 0, of all values, would be its own hash
    bits ^= bits >> _SHIFTS[0]
    bits *= _FIRST
    bits ^= bits >> _SHIFTS[1]
    bits *= _SECOND
    bits ^= bits >> _SHIFTS[2]
    return bits


def combined(left: Uint64s, right: Uint64s) -> Uint64s:
    """One hash of two; their order counts."""
    turned: Uint64s = left << _SHIFTS[3]
    turned |= left >> _SHIFTS[4]
    turned += right
    return mixed(turned)


def key_hash(arrays: Sequence[pa.Array], types: Sequence[Type], collations: Sequence[str], count: int) -> Uint64s:
    """Values that SQLite calls equal under the collation have one hash, whatever the types of their columns."""
    if count <= SMALL.mixed_rows and arrays and all(type is Type.INTEGER for type in types):
        return _folded_few([_few_integers(array) for array in arrays])
    return _chunked(arrays, count, lambda some: [_key(*each) for each in zip(some, types, collations, strict=True)])


def row_hash(rows: pa.RecordBatch, types: Sequence[Type]) -> Uint64s:
    """Rows have one hash where nobody could tell them apart: 1 is not 1.0, and 'a' is not 'A'."""
    if rows.num_rows <= SMALL.mixed_rows and rows.num_columns and not any(type in _BY_BITS for type in types):
        return _folded_few([_few_exact(*each) for each in zip(rows.columns, types, strict=True)])
    return _chunked(rows.columns, rows.num_rows, lambda some: list(map(_exact, some, types)))


def _chunked(arrays: Sequence[pa.Array], count: int, hash: Callable[[Sequence[pa.Array]], list[Uint64s]]) -> Uint64s:
    """Many rows are hashed a part at a time: what is being worked on stays in the processor's cache."""
    if count <= _CHUNK_ROWS:
        return _folded(hash(arrays), count)
    whole = np.empty(count, np.uint64)
    for start in range(0, count, _CHUNK_ROWS):
        some = [array.slice(start, _CHUNK_ROWS) for array in arrays]
        whole[start : start + _CHUNK_ROWS] = _folded(hash(some), min(_CHUNK_ROWS, count - start))
    return whole


def _folded_few(columns: list[list[int]]) -> Uint64s:
    """What `_folded` gives, in Python's integers."""
    whole = columns[0]
    for each in columns[1:]:
        whole = [
            _mixed_one((((left << 1) | (left >> 63)) + right) & _BITS) for left, right in zip(whole, each, strict=True)
        ]
    return np.array(whole, np.uint64)


def _few_exact(array: pa.Array, type: Type) -> list[int]:
    if type is Type.INTEGER:
        return _few_integers(array)
    values = array.view(pa.large_binary()).to_pylist()
    return [_NULL_BITS if value is None else hash_encoded(value) for value in values]


def _few_integers(array: pa.Array) -> list[int]:
    return [_NULL_BITS if value is None else _mixed_one(value & _BITS) for value in array.to_pylist()]


def _mixed_one(bits: int) -> int:
    """What `mixed` gives."""
    bits = (bits + 0x9E3779B97F4A7C15) & _BITS
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _BITS
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _BITS
    return bits ^ (bits >> 31)


def _folded(hashes: list[Uint64s], count: int) -> Uint64s:
    if not hashes:
        return np.zeros(count, np.uint64)
    whole = hashes[0]
    for each in hashes[1:]:
        whole = combined(whole, each)
    return whole


def _key(array: pa.Array, type: Type, collation: str) -> Uint64s:
    if type in COUNTED:
        array, type = array.view(COUNTED[type]).cast(pa.int64()), Type.INTEGER
    match type:
        case Type.INTEGER:
            return _with_nulls(mixed(_numbers(array).view(np.uint64)), array)
        case Type.REAL:
            return _with_nulls(_reals(_numbers(array)), array)
        case Type.ANY | Type.NUMERIC:
            return _mixed_column(from_array(array, type), collation)
        case _:
            return _with_nulls(hash_columns([array], [type], [collation]), array)


def _exact(array: pa.Array, type: Type) -> Uint64s:
    if type in COUNTED:
        array, type = array.view(COUNTED[type]).cast(pa.int64()), Type.INTEGER
    if type in (Type.INTEGER, Type.REAL):
        return _with_nulls(mixed(_numbers(array).view(np.uint64)), array)
    raw = array.view(pa.large_binary())
    raw = raw.fill_null(b"") if array.null_count else raw
    hashes = hash_all(raw.to_pylist()) if len(raw) <= SMALL.row_hash_rows else hash_array(raw)
    return _with_nulls(hashes, array)


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    whole = array.fill_null(0) if array.null_count else array
    return np.ascontiguousarray(whole.to_numpy(zero_copy_only=False))


def _with_nulls(hashes: Uint64s, array: pa.Array) -> Uint64s:
    if not array.null_count:
        return hashes
    return np.where(np.asarray(array.is_null()), _NULL, hashes)


def _reals(numbers: npt.NDArray[np.float64]) -> Uint64s:
    """A whole number hashes as the INTEGER it equals, and NaN is one value."""
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    whole = (numbers == np.floor(numbers)) & (numbers >= _INT_MIN) & (numbers < _INT_END)
    integers = np.where(whole, numbers, 0.0).astype(np.int64).view(np.uint64)
    return mixed(np.where(whole, integers, numbers.view(np.uint64) ^ _FRACTION))


def _mixed_column(values: Sequence[Value], collation: str) -> Uint64s:
    hashes = np.full(len(values), _NULL, np.uint64)
    plain = [_plain(value) for value in values]
    integers = [place for place, value in enumerate(plain) if isinstance(value, int)]
    reals = [place for place, value in enumerate(plain) if isinstance(value, float)]
    hashes[integers] = mixed(np.array([plain[place] for place in integers], np.int64).view(np.uint64))
    hashes[reals] = _reals(np.array([plain[place] for place in reals], np.float64))
    for place, value in enumerate(plain):
        if value is not None and not isinstance(value, int | float):
            hashes[place] = hash_encoded(encode_value(value, collation=collation))
    return hashes


def _plain(value: Value) -> Value:
    """A decimal that an INTEGER or a REAL may equal is that number."""
    if not isinstance(value, Decimal):
        return value
    if not value.is_finite():
        return float(value)
    if value == value.to_integral_value() and _INT_MIN <= value < _INT_END:
        return int(value)
    return float(value) if Decimal(float(value)) == value else value
