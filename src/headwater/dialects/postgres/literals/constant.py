"""Constants as PostgreSQL's SQL."""

from __future__ import annotations

from headwater.model.value import Value


def write(value: Value) -> str:
    """A constant that a column of its type may be compared with."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"(-{-value})"
        case float():
            return f"'{value!r}'::float8"
        case bytes():
            return f"'\\x{value.hex()}'::bytea"
        case _:
            return "'" + str(value).replace("'", "''") + "'"
