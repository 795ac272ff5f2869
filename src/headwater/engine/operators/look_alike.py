"""Whether equal values of a column look the same: where they do, one of them stands for all."""

from __future__ import annotations

from headwater.model.value import Type
from headwater.sql.ir.relation import RelColumn

_OPEN = frozenset({Type.ANY, Type.INTERVAL})  # 1 and 1.0; a day and 24 hours


def looks_alike(column: RelColumn) -> bool:
    """On PostgreSQL a double has two zeros, and a number without a scale of its own any digits behind the point."""
    match column.type:
        case Type.TEXT:
            return column.collation == "BINARY"
        case Type.REAL:
            return not column.affinity.startswith("float")
        case Type.NUMERIC:
            return column.affinity.startswith("numeric ")
        case _:
            return column.type not in _OPEN
