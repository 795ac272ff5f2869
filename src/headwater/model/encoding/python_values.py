"""Values as a Python program wants them: JSON parsed, arrays as lists, addresses and ranges as objects.

The pipeline itself never calls this: what it holds is immutable and hashable.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import time
from decimal import Decimal
from typing import Any

from headwater.model.emission import Diff, Emission, Fields, Result, RowChange
from headwater.model.time.epoch import read_date, read_moment, read_moment_utc
from headwater.model.union import Value
from headwater.model.verbatim import Verbatim

_SPECIAL = frozenset({Verbatim, tuple})
_ENDS = re.compile(r'[\[(](?P<lower>"(?:[^"\\]|\\.|"")*"|[^",]*),(?P<upper>"(?:[^"\\]|\\.|"")*"|[^",]*)[\])]')
_ESCAPED = re.compile(r"[\\\"](.)")


@dataclass(frozen=True, slots=True)
class Range:
    """`bounds` are as in `[)`: whether each end belongs to it. None is no end; an empty range has no bounds at all."""

    lower: Any = None
    upper: Any = None
    bounds: str = ""


def natural(value: Value) -> Any:
    match value:
        case Verbatim(type=type, text=text) if type in _READERS:
            return _READERS[type](text)
        case Verbatim(text=text):
            return text
        case tuple():
            return [natural(each) for each in value]
        case _:
            return value


def natural_emission(emission: Emission) -> Emission:
    match emission:
        case Result(rows=rows):
            return replace(emission, rows=tuple(_fields(row) for row in rows)) if _any_special(rows) else emission
        case Diff(changes=changes):
            return replace(emission, changes=tuple(_change(change) for change in changes))
        case _:
            return emission


def _any_special(rows: tuple[Fields, ...]) -> bool:
    return any(type(value) in _SPECIAL for row in rows for value in row.values())


def _change(change: RowChange) -> RowChange:
    if not _any_special(tuple(row for row in (change.old, change.new) if row is not None)):
        return change
    old, new = (None if row is None else _fields(row) for row in (change.old, change.new))
    return replace(change, old=old, new=new)


def _fields(row: Fields) -> Fields:
    return {name: natural(value) if type(value) in _SPECIAL else value for name, value in row.items()}


def _range(element: Callable[[str], Any]) -> Callable[[str], Range]:
    def read(text: str) -> Range:
        if text == "empty":
            return Range()
        found = _ENDS.fullmatch(text)
        if found is None:
            raise ValueError(f"expected a range, found {text!r}")
        lower, upper = (_end(found[part], element) for part in ("lower", "upper"))
        return Range(lower, upper, text[0] + text[-1])

    return read


def _end(text: str, element: Callable[[str], Any]) -> Any:
    unquoted = _ESCAPED.sub(r"\1", text[1:-1]) if text.startswith('"') else text
    return element(unquoted) if text else None


def _address(text: str) -> Any:
    return ipaddress.ip_interface(text) if "/" in text else ipaddress.ip_address(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "inet": _address,
    "cidr": ipaddress.ip_network,
    "timetz": time.fromisoformat,
    "int4range": _range(int),
    "int8range": _range(int),
    "numrange": _range(Decimal),
    "daterange": _range(lambda text: natural(read_date(text))),
    "tsrange": _range(lambda text: natural(read_moment(text))),
    "tstzrange": _range(lambda text: natural(read_moment_utc(text))),
}
