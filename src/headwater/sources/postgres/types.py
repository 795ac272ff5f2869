"""What a PostgreSQL type is to us, and how its text reads. The same for stream, snapshot and answers. Pure.

| PostgreSQL | ours | Arrow | as |
|---|---|---|---|
| smallint, integer, bigint, oid | INTEGER | int64 | itself |
| boolean | INTEGER | int64 | 1, 0 |
| real, double precision | REAL | float64 | the number its shortest text stands for |
| bytea | BLOB | large_binary | itself |
| text, varchar, char, name, enums | TEXT | large_string | itself; char(n) with its blanks |
| all others | TEXT | large_string | PostgreSQL's own text of it |

The others are numeric, money, date, time, timestamp, timestamptz, interval, uuid, json, jsonb, xml, inet, cidr,
macaddr, bit, arrays, ranges, composites, geometry and what extensions bring: with ISO dates, and times in UTC.

A domain is what its base type is. Text compares as text: what orders or computes with such a column asks the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.model.value import Type, Value

Parse = Callable[[bytes], Value]

BOOL, BYTEA = 16, 17
_INTEGERS = frozenset({20, 21, 23, 26})
_REALS = frozenset({700, 701})


def type_of(oid: int) -> Type:
    """Of a base type."""
    if oid in _INTEGERS or oid == BOOL:
        return Type.INTEGER
    if oid in _REALS:
        return Type.REAL
    return Type.BLOB if oid == BYTEA else Type.TEXT


def parser(oid: int) -> Parse:
    """From the text of a value, as sent with the settings of `sessions`, to the value."""
    if oid == BOOL:
        return _bool
    match type_of(oid):
        case Type.INTEGER:
            return int
        case Type.REAL:
            return float
        case Type.BLOB:
            return _bytea
        case _:
            return bytes.decode


def base_of(oid: int, domains: Mapping[int, int]) -> int:
    """The type below all domains, which may be over domains."""
    while oid in domains:
        oid = domains[oid]
    return oid


def written(value: Value) -> bytes | None:
    """A parameter as text that the server reads by the type it expects there."""
    match value:
        case None:
            return None
        case bool():
            return b"true" if value else b"false"
        case bytes():
            return b"\\x" + value.hex().encode()
        case float():
            return repr(value).encode()
        case _:
            return str(value).encode()


def _bool(text: bytes) -> int:
    return int(text == b"t")


def _bytea(text: bytes) -> bytes:
    return bytes.fromhex(text[2:].decode())
