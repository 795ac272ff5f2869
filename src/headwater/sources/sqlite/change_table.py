"""What we keep inside an SQLite database: our triggers, our tables, and how they follow the user's schema.

- `_headwater_log`: one row for each change of a captured table; `seq` is the position. `t` names the capture that wrote
  it, `op` is i, u or d; c: an update after what it led to by a cascade (see `sqlite_cascades`); s: from here on
  capture `o0` is replaced by `t`; g: capture `t` is over, `n0` says why; v: views are others than before.
- `_headwater_tables`: a capture is one table in one shape. A column added makes a new capture.
- `_headwater_mixed`: columns that did not keep to their type, as told by log rows that are pruned by now.
- `_headwater_position`, `_headwater_replaced`: see `sqlite_triggers`.

Functions on a connection inside a transaction of the caller's; nothing here begins or commits one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headwater.model.errors import SourceError
from headwater.model.schema import Column, Table
from headwater.model.value import Type, pack_any
from headwater.sources.sqlite.questions.position import installed as installed
from headwater.sources.sqlite.questions.position import position as position
from headwater.sources.sqlite.schema import (
    OURS,
    Field,
    Shape,
    Term,
    UniqueKey,
    declared_type,
    default_of,
    kind_of,
    quoted,
    read_shape,
)
from headwater.sources.sqlite.triggers import LOG, NOTE_POSITION, POSITION, WATCHED, trigger_names, triggers

TABLES = "_headwater_tables"
MIXED = "_headwater_mixed"
COLUMNS_MAX = 990  # an SQLite table has at most 2,000 columns and the log needs two for each
_SCHEMA_IDS = 1024  # of one capture: one more for each column that becomes mixed
_SCAN_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Capture:
    """One table in one shape. Log rows up to `since` are older than `types`; None while the types are being found."""

    id: int
    shape: Shape
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


# Reading


def captures(db: sqlite3.Connection) -> dict[int, Capture]:
    if not installed(db):
        return {}
    rows = db.execute(f"SELECT id, shape, types, since, over FROM {TABLES}")
    return {
        id: Capture(id, _shape(json.loads(shape)), tuple(map(Type, json.loads(types))), since, bool(over))
        for id, shape, types, since, over in rows
    }


def active(db: sqlite3.Connection, name: str) -> Capture | None:
    """The capture of a table that is not over."""
    found = (capture for capture in captures(db).values() if capture.shape.name == name and not capture.over)
    return next(found, None)


def _shape(raw: dict[str, Any]) -> Shape:
    fields = tuple(Field(**field) for field in raw.pop("fields"))
    unique = tuple(UniqueKey(tuple(Term(**term) for term in key["terms"]), key["where"]) for key in raw.pop("unique"))
    places = {name: tuple(raw[name]) for name in ("key", "refers_to_itself")}
    return Shape(**{**raw, **places, "fields": fields, "unique": unique})


def mixed_columns(db: sqlite3.Connection, capture: Capture, upto: int) -> frozenset[int]:
    """The places of the columns that held another type than the capture's in some log row up to `upto`."""
    known = {place for (place,) in db.execute(f"SELECT c FROM {MIXED} WHERE t = ?", (capture.id,))}
    return frozenset(known) | _misfits(db, capture, capture.since or 0, upto)


def _misfits(db: sqlite3.Connection, capture: Capture, after: int, upto: int) -> frozenset[int]:
    kinds = _logged_kinds(db, capture.id, len(capture.types), after, upto)
    return frozenset(
        place
        for place, (type, found) in enumerate(zip(capture.types, kinds, strict=True))
        if type is not Type.ANY and found - {type}
    )


def _logged_kinds(db: sqlite3.Connection, id: int, count: int, after: int, upto: int) -> list[set[Type]]:
    source = f"{LOG} WHERE t = {id} AND op IN ('i', 'u', 'c') AND seq > {after} AND seq <= {upto}"
    return _kinds(db, source, [f"n{place}" for place in range(count)])


def _kinds(db: sqlite3.Connection, source: str, values: Sequence[str]) -> list[set[Type]]:
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


# Capturing


