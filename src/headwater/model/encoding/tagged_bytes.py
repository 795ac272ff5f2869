"""Values of no fixed type as bytes: one tag byte and the value. Two packed values are equal where no reader could tell
the values apart: 1 is not 1.0, and 1.0 is not 1.00. NULL is no bytes at all, never a tag.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

import msgspec

from headwater.model.time.epoch import date_of, days_of, moment_of, moment_us_of, time_of, time_us_of
from headwater.model.time.interval import Interval
from headwater.model.verbatim import Verbatim

_INT, _REAL, _TEXT, _BLOB, _BOOL, _DECIMAL = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05", b"\x06"
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _INTERVAL = b"\x07", b"\x08", b"\x09", b"\x0a", b"\x0b"
_UUID, _VERBATIM, _ARRAY = b"\x0c", b"\x0d", b"\x0e"
_EXT = 1  # the extension of msgpack that a packed value is
_TAGGED_INT = struct.Struct(">xq")
_TAGGED_INT_OF = struct.Struct(">cq").pack
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_TOLD_APART = frozenset({bool, int, str, bytes})  # equal ones of a type look the same


def pack_any(value: Any) -> bytes | None:
    """A `Value`."""
    return None if value is None else _PACKERS[type(value)](value)


def unpack_any(packed: bytes | None) -> Any:
    """The `Value`."""
    return None if packed is None else _UNPACKERS[packed[:1]](packed[1:])


def pack_column(values: Sequence[Any]) -> list[bytes | None]:
    """`pack_any` of each; sooner where all are of one common type."""
    kinds = set(map(type, values))
    pack = _COMMON.get(kinds.pop()) if len(kinds) == 1 else None
    return list(map(pack or pack_any, values))


def unpack_column(packed: Sequence[bytes | None]) -> list[Any]:
    """The inverse."""
    tags = {one and one[:1] for one in packed}
    if tags == {_INT}:
        return [number for (number,) in map(_TAGGED_INT.unpack, packed)]  # type: ignore[arg-type]
    return list(map(unpack_any, packed))


def alike(one: Any, other: Any) -> bool:
    """Whether no reader could tell two values apart."""
    if one is other or type(one) is not type(other):
        return one is other
    return bool(one == other) if type(one) in _TOLD_APART else pack_any(one) == pack_any(other)


def pack_number(value: Decimal) -> str:
    """Its digits as SQL writes them: no exponent, and the scale as it is."""
    return format(value, "f")


def storable(row: Iterable[Any]) -> list[Any]:
    """A row as msgpack holds it without loss."""
    return [
        value if type(value) in _PLAIN else msgspec.msgpack.Ext(_EXT, _PACKERS[type(value)](value)) for value in row
    ]


def storable_rows(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """The same of many rows; most have nothing that msgpack does not hold, and are taken as they are."""
    if set(map(type, chain.from_iterable(rows))) <= _PLAIN:
        return rows
    return [storable(row) for row in rows]


def stored(code: int, data: memoryview) -> Any:
    """The inverse, value by value: the `ext_hook` of a decoder."""
    return unpack_any(bytes(data))


def _pack_datetime(value: datetime) -> bytes:
    return (_TIMESTAMP if value.tzinfo is None else _TIMESTAMPTZ) + struct.pack(">q", moment_us_of(value))


def _pack_verbatim(value: Verbatim) -> bytes:
    return _VERBATIM + f"{value.type}\0{value.text}".encode("utf-8", "surrogatepass")


def _pack_array(value: tuple[Any, ...]) -> bytes:
    return _ARRAY + msgspec.msgpack.encode([pack_any(each) for each in value])


def _text(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass")


def _number(form: str) -> Callable[[bytes], Any]:
    return lambda body: struct.unpack(form, body)[0]


_PACKERS: dict[type, Callable[[Any], bytes]] = {
    int: lambda value: _INT + struct.pack(">q", value),
    float: lambda value: _REAL + struct.pack(">d", value),
    str: lambda value: _TEXT + value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: _BLOB + value,
    bool: lambda value: _BOOL + struct.pack(">?", value),
    Decimal: lambda value: _DECIMAL + pack_number(value).encode(),
    date: lambda value: _DATE + struct.pack(">i", days_of(value)),
    time: lambda value: _TIME + struct.pack(">q", time_us_of(value)),
    datetime: _pack_datetime,
    Interval: lambda value: _INTERVAL + value.pack(),
    UUID: lambda value: _UUID + value.bytes,
    Verbatim: _pack_verbatim,
    tuple: _pack_array,
}
_COMMON: dict[type, Callable[[Any], bytes]] = {kind: _PACKERS[kind] for kind in (float, str, bytes)} | {
    int: partial(_TAGGED_INT_OF, _INT)
}
_UNPACKERS: dict[bytes, Callable[[bytes], Any]] = {
    _INT: _number(">q"),
    _REAL: _number(">d"),
    _TEXT: _text,
    _BLOB: lambda body: body,
    _BOOL: _number(">?"),
    _DECIMAL: lambda body: Decimal(_text(body)),
    _DATE: lambda body: date_of(_number(">i")(body)),
    _TIME: lambda body: time_of(_number(">q")(body)),
    _TIMESTAMP: lambda body: moment_of(_number(">q")(body), False),
    _TIMESTAMPTZ: lambda body: moment_of(_number(">q")(body), True),
    _INTERVAL: Interval.unpack,
    _UUID: lambda body: UUID(bytes=body),
    _VERBATIM: lambda body: Verbatim(*_text(body).split("\0", 1)),
    _ARRAY: lambda body: tuple(unpack_any(each) for each in msgspec.msgpack.decode(body)),
}
