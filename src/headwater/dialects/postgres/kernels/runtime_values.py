"""Values as PostgreSQL's operators meet them here: moments as numbers, which compare as they do, uuids and
JSON as texts. Pure.

All others are as everywhere. Days and microseconds since 1970; the largest and the least number are infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa

from headwater.model.time.epoch import date_of, days_of, moment_of, moment_us_of, time_of, time_us_of
from headwater.model.value import Type, Value, from_array, held_in
from headwater.model.verbatim import Verbatim

_HOLD: dict[Type, Callable[[Any], Any]] = {
    Type.DATE: days_of,
    Type.TIME: time_us_of,
    Type.TIMESTAMP: moment_us_of,
    Type.TIMESTAMPTZ: moment_us_of,
    Type.UUID: str,
    Type.JSON: str,
}
_SHOW: dict[Type, Callable[[Any], Any]] = {
    Type.INTEGER: int,
    Type.BOOLEAN: bool,
    Type.DATE: date_of,
    Type.TIME: time_of,
    Type.TIMESTAMP: lambda us: moment_of(us, False),
    Type.TIMESTAMPTZ: lambda us: moment_of(us, True),
    Type.UUID: UUID,
    Type.JSON: lambda text: Verbatim("json", text),
}


def held(value: Value, type: Type | None) -> Any:
    """Of a constant."""
    hold = _HOLD.get(type) if type is not None and value is not None else None
    return hold(value) if hold is not None else value


def held_column(array: pa.Array, type: Type) -> list[Any]:
    return held_in(array) if type in _HOLD else from_array(array, type)


def shown(type: Type | None) -> Callable[[Any], Any] | None:
    """Back to a value of a column; None where it is one already. Truth is a number where the column is one."""
    return _SHOW.get(type) if type is not None else None
