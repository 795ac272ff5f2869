"""What SQLite knows of the values of a table: the counts of ANALYZE, where it was ever run. It never reads a table.

ANALYZE notes for each index the rows of the table and, for its first columns, how many rows have the same values.
"""

from __future__ import annotations

import sqlite3

from headwater.plan.join_order.statistics import ColumnStatistics, TableStatistics
from headwater.sources.sqlite.schema import SqliteTable, estimate_rows, kind_of, quoted


def table_statistics(db: sqlite3.Connection, shape: SqliteTable) -> TableStatistics | None:
    """None where not even the rows can be estimated."""
    noted = _noted(db, shape.name)
    rows = max((count for _, count, _ in noted), default=0) or estimate_rows(db, shape)
    if rows is None:
        return None
    columns = {
        column: ColumnStatistics(max(count / each, 1.0))
        for index, count, each in noted
        if (column := _first_column(db, index)) is not None
    }
    alone = {column: ColumnStatistics(max(float(rows), 1.0)) for column in _unique_columns(shape)}
    return TableStatistics(rows, {**columns, **alone})


def _unique_columns(shape: SqliteTable) -> list[str]:
    """Those of which no two rows have the same value."""
    alone = (key.terms[0].column for key in shape.unique if len(key.terms) == 1 and key.where is None)
    return [shape.names[place] for place in alone if place is not None]


def _noted(db: sqlite3.Connection, table: str) -> list[tuple[str, int, int]]:
    """Of each index: its name, the rows of the table, and how many of them have one value of its first column."""
    if kind_of(db, "sqlite_stat1") is None:
        return []
    found = db.execute("SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ? AND idx IS NOT NULL", (table,)).fetchall()
    counts = [(str(index), str(stat).split()) for index, stat in found]
    return [
        (index, int(words[0]), max(int(words[1]), 1))
        for index, words in counts
        if len(words) > 1 and words[0].isdigit() and words[1].isdigit()
    ]


def _first_column(db: sqlite3.Connection, index: str) -> str | None:
    """None where the index is gone, or begins with an expression."""
    row = db.execute(f"PRAGMA index_info({quoted(index)})").fetchone()
    return None if row is None or row[2] is None else str(row[2])
