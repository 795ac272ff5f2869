"""The types of columns, by what they hold: SQLite lets any value be in any column, but in STRICT tables.

Functions on a connection inside a transaction of the caller's; nothing here begins or commits one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from headwater.model.value import Type
from headwater.sources.sqlite.captures import TableCapture, read_captures
from headwater.sources.sqlite.change_table import MIXED
from headwater.sources.sqlite.questions.log_position import log_position
from headwater.sources.sqlite.schema import SqliteColumn, SqliteTable, declared_type, estimate_rows, quoted
from headwater.sources.sqlite.triggers import LOG

_SCAN_COLUMNS = 100
SETTLED_ROWS_MAX = 1000  # of a table whose types are found while writers wait


def find_types(db: sqlite3.Connection, capture: TableCapture) -> tuple[tuple[Type, ...], int]:
    """The types that hold for every value in the table and in the log so far. Reads only: it may take long."""
    upto = log_position(db)
    logged = _logged_types(db, capture.id, len(capture.types), 0, upto)
    stored = stored_types(db, capture.shape, 0)
    fields = capture.shape.fields
    types = tuple(
        chosen_type(field, capture.shape.strict, one | other)
        for field, one, other in zip(fields, logged, stored, strict=True)
    )
    return types, upto


def has_few_rows(db: sqlite3.Connection, shape: SqliteTable) -> bool:
    """Whether its types are found so soon that writers may wait meanwhile."""
    rows = estimate_rows(db, shape)
    return rows is not None and rows <= SETTLED_ROWS_MAX


def mixed_columns(db: sqlite3.Connection, capture: TableCapture, upto: int) -> frozenset[int]:
    """The places of the columns that held another type than the capture's in some log row up to `upto`."""
    known = {place for (place,) in db.execute(f"SELECT c FROM {MIXED} WHERE t = ?", (capture.id,))}
    return frozenset(known) | _misfits(db, capture, capture.since or 0, upto)


def _misfits(db: sqlite3.Connection, capture: TableCapture, after: int, upto: int) -> frozenset[int]:
    kinds = _logged_types(db, capture.id, len(capture.types), after, upto)
    return frozenset(
        place
        for place, (type, found) in enumerate(zip(capture.types, kinds, strict=True))
        if type is not Type.ANY and found - {type}
    )


def _logged_types(db: sqlite3.Connection, id: int, count: int, after: int, upto: int) -> list[set[Type]]:
    source = f"{LOG} WHERE t = {id} AND op IN ('i', 'u', 'c') AND seq > {after} AND seq <= {upto}"
    return _types_in(db, source, [f"n{place}" for place in range(count)])


def stored_types(db: sqlite3.Connection, shape: SqliteTable, first: int) -> list[set[Type]]:
    """The types that the values of the table's columns have, from the column `first` on."""
    fields = shape.fields[first:]
    loose = [quoted(field.name) for field in fields if not _is_held(field, shape.strict)]
    found = iter(_types_in(db, quoted(shape.name), loose))
    return [set() if _is_held(field, shape.strict) else next(found) for field in fields]


def _types_in(db: sqlite3.Connection, source: str, values: Sequence[str]) -> list[set[Type]]:
    """The types that each value has in the rows of a source."""
    kinds = [Type.INTEGER, Type.REAL, Type.TEXT, Type.BLOB]
    found: list[set[Type]] = []
    for start in range(0, len(values), _SCAN_COLUMNS):
        part = values[start : start + _SCAN_COLUMNS]
        tests = ", ".join(f"max(typeof({value}) = '{kind.value}')" for value in part for kind in kinds)
        flags = db.execute(f"SELECT {tests} FROM {source}").fetchone()
        found += [
            {kind for kind, flag in zip(kinds, flags[at : at + 4], strict=True) if flag}
            for at in range(0, len(flags), 4)
        ]
    return found


def chosen_type(field: SqliteColumn, strict: bool, found: set[Type]) -> Type:
    """The one type of all values; the declared one where there are none."""
    declared = declared_type(field)
    if _is_held(field, strict) or not found:
        return declared
    return found.pop() if len(found) == 1 else Type.ANY


def _is_held(field: SqliteColumn, strict: bool) -> bool:
    """SQLite itself holds the column to its type. What a generated column comes to, it does not check."""
    return strict and not field.generated


def prune(db: sqlite3.Connection, upto: int, rows_max: int) -> int:
    """Removes the oldest rows of the log, all but the last one; how many. What they told about types is kept."""
    (first,) = db.execute(f"SELECT min(seq) FROM {LOG}").fetchone()
    last = min(upto, (first or 0) + rows_max - 1, log_position(db) - 1)
    if first is None or last < first:
        return 0
    for capture in read_captures(db).values():
        misfits = _misfits(db, capture, capture.since or 0, last) if capture.since is not None else frozenset()
        db.executemany(f"INSERT OR IGNORE INTO {MIXED} VALUES (?, ?)", [(capture.id, place) for place in misfits])
    return db.execute(f"DELETE FROM {LOG} WHERE seq <= ?", (last,)).rowcount
