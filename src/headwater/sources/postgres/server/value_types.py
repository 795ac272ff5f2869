"""What a PostgreSQL type is to us, and how its text reads. The same for stream, snapshot and answers. Pure.

| PostgreSQL | ours |
|---|---|
| smallint, integer, bigint, oid | INTEGER |
| real, double precision | REAL: the number that the shortest text stands for |
| boolean, numeric, date, time, timestamp, timestamptz, interval, uuid | the type of that name |
| json, jsonb | JSON |
| bytea | BLOB |
| text, varchar, char, name, xml, enums | TEXT; char(n) with its blanks |
| arrays | OTHER: tuples of such values; verbatim where they do not count from 1 |
| all others: timetz, money, inet, ranges, composites, geometry, what extensions bring | OTHER: verbatim |

A domain is what its base type is. Texts are as sent with the settings of `sessions`: ISO dates, times in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg import postgres

from headwater.model.encoding.python_values import Range
from headwater.model.encoding.tagged_bytes import pack_number
from headwater.model.errors import LimitExceeded
from headwater.model.time.epoch import Moment, moment_us_of, read_date, read_moment, read_moment_utc, read_time
from headwater.model.time.interval import Interval
from headwater.model.value import Type, Value
from headwater.model.verbatim import Verbatim

Parse = Callable[[bytes], Value]

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([{}])|([^{}",]+)', re.S)
_ESCAPE = re.compile(r"\\(.)", re.S)


def _bytea(text: bytes) -> bytes:
    return bytes.fromhex(text[2:].decode())


class Unreadable(LimitExceeded):
    """A value that lies behind what we can hold."""


def _moment(read: Callable[[str], Moment]) -> Parse:
    """What is too far is told here, where its table is known, and not when it is written."""

    def parse(text: bytes) -> Value:
        moment = read(text.decode())
        if isinstance(moment, Verbatim):
            try:
                moment_us_of(moment)
            except OverflowError as error:
                raise Unreadable(str(error), hint="keep such times as text or as infinity") from None
        return moment

    return parse


def _reading(read: Callable[[str], Value]) -> Parse:
    return lambda text: read(text.decode())


_TEXT: tuple[Type, Parse] = (Type.TEXT, bytes.decode)
_INTEGER: tuple[Type, Parse] = (Type.INTEGER, int)
_REAL: tuple[Type, Parse] = (Type.REAL, float)
_JSON: tuple[Type, Parse] = (Type.JSON, lambda text: Verbatim("json", text.decode()))
_KNOWN: dict[int, tuple[Type, Parse]] = {
    16: (Type.BOOLEAN, lambda text: text == b"t"),
    17: (Type.BLOB, _bytea),
    **dict.fromkeys((20, 21, 23, 26), _INTEGER),
    **dict.fromkeys((700, 701), _REAL),
    **dict.fromkeys((18, 19, 25, 142, 1042, 1043), _TEXT),
    **dict.fromkeys((114, 3802), _JSON),
    1700: (Type.NUMERIC, _reading(Decimal)),
    1082: (Type.DATE, _reading(read_date)),
    1083: (Type.TIME, _reading(read_time)),
    1114: (Type.TIMESTAMP, _moment(read_moment)),
    1184: (Type.TIMESTAMPTZ, _moment(read_moment_utc)),
    1186: (Type.INTERVAL, _reading(Interval.parse)),
    2950: (Type.UUID, _reading(UUID)),
}


@dataclass(frozen=True, slots=True)
class Defined:
    """A type that somebody made. `kind` is pg_type's: b, c, d, e, r or m; `element` is that of an array."""

    name: str
    kind: str
    base: int = 0
    element: int = 0


@dataclass(frozen=True, slots=True)
class Types:
    """Those that PostgreSQL brings, and those `defined` in a database, by oid."""

    defined: Mapping[int, Defined] = field(default_factory=dict)

    def knows(self, oid: int) -> bool:
        return oid in self.defined or postgres.types.get(oid) is not None

    def base(self, oid: int) -> int:
        """The type below all domains, which may be over domains."""
        while (made := self.defined.get(oid)) is not None and made.kind == "d":
            oid = made.base
        return oid

    def type_of(self, oid: int) -> Type:
        return self._read(oid)[0]

    def parser(self, oid: int) -> Parse:
        """From the text of a value to the value."""
        return self._read(oid)[1]

    def _read(self, oid: int) -> tuple[Type, Parse]:
        oid = self.base(oid)
        known = _KNOWN.get(oid)
        if known is not None:
            return known
        made = self.defined.get(oid)
        if made is not None and made.kind == "e":
            return _TEXT
        name, element = (made.name, made.element) if made is not None else _built_in(oid)
        return Type.OTHER, _array(name, self.parser(element)) if element else _verbatim(name)


BUILT_IN = Types()


def _built_in(oid: int) -> tuple[str, int]:
    """Name and element type of one that PostgreSQL brings."""
    info = postgres.types.get(oid)
    if info is None:
        return str(oid), 0
    if info.array_oid != oid:
        return info.name, 0
    return f"{info.name}[]", info.oid if info.delimiter == "," else 0  # only arrays of boxes have another one


def _verbatim(name: str) -> Parse:
    return lambda text: Verbatim(name, text.decode())


def _array(name: str, element: Parse) -> Parse:
    def parse(text: bytes) -> Value:
        written = text.decode()
        return _elements(written, element) if written.startswith("{") else Verbatim(name, written)

    return parse


def _elements(written: str, element: Parse) -> tuple[Any, ...]:
    """Nested as the braces are."""
    levels: list[list[Any]] = [[]]
    for quoted, brace, plain in _TOKEN.findall(written):
        if brace == "{":
            levels.append([])
        elif brace == "}":
            inner = tuple(levels.pop())
            levels[-1].append(inner)
        elif plain == "NULL":
            levels[-1].append(None)
        else:
            levels[-1].append(element((plain or _ESCAPE.sub(r"\1", quoted)).encode()))
    whole: tuple[Any, ...] = levels[0][0]
    return whole


def written(value: Any) -> bytes | None:
    """A parameter as text that the server reads by the type it expects there."""
    return None if value is None else _WRITERS.get(type(value), str)(value).encode()


def _write_array(values: Any) -> str:
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = (written(value) or b"").decode()
    if isinstance(value, list | tuple):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_range(value: Range) -> str:
    ends = ("" if end is None else _element(end) for end in (value.lower, value.upper))
    return f"{value.bounds[0]}{','.join(ends)}{value.bounds[1]}" if value.bounds else "empty"


_WRITERS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    bytes: lambda value: "\\x" + value.hex(),
    float: repr,
    Decimal: pack_number,
    date: date.isoformat,
    time: time.isoformat,
    datetime: datetime.isoformat,
    list: _write_array,
    tuple: _write_array,
    dict: json.dumps,
    Range: _write_range,
}
