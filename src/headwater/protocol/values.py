"""Values on the wire. JSON holds what it can; what it cannot is an object with one tag.

JSON has no bytes, no NaN, no dates and (in a browser) no integer beyond 2^53. `docs/API.md` lists the tags.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from headwater.model.encoding.tagged_bytes import pack_number
from headwater.model.errors import ProtocolError
from headwater.model.time.interval import Interval
from headwater.model.union import Value
from headwater.model.verbatim import Verbatim

_SAFE = 1 << 53
_DIGITS = re.compile(r"-?[0-9]{1,40}")
_NUMBER = re.compile(r"-?[0-9]{1,131072}(\.[0-9]{1,16383})?|NaN|-?Infinity")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_SHOWN_MAX = 200
_PLAIN = frozenset({str, bool, type(None)})


def to_wire(value: Value) -> Any:
    write = _WRITERS.get(type(value))
    return value if write is None else write(value)


def row_to_wire(values: Iterable[Value]) -> list[Any]:
    """Most values are strings or small integers, which pass as they are: only the others are looked at twice."""
    return [
        value
        if (kind := type(value)) in _PLAIN or (kind is int and -_SAFE < value < _SAFE)  # type: ignore[operator]
        else to_wire(value)
        for value in values
    ]


def from_wire(value: Any) -> Value:
    if not isinstance(value, dict):
        if value is None or isinstance(value, int | float | str):
            return value
        raise ProtocolError(f"expected a value, found {type(value).__name__}", hint=_HINT)
    try:
        ((tag, body),) = value.items()
        return _READERS[tag](body)
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError):
        raise ProtocolError(f"expected a tagged value, found {_brief(value)}", hint=_HINT) from None


def _brief(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}…"


def _from_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}


def _from_datetime(value: datetime) -> Any:
    return {"$timestamp" if value.tzinfo is None else "$timestamptz": value.isoformat()}


def _from_verbatim(value: Verbatim) -> Any:
    return {"$json": value.text} if value.type == "json" else {"$verbatim": [value.type, value.text]}


def _int(body: str) -> int:
    return int(_matching(_DIGITS, body))


def _decimal(body: str) -> Decimal:
    return Decimal(_matching(_NUMBER, body))


def _matching(pattern: re.Pattern[str], body: str) -> str:
    if pattern.fullmatch(body) is None:
        raise ValueError(body)
    return body


def _timestamp(body: str) -> datetime:
    value = datetime.fromisoformat(body)
    if value.tzinfo is not None:
        raise ValueError(body)
    return value


def _timestamptz(body: str) -> datetime:
    value = datetime.fromisoformat(body)
    if value.tzinfo is None:
        raise ValueError(body)
    return value.astimezone(UTC)


def _verbatim(body: list[str]) -> Verbatim:
    type, text = body
    return Verbatim(_text(type), _text(text))


def _text(body: str) -> str:
    if not isinstance(body, str):
        raise TypeError(body)
    return body


def _array(body: list[Any]) -> tuple[Value, ...]:
    if not isinstance(body, list):
        raise TypeError(body)
    return tuple(from_wire(each) for each in body)


_WRITERS: dict[type, Callable[[Any], Any]] = {
    int: lambda value: value if -_SAFE < value < _SAFE else {"$int": str(value)},
    float: _from_float,
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    Decimal: lambda value: {"$decimal": pack_number(value)},
    date: lambda value: {"$date": value.isoformat()},
    time: lambda value: {"$time": value.isoformat()},
    datetime: _from_datetime,
    Interval: lambda value: {"$interval": str(value)},
    UUID: lambda value: {"$uuid": str(value)},
    Verbatim: _from_verbatim,
    tuple: lambda value: {"$array": row_to_wire(value)},
}
_READERS: dict[str, Callable[[Any], Value]] = {
    "$int": _int,
    "$float": lambda body: _FLOATS[body],
    "$bytes": lambda body: base64.b64decode(body, validate=True),
    "$decimal": _decimal,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timestamp": _timestamp,
    "$timestamptz": _timestamptz,
    "$interval": Interval.parse,
    "$uuid": UUID,
    "$json": lambda body: Verbatim("json", _text(body)),
    "$verbatim": _verbatim,
    "$array": _array,
}
_HINT = 'null, booleans, numbers, strings, {"$int": "…"}, {"$bytes": "base64"}, {"$decimal": "…"}, … are values'
