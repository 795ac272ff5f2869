"""What PostgreSQL knows of the values of a table: the statistics of its own planner. It never reads a table."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from headwater.model.value import Value
from headwater.plan.join_order.statistics import ColumnStatistics, TableStatistics
from headwater.sources.postgres.catalog.tables import PostgresTable, rows_about

_INTEGERS = frozenset({"int2", "int4", "int8"})
_TEXTS = frozenset({"text", "varchar"})
_SQL = """
SELECT DISTINCT ON (s.attname) s.attname::text, s.n_distinct, s.null_frac, t.typname::text,
    CASE WHEN t.typname = ANY (%s) THEN s.most_common_vals::text::text[] END, s.most_common_freqs
FROM pg_stats s
JOIN pg_attribute a ON a.attrelid = %s AND a.attname = s.attname
JOIN pg_type t ON t.oid = a.atttypid
WHERE s.schemaname = %s AND s.tablename = %s
ORDER BY s.attname, s.inherited DESC
"""


def table_statistics(db: Connection[Any], shape: PostgresTable) -> TableStatistics | None:
    """None where the table was never counted."""
    rows = rows_about(db, shape)
    if rows is None:
        return None
    listed = sorted(_INTEGERS | _TEXTS)
    found = db.execute(_SQL, (listed, shape.oid, shape.schema, shape.relation)).fetchall()
    columns = {name: _column(rows, *rest) for name, *rest in found}
    return TableStatistics(rows, columns)


def _column(
    rows: int, distinct: float, nulls: float, type: str, values: list[str] | None, shares: list[float] | None
) -> ColumnStatistics:
    """A negative number of different values is a share of the rows."""
    count = -distinct * rows if distinct < 0 else distinct
    common: dict[Value, float] = {}
    for text, share in zip(values or (), shares or (), strict=False):
        common[int(text) if type in _INTEGERS else text] = share
    return ColumnStatistics(max(count, len(common), 1.0), nulls, common)
