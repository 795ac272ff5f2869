"""How captures follow the schema of the user: a column added makes a new capture, and what cannot be followed ends it.

Functions on a connection inside a transaction of the caller's; nothing here begins or commits one.
"""

from __future__ import annotations

import sqlite3

from headwater.model.value import Type
from headwater.sources.sqlite.captures import TableCapture, end_capture, insert_capture, read_captures, replace_shape
from headwater.sources.sqlite.change_table import TABLES, create, install, uninstall
from headwater.sources.sqlite.column_types import chosen_type, mixed_columns, stored_types
from headwater.sources.sqlite.questions.log_position import log_position
from headwater.sources.sqlite.schema import SqliteTable, default_of, kind_of, quoted, read_shape
from headwater.sources.sqlite.triggers import LOG, NOTE_POSITION, trigger_names, triggers


def outdated_captures(db: sqlite3.Connection) -> list[TableCapture]:
    """The captures whose tables have changed in a way that asks for `follow_table`."""
    living = [capture for capture in read_captures(db).values() if not capture.over]
    return [capture for capture in living if not _up_to_date(db, capture)]


def follow_table(db: sqlite3.Connection, capture: TableCapture, verified: int) -> None:
    """Brings a capture up to date with its table, or ends it. Until `verified` it is known to have been."""
    shape = _present(db, capture)
    if isinstance(shape, str):
        end_capture(db, capture, shape)
        return
    blind = set(shape.unique) - set(capture.shape.unique) or _shadowed(db, capture)
    if blind and _written(db, capture, verified):
        end_capture(db, capture, f"a unique index or a trigger was added to {shape.name} while rows were being written")
    elif len(shape.fields) > len(capture.shape.fields):
        _extend(db, capture, shape)
    else:
        replace_shape(db, capture, shape)


def read_views(db: sqlite3.Connection) -> dict[str, str]:
    """The definitions of all views, by name."""
    return dict(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'view'").fetchall())


def _up_to_date(db: sqlite3.Connection, capture: TableCapture) -> bool:
    return _present(db, capture) == capture.shape and not _shadowed(db, capture)


def _present(db: sqlite3.Connection, capture: TableCapture) -> SqliteTable | str:
    """The table as it is now; or the reason why it is not the one that was captured."""
    name = capture.shape.name
    on = _trigger_tables(db, capture)
    if kind_of(db, name) != (name, "table"):
        moved = next((table for table in on if table != name), None)
        return f"table {name} was renamed to {moved}" if moved else f"table {name} was dropped"
    if len(on) != len(triggers(capture.shape, capture.id)) or set(on) != {name}:
        return f"table {name} was replaced by another one"
    shape = read_shape(db, name)
    before, after = capture.shape.fields, shape.fields[: len(capture.shape.fields)]
    if before != after:
        changed = next((old.name for old, new in zip(before, after, strict=False) if old != new), before[-1].name)
        return f"column {changed} of table {name} was renamed, dropped or given another type"
    return shape if shape.key == capture.shape.key else f"the primary key of table {name} was changed"


def _trigger_tables(db: sqlite3.Connection, capture: TableCapture) -> list[str]:
    names = trigger_names(capture.id)
    marks = ", ".join("?" * len(names))
    rows = db.execute(f"SELECT tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name IN ({marks})", names)
    return [table for (table,) in rows]


def _shadowed(db: sqlite3.Connection, capture: TableCapture) -> bool:
    """Another trigger of the table is newer than ours and fires first."""
    rows = db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? ORDER BY rowid", (capture.shape.name,)
    )
    ours = [name in trigger_names(capture.id) for (name,) in rows]
    return sorted(ours) != ours


def _written(db: sqlite3.Connection, capture: TableCapture, verified: int) -> bool:
    sql = f"SELECT 1 FROM {LOG} WHERE t = ? AND seq > ? AND op IN ('i', 'u', 'c') LIMIT 1"
    return db.execute(sql, (capture.id, verified)).fetchone() is not None


def _extend(db: sqlite3.Connection, old: TableCapture, shape: SqliteTable) -> None:
    """A new capture with the added columns. Rows older than the columns hold their defaults; for those that hold
    something else by now, because they were written before we noticed, an update is logged."""
    first = len(old.shape.fields)
    mixed = mixed_columns(db, old, log_position(db))
    kept = tuple(Type.ANY if place in mixed else type for place, type in enumerate(old.types))
    kinds = stored_types(db, shape, first)
    added = tuple(
        chosen_type(field, shape.strict, found) for field, found in zip(shape.fields[first:], kinds, strict=True)
    )
    create(db, len(shape.fields))
    db.execute(f"UPDATE {TABLES} SET over = 1 WHERE id = ?", (old.id,))
    uninstall(db, old.id)
    new = insert_capture(db, shape, kept + added, log_position(db) + 1)
    install(db, shape, new.id)
    db.execute(f"INSERT INTO {LOG}(t, op, o0) VALUES (?, 's', ?)", (new.id, old.id))
    _log_added(db, new, first)
    db.execute(NOTE_POSITION)


def _log_added(db: sqlite3.Connection, capture: TableCapture, first: int) -> None:
    fields = capture.shape.fields
    defaults = [default_of(field) for field in fields[first:]]
    names = [quoted(field.name) for field in fields]
    marks = [f"?{place + 1}" for place in range(len(defaults))]
    places = (
        ", ".join(f"o{place}" for place in range(len(fields)))
        + ", "
        + ", ".join(f"n{place}" for place in range(len(fields)))
    )
    differs = " OR ".join(f"{name} IS NOT {mark}" for name, mark in zip(names[first:], marks, strict=True))
    values = ", ".join(names[:first] + marks + names)
    db.execute(
        f"INSERT INTO {LOG}(t, op, {places}) SELECT {capture.id}, 'u', {values} "
        f"FROM {quoted(capture.shape.name)} WHERE {differs}",
        defaults,
    )
