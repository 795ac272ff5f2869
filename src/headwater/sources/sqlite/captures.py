"""Captures: each is one table in one shape, whose changes our triggers log. They are kept in `_headwater_tables`.

Functions on a connection inside a transaction of the caller's; nothing here begins or commits one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from headwater.model.schema import Column, Table
from headwater.model.value import Type, pack_any
from headwater.sources.sqlite.change_table import TABLES, create, install, uninstall
from headwater.sources.sqlite.questions.log_position import is_installed
from headwater.sources.sqlite.schema import (
    KeyTerm,
    SqliteColumn,
    SqliteTable,
    UniqueKey,
    capturable,
    declared_type,
    default_of,
)
from headwater.sources.sqlite.triggers import LOG, NOTE_POSITION

_CAPTURES = f"SELECT id, shape, types, since, over FROM {TABLES}"
_SCHEMA_IDS = 1024  # of one capture: one more for each column that becomes mixed


@dataclass(frozen=True, slots=True)
class TableCapture:
    """One table in one shape. Log rows up to `since` are older than `types`; None while the types are being found."""

    id: int
    shape: SqliteTable
    types: tuple[Type, ...]
    since: int | None
    over: bool

    def table(self, mixed: frozenset[int] = frozenset()) -> Table:
        columns = tuple(
            Column(
                field.name,
                Type.ANY if place in mixed else self.types[place],
                field.declared,
                field.collation,
                not field.not_null,
                pack_any(default_of(field)),
            )
            for place, field in enumerate(self.shape.fields)
        )
        key = tuple(self.shape.names[place] for place in self.shape.key)
        return Table(self.shape.name, columns, key, self.id * _SCHEMA_IDS + len(mixed))


def declared_table(shape: SqliteTable) -> Table:
    """A table that is not captured yet, with the types of its declarations."""
    columns = tuple(
        Column(
            one.name,
            declared_type(one),
            one.declared,
            one.collation,
            not one.not_null,
            pack_any(default_of(one)),
        )
        for one in shape.fields
    )
    return Table(shape.name, columns, tuple(shape.names[place] for place in shape.key))


def read_captures(db: sqlite3.Connection) -> dict[int, TableCapture]:
    return {} if not is_installed(db) else _read(db.execute(_CAPTURES))


def _read(rows: Iterable[tuple[Any, ...]]) -> dict[int, TableCapture]:
    return {
        id: TableCapture(id, _shape(json.loads(shape)), tuple(map(Type, json.loads(types))), since, bool(over))
        for id, shape, types, since, over in rows
    }


def active_capture(db: sqlite3.Connection, name: str) -> TableCapture | None:
    """The capture of a table that is not over."""
    if not is_installed(db):
        return None
    return next(iter(_read(db.execute(f"{_CAPTURES} WHERE name = ? AND NOT over", (name,))).values()), None)


def _shape(raw: dict[str, Any]) -> SqliteTable:
    fields = tuple(SqliteColumn(**field) for field in raw.pop("fields"))
    unique = tuple(
        UniqueKey(tuple(KeyTerm(**term) for term in key["terms"]), key["where"]) for key in raw.pop("unique")
    )
    places = {name: tuple(raw[name]) for name in ("key", "refers_to_itself")}
    return SqliteTable(**{**raw, **places, "fields": fields, "unique": unique})


def begin_capture(db: sqlite3.Connection, name: str) -> TableCapture:
    """Creates what is missing and puts triggers on the table. Its types are still to be found, by `column_types`."""
    shape = capturable(db, name)
    create(db, len(shape.fields))
    types = tuple(declared_type(field) for field in shape.fields)
    capture = insert_capture(db, shape, types, None)
    install(db, shape, capture.id)
    return capture


def insert_capture(
    db: sqlite3.Connection, shape: SqliteTable, types: tuple[Type, ...], since: int | None
) -> TableCapture:
    values = (shape.name, json.dumps(asdict(shape)), json.dumps([type.value for type in types]), since)
    cursor = db.execute(f"INSERT INTO {TABLES}(name, shape, types, since, over) VALUES (?, ?, ?, ?, 0)", values)
    assert cursor.lastrowid is not None
    return TableCapture(cursor.lastrowid, shape, types, since, False)


def replace_shape(db: sqlite3.Connection, capture: TableCapture, shape: SqliteTable) -> None:
    """The table has other keys, indexes or triggers, and the same columns."""
    db.execute(f"UPDATE {TABLES} SET shape = ? WHERE id = ?", (json.dumps(asdict(shape)), capture.id))
    install(db, shape, capture.id)


def replace_types(db: sqlite3.Connection, capture: TableCapture, types: tuple[Type, ...], since: int) -> None:
    raw = json.dumps([type.value for type in types])
    db.execute(f"UPDATE {TABLES} SET types = ?, since = ? WHERE id = ?", (raw, since, capture.id))


def end_capture(db: sqlite3.Connection, capture: TableCapture, reason: str) -> None:
    """Its table cannot be followed any more; the log says why."""
    db.execute(f"UPDATE {TABLES} SET over = 1 WHERE id = ?", (capture.id,))
    db.execute(f"INSERT INTO {LOG}(t, op, n0) VALUES (?, 'g', ?)", (capture.id, reason))
    db.execute(NOTE_POSITION)
    uninstall(db, capture.id)