def begin(db: sqlite3.Connection, name: str) -> Capture:
    """Creates what is missing and puts triggers on the table. Its types are still to be found, by `settle`."""
    shape = capturable(db, name)
    _create(db, len(shape.fields))
    types = tuple(declared_type(field) for field in shape.fields)
    capture = _insert(db, shape, types, None)
    _install(db, capture)
    return capture


def settle(db: sqlite3.Connection, capture: Capture) -> tuple[tuple[Type, ...], int]:
    """The types that hold for every value in the table and in the log so far. Reads only: it may take long."""
    upto = position(db)
    logged = _logged_kinds(db, capture.id, len(capture.types), 0, upto)
    stored = _stored_kinds(db, capture.shape, 0)
    fields = capture.shape.fields
    types = tuple(
        _chosen(field, capture.shape.strict, one | other)
        for field, one, other in zip(fields, logged, stored, strict=True)
    )
    return types, upto


def settled(db: sqlite3.Connection, capture: Capture, types: tuple[Type, ...], since: int) -> None:
    raw = json.dumps([type.value for type in types])
    db.execute(f"UPDATE {TABLES} SET types = ?, since = ? WHERE id = ?", (raw, since, capture.id))


def capturable(db: sqlite3.Connection, name: str) -> Shape:
    """The shape of a table, or an error that says why it cannot be captured."""
    found = kind_of(db, name)
    if found is None:
        raise SourceError(f"there is no table {name!r} in the database", hint="check the spelling of the name")
    name, kind = found
    if kind != "table" or name.startswith(("sqlite_", OURS)):
        what = kind if kind != "table" else "internal table"
        raise SourceError(
            f"{name!r} is a {what}: its changes cannot be captured", hint="query the tables it reads from"
        )
    shape = read_shape(db, name)
    if len(shape.fields) > COLUMNS_MAX:
        raise SourceError(f"table {name!r} has {len(shape.fields)} columns; at most {COLUMNS_MAX} can be captured")
    if shape.rowid is None and not shape.key:
        raise SourceError(f"columns of {name!r} hide its rowid and it has no key", hint="give it a primary key")
    _refuse_loose_references(shape)
    return shape


def rows_about(db: sqlite3.Connection, shape: Shape) -> int | None:
    """As many as there are rowids from the first to the last; where there are none, what ANALYZE has noted."""
    if shape.rowid is not None:
        span = f"SELECT (SELECT max({shape.rowid}) FROM {{0}}) - (SELECT min({shape.rowid}) FROM {{0}}) + 1"
        return int(db.execute(span.format(quoted(shape.name))).fetchone()[0] or 0)
    if kind_of(db, "sqlite_stat1") is None:
        return None
    noted = db.execute("SELECT max(CAST(stat AS INTEGER)) FROM sqlite_stat1 WHERE tbl = ?", (shape.name,)).fetchone()[0]
    return None if noted is None else int(noted)


def _refuse_loose_references(shape: Shape) -> None:
    """Foreign-key actions of a table on itself are put in order by what they refer to, which must tell rows apart."""
    for place in shape.refers_to_itself:
        field = shape.fields[place]
        if not field.not_null and place not in shape.key:
            raise SourceError(
                f"table {shape.name!r} refers to its own column {field.name!r}, which may hold NULL, "
                "by a foreign key with an action: its changes cannot be told in order",
                hint=f"declare {field.name} NOT NULL, or the foreign key without an action",
            )


def _chosen(field: Field, strict: bool, found: set[Type]) -> Type:
    """The one type of all values; the declared one where there are none."""
    declared = declared_type(field)
    if _is_held(field, strict) or not found:
        return declared
    return found.pop() if len(found) == 1 else Type.ANY


def _is_held(field: Field, strict: bool) -> bool:
    """SQLite itself holds the column to its type. What a generated column comes to, it does not check."""
    return strict and not field.generated


def _stored_kinds(db: sqlite3.Connection, shape: Shape, first: int) -> list[set[Type]]:
    fields = shape.fields[first:]
    loose = [quoted(field.name) for field in fields if not _is_held(field, shape.strict)]
    found = iter(_kinds(db, quoted(shape.name), loose))
    return [set() if _is_held(field, shape.strict) else next(found) for field in fields]


