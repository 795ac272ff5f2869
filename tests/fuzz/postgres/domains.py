"""The constants of each kind of column: few, so that joins meet and groups fill. Sums of doubles are exact."""

from __future__ import annotations

CONSTANTS: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "3", "-1"),
    "float": ("0.5", "1", "2.25", "-1"),
    "numeric": ("0", "1.5", "2.25", "-1", "10.75"),
    "text": ("'a'", "'b'", "'A'", "''", "'ab'"),
    "tongue": ("'a'", "'b'", "'A'", "'B'", "'ab'"),
    "bool": ("true", "false"),
    "date": ("'2024-01-31'", "'2024-02-29'", "'2024-03-01'", "'1999-12-31'"),
    "moment": ("'2024-02-29 12:00:00'", "'2024-02-29 00:00:00.5'", "'1999-12-31 23:59:59.999999'"),
    "instant": ("'2024-03-31 01:30:00+00'", "'2024-02-29 23:00:00+00'", "'1999-12-31 23:59:59.999999+00'"),
    "uuid": tuple(f"'{digit * 8}-0000-4000-8000-000000000000'" for digit in "0af"),
}
ODD: dict[str, tuple[str, ...]] = {
    "int": ("32767", "-32768"),
    "float": ("'NaN'", "'Infinity'", "'-0'", "1e300"),
    "numeric": ("'NaN'", "999999.99", "-0.01"),
    "text": ("'é'", "'É'", "' a'", "'a_b%'", "E'x\\ty'"),
    "tongue": ("'é'", "'É'", "'ß'"),
    "date": ("'infinity'", "'0044-03-15 BC'"),
    "moment": ("'infinity'", "'-infinity'"),
    "instant": ("'infinity'", "'0001-01-01 00:00:00+00'"),
}
TYPES = {
    "int": "int4",
    "float": "float8",
    "numeric": "numeric",
    "text": "text",
    "tongue": "text",
    "bool": "bool",
    "date": "date",
    "moment": "timestamp",
    "instant": "timestamptz",
    "uuid": "uuid",
}


def given(kind: str, constant: str) -> int | float | str | bool:
    """As a program passes it for a parameter."""
    match kind:
        case "int":
            return int(constant)
        case "float":
            return float(constant)
        case "bool":
            return constant == "true"
        case _:
            return constant.strip("'")
