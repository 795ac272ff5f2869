"""Values and their types: what a column may hold, and how Arrow holds it.

| type | Python | Arrow |
|---|---|---|
| INTEGER, REAL, TEXT, BLOB | int, float, str, bytes | int64, float64, large_string, large_binary |
| BOOLEAN | bool | bool |
| NUMERIC | Decimal, any scale, NaN and infinity too | large_string: its digits as SQL writes them |
| DATE, TIME | date, time | date32, time64[us] |
| TIMESTAMP, TIMESTAMPTZ | datetime, the latter in UTC | timestamp[us], timestamp[us, UTC] |
| INTERVAL | Interval | large_binary: months and days in 4 bytes each, microseconds in 8 |
| UUID | UUID | large_string: 36 small characters |
| JSON | Verbatim | large_string: the text |
| OTHER | Verbatim; tuples for arrays | large_binary, packed: only the database computes with it |
| ANY | any of them, as the row tells (SQLite's mixed columns) | large_binary, packed |

A moment that Python's types do not reach is Verbatim too, and a number like all others in Arrow: see `moments`.
NULL is None, and Arrow's null.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from headwater.model.encoding.tagged_bytes import pack_any as pack_any
from headwater.model.encoding.tagged_bytes import pack_column, pack_number, unpack_column
from headwater.model.encoding.tagged_bytes import unpack_any as unpack_any
from headwater.model.time.epoch import date_of, days_of, moment_of, moment_us_of, time_of, time_us_of
from headwater.model.time.interval import Interval
from headwater.model.union import Row as Row
from headwater.model.union import Value as Value
from headwater.model.verbatim import Verbatim


class Type(enum.Enum):
    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    BLOB = "blob"
    ANY = "any"
    BOOLEAN = "boolean"
    NUMERIC = "numeric"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    INTERVAL = "interval"
    UUID = "uuid"
    JSON = "json"
    OTHER = "other"

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self]


_ARROW = {
    Type.INTEGER: pa.int64(),
    Type.REAL: pa.float64(),
    Type.TEXT: pa.large_string(),
    Type.BLOB: pa.large_binary(),
    Type.ANY: pa.large_binary(),
    Type.BOOLEAN: pa.bool_(),
    Type.NUMERIC: pa.large_string(),
    Type.DATE: pa.date32(),
    Type.TIME: pa.time64("us"),
    Type.TIMESTAMP: pa.timestamp("us"),
    Type.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    Type.INTERVAL: pa.large_binary(),
    Type.UUID: pa.large_string(),
    Type.JSON: pa.large_string(),
    Type.OTHER: pa.large_binary(),
}
COUNTED = {  # types that are whole numbers in Arrow, though not in Python
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.int32(),
    Type.TIME: pa.int64(),
    Type.TIMESTAMP: pa.int64(),
    Type.TIMESTAMPTZ: pa.int64(),
}
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 63) - 1
PLAIN = frozenset({Type.INTEGER, Type.REAL, Type.TEXT, Type.BLOB, Type.BOOLEAN})  # Arrow takes their values as they are
ALIKE = frozenset({Type.UUID, Type.DATE, Type.TIME, Type.TIMESTAMP, Type.TIMESTAMPTZ})  # equal values look the same
_OF_PYTHON: dict[type, Type] = {
    bool: Type.BOOLEAN,
    int: Type.INTEGER,
    float: Type.REAL,
    str: Type.TEXT,
    bytes: Type.BLOB,
    Decimal: Type.NUMERIC,
    date: Type.DATE,
    time: Type.TIME,
    Interval: Type.INTERVAL,
    UUID: Type.UUID,
    tuple: Type.OTHER,
}
_OF_VERBATIM = {type.value: type for type in (Type.DATE, Type.TIME, Type.TIMESTAMP, Type.TIMESTAMPTZ, Type.JSON)}
_TYPE_KEY = b"headwater.type"


def type_of(value: Value) -> Type | None:
    """The type a value has by itself; None for NULL."""
    match value:
        case None:
            return None
        case datetime():
            return Type.TIMESTAMP if value.tzinfo is None else Type.TIMESTAMPTZ
        case Verbatim():
            return _OF_VERBATIM.get(value.type, Type.OTHER)
        case _:
            return _OF_PYTHON[type(value)]


def field(name: str, type: Type) -> pa.Field:
    """An Arrow field that remembers our type, so that ANY and BLOB are told apart."""
    return pa.field(name, type.arrow, metadata={_TYPE_KEY: type.value.encode()})


def field_type(field: pa.Field) -> Type:
    return Type((field.metadata or {})[_TYPE_KEY].decode())


def to_array(values: Sequence[Value], type: Type) -> pa.Array:
    """A column of Python values as Arrow. Raises `pa.ArrowInvalid` or `pa.ArrowTypeError` where one does not fit."""
    write = _WRITERS.get(type)
    if write is None:
        return pa.array(values, type=type.arrow)
    if write is pack_any:
        return pa.array(pack_column(values), type=type.arrow)
    written = pa.array(
        [None if value is None else write(value) for value in values], type=COUNTED.get(type, type.arrow)
    )
    return written.view(type.arrow) if type in COUNTED else written


class FewRows:
    """Makes small batches of one schema: Arrow converts whole rows at once, which costs it less than many columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self._struct = pa.struct(list(schema))

    def of(self, rows: Iterable[tuple[object, ...]]) -> pa.RecordBatch:
        """Values as Arrow has them: those of an ANY column are packed."""
        return pa.RecordBatch.from_struct_array(pa.array(list(rows), self._struct))


def from_array(array: pa.Array, type: Type) -> list[Value]:
    """The inverse of `to_array`."""
    read = _READERS.get(type)
    counted = array.view(COUNTED[type]) if type in COUNTED else array
    values: list[Any] = counted.to_pylist()
    if read is unpack_any:
        return unpack_column(values)
    return values if read is None else [None if value is None else read(value) for value in values]


def held_in(array: pa.Array) -> list[Any]:
    """What Arrow holds, to tell equal from different: moments as numbers, for not all of them are Python's."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    values: list[Any] = array.to_pylist()
    return values


_Convert = Callable[[Any], Any]
_WRITERS: dict[Type, _Convert] = {
    Type.ANY: pack_any,
    Type.OTHER: pack_any,
    Type.NUMERIC: pack_number,
    Type.DATE: days_of,
    Type.TIME: time_us_of,
    Type.TIMESTAMP: moment_us_of,
    Type.TIMESTAMPTZ: moment_us_of,
    Type.INTERVAL: Interval.pack,
    Type.UUID: str,
    Type.JSON: str,
}
_READERS: dict[Type, _Convert] = {
    Type.ANY: unpack_any,
    Type.OTHER: unpack_any,
    Type.NUMERIC: Decimal,
    Type.DATE: date_of,
    Type.TIME: time_of,
    Type.TIMESTAMP: lambda us: moment_of(us, False),
    Type.TIMESTAMPTZ: lambda us: moment_of(us, True),
    Type.INTERVAL: Interval.unpack,
    Type.UUID: UUID,
    Type.JSON: lambda text: Verbatim("json", text),
}
