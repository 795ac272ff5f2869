"""Keys of values by which equals are found: two values that PostgreSQL finds equal in a column have the same key.

For the types whose equality is plain; texts lose the blanks behind, which some types do not compare. None for all else:
other types, collations that call different texts equal, and what PostgreSQL reads in more than one way.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from datetime import date, datetime
from uuid import UUID

from headwater.model.schema import Column
from headwater.model.value import Type, Value

_INTEGERS = ("smallint", "integer", "bigint")
_TEXTS = ("text", "character varying", "character")
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def stored_key(column: Column, value: Value) -> Hashable | None:
    declared = column.declared.partition("(")[0]
    if declared in _INTEGERS:
        return value if type(value) is int else None
    if declared in _TEXTS and column.collation != "nondeterministic":
        return value.rstrip(" ") if type(value) is str else None
    if (declared, type(value)) in (("boolean", bool), ("uuid", UUID), ("date", date)):
        return value
    return None


def asked_key(column: Column, value: Value) -> Hashable | None:
    """A parameter is sent as text: a whole number may be asked for in a column of texts, and a text in any."""
    declared = column.declared.partition("(")[0]
    match value:
        case bool() | datetime():
            return stored_key(column, value) if column.type is Type.BOOLEAN else None
        case int() if declared in _TEXTS:
            return stored_key(column, str(value))
        case str() if declared in _INTEGERS:
            return int(value) if _WHOLE.fullmatch(value) else None
        case str() if declared == "uuid":
            return _uuid(value)
        case str() if declared == "date":
            return _day(value)
    return stored_key(column, value)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None
