"""The SQL condition for the rows of some keys. Pure: it writes text, and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.dialects.registry import DIALECTS
from headwater.model.schema import Table
from headwater.model.value import Row, Type
from headwater.sql.ir.identifier import quote

_ALIKE = frozenset({Type.INTEGER, Type.TEXT, Type.UUID})  # where IN compares as = does, whatever else is in its list


def key_condition(table: Table, columns: Sequence[str], keys: Sequence[Row]) -> str:
    """That the columns have the values of one of the keys, each compared as the query compares it."""
    write = DIALECTS[table.dialect].syntax.write
    if len(columns) == 1 and table.column(columns[0]).type in _ALIKE:
        return f"{quote(columns[0])} IN ({', '.join(write(value) for (value,) in keys)})"
    each = (
        " AND ".join(f"{quote(column)} = {write(value)}" for column, value in zip(columns, key, strict=True))
        for key in keys
    )
    return " OR ".join(f"({one})" for one in each)
