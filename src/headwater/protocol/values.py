"""Values on the wire. JSON has no bytes, no NaN and (in a browser) no integer beyond 2^53: those travel tagged."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable
from typing import Any

from headwater.model.errors import ProtocolError
from headwater.model.value import Value

_SAFE = 1 << 53
_DIGITS = re.compile(r"-?[0-9]{1,40}")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_wire(value: Value) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, int) and not -_SAFE < value < _SAFE:
        return {"$int": str(value)}
    return value


def row_to_wire(values: Iterable[Value]) -> list[Any]:
    """Most values are strings, and most of the rest pass as they are: only bytes and numbers are looked at twice."""
    return [value if value is None or type(value) is str else to_wire(value) for value in values]


def from_wire(value: Any) -> Value:
    if not isinstance(value, dict):
        if isinstance(value, bool):
            return int(value)  # as every driver of SQLite takes it
        if value is None or isinstance(value, int | float | str):
            return value
        raise ProtocolError(f"expected a value, found {type(value).__name__}", hint=_HINT)
    try:
        ((tag, body),) = value.items()
        return _untagged(tag, body)
    except (ValueError, KeyError, TypeError):
        raise ProtocolError(f"expected a tagged value, found {value!r}", hint=_HINT) from None


def _untagged(tag: str, body: str) -> Value:
    if tag == "$int" and _DIGITS.fullmatch(body):
        return int(body)
    if tag == "$bytes":
        return base64.b64decode(body, validate=True)
    if tag == "$float":
        return _FLOATS[body]
    raise KeyError(tag)


_HINT = 'null, numbers, strings, {"$int": "…"}, {"$bytes": "base64"} and {"$float": "nan"} are values'