def _create(db: sqlite3.Connection, width: int) -> None:
    db.execute(f"CREATE TABLE IF NOT EXISTS {LOG}(seq INTEGER PRIMARY KEY, t INTEGER, op TEXT)")
    _create_position(db)
    db.execute(f"CREATE TABLE IF NOT EXISTS {WATCHED}(id INTEGER PRIMARY KEY, t INTEGER, k INTEGER, r INTEGER)")
    db.execute(f"CREATE TABLE IF NOT EXISTS {MIXED}(t INTEGER, c INTEGER, PRIMARY KEY (t, c)) WITHOUT ROWID")
    db.execute(
        f"CREATE TABLE IF NOT EXISTS {TABLES}"
        "(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, shape TEXT, types TEXT, since INTEGER, over INTEGER)"
    )
    for place in range(_width(db), width):
        db.execute(f"ALTER TABLE {LOG} ADD COLUMN o{place}")
        db.execute(f"ALTER TABLE {LOG} ADD COLUMN n{place}")
        db.execute(f"ALTER TABLE {WATCHED} ADD COLUMN o{place}")


def _create_position(db: sqlite3.Connection) -> None:
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (POSITION,)).fetchone():
        db.execute(f"CREATE TABLE {POSITION}(name TEXT, seq INTEGER)")
        db.execute(f"INSERT INTO {POSITION} VALUES (?, 0)", (POSITION,))


def _width(db: sqlite3.Connection) -> int:
    return (int(db.execute("SELECT count(*) FROM pragma_table_info(?)", (LOG,)).fetchone()[0]) - 3) // 2


def _insert(db: sqlite3.Connection, shape: Shape, types: tuple[Type, ...], since: int | None) -> Capture:
    values = (shape.name, json.dumps(asdict(shape)), json.dumps([type.value for type in types]), since)
    cursor = db.execute(f"INSERT INTO {TABLES}(name, shape, types, since, over) VALUES (?, ?, ?, ?, 0)", values)
    assert cursor.lastrowid is not None
    return Capture(cursor.lastrowid, shape, types, since, False)


def _install(db: sqlite3.Connection, capture: Capture) -> None:
    _uninstall(db, capture.id)
    for sql in triggers(capture.shape, capture.id).values():
        db.execute(sql)


def _uninstall(db: sqlite3.Connection, id: int) -> None:
    for name in trigger_names(id):
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    db.execute(f"DELETE FROM {WATCHED} WHERE t = ?", (id,))


# Following the schema


def outdated(db: sqlite3.Connection) -> list[Capture]:
    """The captures whose tables have changed in a way that asks for `follow`."""
    living = [capture for capture in captures(db).values() if not capture.over]
    return [capture for capture in living if not _up_to_date(db, capture)]


def follow(db: sqlite3.Connection, capture: Capture, verified: int) -> None:
    """Brings a capture up to date with its table, or ends it. Until `verified` it is known to have been."""
    shape = _present(db, capture)
    if isinstance(shape, str):
        end(db, capture, shape)
        return
    blind = set(shape.unique) - set(capture.shape.unique) or _shadowed(db, capture)
    if blind and _written(db, capture, verified):
        end(db, capture, f"a unique index or a trigger was added to {shape.name} while rows were being written")
    elif len(shape.fields) > len(capture.shape.fields):
        _extend(db, capture, shape)
    else:
        renewed = Capture(capture.id, shape, capture.types, capture.since, False)
        db.execute(f"UPDATE {TABLES} SET shape = ? WHERE id = ?", (json.dumps(asdict(shape)), capture.id))
        _install(db, renewed)


