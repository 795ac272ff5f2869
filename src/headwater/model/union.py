"""The Python types that a value may have. Nothing of Arrow is here: a client of a gateway needs none of it."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from headwater.model.time.interval import Interval
from headwater.model.verbatim import Verbatim

Value = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | Decimal
    | date
    | time
    | datetime
    | Interval
    | UUID
    | Verbatim
    | tuple[Any, ...]
)
Row = tuple[Value, ...]
