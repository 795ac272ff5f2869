"""Values and their types: what a column may hold, how Arrow holds it, how a value of no fixed type is packed.

`ANY` columns (SQLite's mixed columns) are Arrow binary: one tag byte and the value. NULL is Arrow's null, never a tag.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from typing import assert_never

import pyarrow as pa

Value = None | int | float | str | bytes
Row = tuple[Value, ...]


class Type(enum.Enum):
    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    BLOB = "blob"
    ANY = "any"

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self]


_ARROW = {
    Type.INTEGER: pa.int64(),
    Type.REAL: pa.float64(),
    Type.TEXT: pa.large_string(),
    Type.BLOB: pa.large_binary(),
    Type.ANY: pa.large_binary(),
}
_TYPE_KEY = b"headwater.type"
_INT, _REAL, _TEXT, _BLOB = b"\x01", b"\x02", b"\x03", b"\x04"


def type_of(value: Value) -> Type | None:
    """The type a value has by itself; None for NULL."""
    match value:
        case None:
            return None
        case int():
            return Type.INTEGER
        case float():
            return Type.REAL
        case str():
            return Type.TEXT
        case bytes():
            return Type.BLOB
        case _:
            assert_never(value)


def field(name: str, type: Type) -> pa.Field:
    """An Arrow field that remembers our type, so that ANY and BLOB are told apart."""
    return pa.field(name, type.arrow, metadata={_TYPE_KEY: type.value.encode()})


def field_type(field: pa.Field) -> Type:
    return Type((field.metadata or {})[_TYPE_KEY].decode())


def pack_any(value: Value) -> bytes | None:
    match value:
        case None:
            return None
        case int():
            return _INT + struct.pack(">q", value)
        case float():
            return _REAL + struct.pack(">d", value)
        case str():
            return _TEXT + value.encode("utf-8", "surrogatepass")
        case bytes():
            return _BLOB + value
        case _:
            assert_never(value)


def unpack_any(packed: bytes | None) -> Value:
    if packed is None:
        return None
    tag, body = packed[:1], packed[1:]
    if tag == _INT:
        return int(struct.unpack(">q", body)[0])
    if tag == _REAL:
        return float(struct.unpack(">d", body)[0])
    return body.decode("utf-8", "surrogatepass") if tag == _TEXT else body


def to_array(values: Sequence[Value], type: Type) -> pa.Array:
    """A column of Python values as Arrow. Raises `pa.ArrowInvalid` or `pa.ArrowTypeError` where one does not fit."""
    if type is Type.ANY:
        return pa.array([pack_any(value) for value in values], type=type.arrow)
    return pa.array(values, type=type.arrow)


class FewRows:
    """Makes small batches of one schema: Arrow converts whole rows at once, which costs it less than many columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._names = [str(n) for n in range(len(schema))]  # those of the schema need not differ
        self._struct = pa.struct(list(zip(self._names, schema.types, strict=True)))

    def of(self, rows: Iterable[Sequence[object]]) -> pa.RecordBatch:
        """Values as Arrow has them: those of an ANY column are packed."""
        whole = pa.array([dict(zip(self._names, row, strict=True)) for row in rows], self._struct)
        return pa.RecordBatch.from_arrays(whole.flatten(), schema=self.schema)


def from_array(array: pa.Array, type: Type) -> list[Value]:
    """The inverse of `to_array`."""
    values: list[Value] = array.to_pylist()
    return [unpack_any(value) for value in values] if type is Type.ANY else values  # type: ignore[arg-type]