def views(db: sqlite3.Connection) -> dict[str, str]:
    """The definitions of all views, by name."""
    return dict(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'view'").fetchall())


def redefined(db: sqlite3.Connection) -> None:
    """Notes that views are others than before."""
    db.execute(f"INSERT INTO {LOG}(op) VALUES ('v')")
    db.execute(NOTE_POSITION)


def end(db: sqlite3.Connection, capture: Capture, reason: str) -> None:
    db.execute(f"UPDATE {TABLES} SET over = 1 WHERE id = ?", (capture.id,))
    db.execute(f"INSERT INTO {LOG}(t, op, n0) VALUES (?, 'g', ?)", (capture.id, reason))
    db.execute(NOTE_POSITION)
    _uninstall(db, capture.id)


def _up_to_date(db: sqlite3.Connection, capture: Capture) -> bool:
    return _present(db, capture) == capture.shape and not _shadowed(db, capture)


def _present(db: sqlite3.Connection, capture: Capture) -> Shape | str:
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
    return shape if shape.key == capture.shape.key else f"table {name} has another primary key"


def _trigger_tables(db: sqlite3.Connection, capture: Capture) -> list[str]:
    names = trigger_names(capture.id)
    marks = ", ".join("?" * len(names))
    rows = db.execute(f"SELECT tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name IN ({marks})", names)
    return [table for (table,) in rows]


def _shadowed(db: sqlite3.Connection, capture: Capture) -> bool:
    """Another trigger of the table is newer than ours and fires first."""
    rows = db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? ORDER BY rowid", (capture.shape.name,)
    )
    ours = [name in trigger_names(capture.id) for (name,) in rows]
    return sorted(ours) != ours


def _written(db: sqlite3.Connection, capture: Capture, verified: int) -> bool:
    sql = f"SELECT 1 FROM {LOG} WHERE t = ? AND seq > ? AND op IN ('i', 'u', 'c') LIMIT 1"
    return db.execute(sql, (capture.id, verified)).fetchone() is not None


def _extend(db: sqlite3.Connection, old: Capture, shape: Shape) -> None:
    """A new capture with the added columns. Rows older than the columns hold their defaults; for those that hold
    something else by now, because they were written before we noticed, an update is logged."""
    first = len(old.shape.fields)
    mixed = mixed_columns(db, old, position(db))
    kept = tuple(Type.ANY if place in mixed else type for place, type in enumerate(old.types))
    kinds = _stored_kinds(db, shape, first)
    added = tuple(_chosen(field, shape.strict, found) for field, found in zip(shape.fields[first:], kinds, strict=True))
    _create(db, len(shape.fields))
    db.execute(f"UPDATE {TABLES} SET over = 1 WHERE id = ?", (old.id,))
    _uninstall(db, old.id)
    new = _insert(db, shape, kept + added, position(db) + 1)
    _install(db, new)
    db.execute(f"INSERT INTO {LOG}(t, op, o0) VALUES (?, 's', ?)", (new.id, old.id))
    _log_added(db, new, first)
    db.execute(NOTE_POSITION)


def _log_added(db: sqlite3.Connection, capture: Capture, first: int) -> None:
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


# Leaving


def prune(db: sqlite3.Connection, upto: int, rows_max: int) -> int:
    """Removes the oldest rows of the log, all but the last one; how many. What they told about types is kept."""
    (first,) = db.execute(f"SELECT min(seq) FROM {LOG}").fetchone()
    last = min(upto, (first or 0) + rows_max - 1, position(db) - 1)
    if first is None or last < first:
        return 0
    for capture in captures(db).values():
        misfits = _misfits(db, capture, capture.since or 0, last) if capture.since is not None else frozenset()
        db.executemany(f"INSERT OR IGNORE INTO {MIXED} VALUES (?, ?)", [(capture.id, place) for place in misfits])
    return db.execute(f"DELETE FROM {LOG} WHERE seq <= ?", (last,)).rowcount


def detach(db: sqlite3.Connection) -> list[str]:
    """Removes all that is ours, and says what."""
    like = OURS.replace("_", r"\_") + "%"
    rows = db.execute(
        r"SELECT type, name FROM sqlite_schema WHERE name LIKE ? ESCAPE '\' AND type IN ('table', 'trigger')", (like,)
    )
    ours = sorted(rows.fetchall(), reverse=True)
    for kind, name in ours:
        db.execute(f"DROP {kind.upper()} IF EXISTS {quoted(name)}")
    return [f"{kind} {name}" for kind, name in ours]
