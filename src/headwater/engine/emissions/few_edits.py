"""The results of a few rows as bytes, without Arrow's schema and padding, which would be many times as long as a row.
Pure. Diffs are not among them: they are short-lived, and Arrow writes and reads them sooner.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from headwater.engine.emissions.block import RESULT
from headwater.engine.emissions.edits import FIXED, edits_schema
from headwater.model.value import COUNTED, FewRows, Type, field_type

_ROWS_MAX = 16
_KIND = 2  # the column


class _FewRows(msgspec.Struct, array_like=True):
    """`columns` are those of the edits, but for the old rows, which are absent."""

    types: list[Type]
    columns: list[list[Any]]


_DECODER, _ENCODER = msgspec.msgpack.Decoder(_FewRows), msgspec.msgpack.Encoder()


def encode_few(edits: pa.RecordBatch) -> bytes | None:
    """None where they are many, or no results."""
    if edits.num_rows > _ROWS_MAX or any(kind != RESULT for kind in edits.column(_KIND).to_pylist()):
        return None
    width = (edits.num_columns - FIXED) // 2
    new = range(FIXED + width, edits.num_columns)
    types = [field_type(edits.schema.field(n)) for n in new]
    values = [_held(edits.column(n), type) for n, type in zip(new, types, strict=True)]
    return _ENCODER.encode(_FewRows(types, [*(edits.column(n).to_pylist() for n in range(FIXED)), *values]))


def decode_few(payload: bytes | memoryview) -> pa.RecordBatch:
    read = _DECODER.decode(payload)
    return _made_of(tuple(read.types), read.columns)


def _made_of(types: tuple[Type, ...], columns: list[list[Any]]) -> pa.RecordBatch:
    absent = [[None] * len(columns[0])] * len(types)
    fixed, new = columns[:FIXED], columns[FIXED:]
    if COUNTED.keys().isdisjoint(types):
        return _converter(types).of(zip(*fixed, *absent, *new, strict=True))
    schema = edits_schema(types)
    numbers = [pa.array(column, schema.field(n).type) for n, column in enumerate(fixed)]
    values = [_array(column, type) for side in (absent, new) for column, type in zip(side, types, strict=True)]
    return pa.RecordBatch.from_arrays([*numbers, *values], schema=schema)


@lru_cache(maxsize=4096)
def _converter(types: tuple[Type, ...]) -> FewRows:
    return FewRows(edits_schema(types))


def _held(column: pa.Array, type: Type) -> list[Any]:
    """What Arrow holds: not all moments are Python's."""
    held: list[Any] = (column.view(COUNTED[type]) if type in COUNTED else column).to_pylist()
    return held


def _array(values: list[Any], type: Type) -> pa.Array:
    return pa.array(values, COUNTED[type]).view(type.arrow) if type in COUNTED else pa.array(values, type.arrow)
