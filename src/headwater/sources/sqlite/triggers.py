"""The SQL of the triggers that write a table's changes into `_headwater_log`. Text only; nothing is executed here.

AFTER triggers log what happened. What they cannot see is REPLACE: it removes the rows in the way of a new one and fires
no delete trigger for them (or does, where the writer has `recursive_triggers` on). So BEFORE triggers put every row
that the new one might conflict with under watch, in `_headwater_replaced`; and whenever one of our triggers runs and a
watched row is not there any more, that row was replaced, and its deletion is logged. Nothing follows from being under
watch alone: INSERT OR IGNORE, UPSERT and failed statements leave watched rows behind that are simply still there.

Watched rows are known by their values, for VACUUM changes rowids. Only the rows that were put under watch last have
their rowid beside them, to be told from a row that has come to look the same. Not seen: rows replaced by giving an
explicit rowid to a table that has no INTEGER PRIMARY KEY.

The last seq is kept in `_headwater_position`, whose only page is in every commit that logs something: so the WAL tells
where transactions end. (`sqlite_sequence` would not do: it falls behind when INSERT OR FAIL fails.)

SQLite fires the newest trigger first. Ours must be the newest of a table, so that they log an insert before another
AFTER trigger goes on to update the row.
"""

from __future__ import annotations

from headwater.sources.sqlite.questions.log_position import LOG as LOG
from headwater.sources.sqlite.schema import KeyTerm, SqliteColumn, SqliteTable, UniqueKey, quoted

WATCHED = "_headwater_replaced"
POSITION = "_headwater_position"
WATCHED_MAX = 16  # the newest stay; a statement watches one row for each unique key, and only triggers nest statements

NOTE_POSITION = (
    f"UPDATE {POSITION} SET seq = (SELECT max(seq) FROM {LOG}) WHERE seq IS NOT (SELECT max(seq) FROM {LOG})"
)
_EVENTS = {
    "bi": "BEFORE INSERT",
    "bu": "BEFORE UPDATE",
    "bd": "BEFORE DELETE",
    "ai": "AFTER INSERT",
    "au": "AFTER UPDATE",
    "ad": "AFTER DELETE",
}


def trigger_names(capture: int) -> tuple[str, ...]:
    return tuple(f"_headwater_{capture}_{kind}" for kind in _EVENTS)


def triggers(shape: SqliteTable, capture: int) -> dict[str, str]:
    """The CREATE TRIGGER statements by name. A table without unique keys needs no BEFORE triggers."""
    bodies = _bodies_with_keys(shape, capture) if shape.unique else _bodies(shape, capture)
    return {name: _trigger(shape, name, *bodies[kind]) for kind, name in _named(capture) if kind in bodies}


def _named(capture: int) -> list[tuple[str, str]]:
    return list(zip(_EVENTS, trigger_names(capture), strict=True))


def _trigger(shape: SqliteTable, name: str, *statements: str) -> str:
    event = _EVENTS[name[-2:]]
    when = _key_changes(shape) if name.endswith("bu") else ""
    statements = statements if name.endswith("bd") else (*statements, NOTE_POSITION)
    return (
        f"CREATE TRIGGER {name} {event} ON {quoted(shape.name)} {when}BEGIN\n  " + ";\n  ".join(statements) + ";\nEND"
    )


def _bodies(shape: SqliteTable, capture: int) -> dict[str, list[str]]:
    return {"ai": [_inserted(shape, capture)], "au": [_updated(shape, capture)], "ad": [_deleted(shape, capture)]}


def _bodies_with_keys(shape: SqliteTable, capture: int) -> dict[str, list[str]]:
    """Where a row is updated or deleted in the open, its watch is suspended (`k` is negative) or ended before: foreign
    keys of the table to itself run our triggers while the row is gone but its own AFTER trigger is still to come.
    """
    old, new = _watched_as(shape, capture, "OLD"), _watched_as(shape, capture, "NEW")
    gone, gone_beside_new = _gone(shape, ""), _gone(shape, "NEW")
    suspend = [f"DELETE FROM {WATCHED} WHERE {old} AND k < 0", f"UPDATE {WATCHED} SET k = -1 - k WHERE {old}"]
    twin = " AND ".join(f"w.o{place} IS OLD.{quoted(name)}" for place, name in enumerate(shape.names))
    awake = f"EXISTS (SELECT 1 FROM {WATCHED} AS w WHERE w.t = {capture} AND w.k >= 0 AND {twin})"
    resume = [
        f"DELETE FROM {WATCHED} WHERE {old} AND k < 0 AND {awake}",  # left behind by an update that was ignored
        f"UPDATE {WATCHED} SET {_images(shape)}, k = CASE WHEN k < 0 THEN -1 - k ELSE k END WHERE {old}",
        f"DELETE FROM {WATCHED} WHERE {new} AND ({gone} OR {_cascaded(shape)})",  # not found by this key any more
    ]
    replaced_beside_both = _log_replaced(shape, capture, f"NOT ({old}) AND {gone_beside_new}")
    return {
        "bi": [*_log_replaced(shape, capture, gone), *_watch(shape, capture, "")],
        "bu": [*_log_replaced(shape, capture, gone), *suspend, *_watch(shape, capture, "OLD")],
        "bd": [f"DELETE FROM {WATCHED} WHERE {old}"],
        "ai": [*_log_replaced(shape, capture, gone_beside_new), _inserted(shape, capture)],
        "au": [*replaced_beside_both, *resume, _updated(shape, capture)],
        "ad": [*_log_replaced(shape, capture, gone), _deleted(shape, capture)],
    }


# What is logged


def _inserted(shape: SqliteTable, capture: int) -> str:
    return f"INSERT INTO {LOG}(t, op, {_places(shape, 'n')}) VALUES ({capture}, 'i', {_values(shape, 'NEW')})"


def _deleted(shape: SqliteTable, capture: int) -> str:
    return f"INSERT INTO {LOG}(t, op, {_places(shape, 'o')}) VALUES ({capture}, 'd', {_values(shape, 'OLD')})"


def _updated(shape: SqliteTable, capture: int) -> str:
    op = f"CASE WHEN {_cascaded(shape)} THEN 'c' ELSE 'u' END" if shape.refers_to_itself else "'u'"
    return (
        f"INSERT INTO {LOG}(t, op, {_places(shape, 'o')}, {_places(shape, 'n')}) "
        f"VALUES ({capture}, {op}, {_values(shape, 'OLD')}, {_values(shape, 'NEW')})"
    )


def _log_replaced(shape: SqliteTable, capture: int, gone: str) -> list[str]:
    where = f"{WATCHED}.t = {capture} AND {gone}"
    places = _places(shape, "o")
    return [
        f"INSERT INTO {LOG}(t, op, {places}) SELECT {capture}, 'd', {places} FROM {WATCHED} WHERE {where} ORDER BY id",
        f"DELETE FROM {WATCHED} WHERE {where}",
    ]


# Who is watched


def _watch(shape: SqliteTable, capture: int, updated: str) -> list[str]:
    """Every row that has a unique key of NEW, but for the one being updated. A row is watched once, from now on."""
    statements = [_watch_key(shape, capture, number, updated) for number in range(len(shape.unique))]
    same = " AND ".join(f"w.o{place} IS {WATCHED}.o{place}" for place in range(len(shape.fields)))
    newer = f"SELECT 1 FROM {WATCHED} AS w WHERE w.id > {WATCHED}.id AND w.t = {capture} AND w.k >= 0 AND {same}"
    oldest = f"(SELECT max(id) FROM {WATCHED}) - {WATCHED_MAX}"
    return [
        f"UPDATE {WATCHED} SET r = NULL WHERE t = {capture} AND r IS NOT NULL",
        *statements,
        f"DELETE FROM {WATCHED} WHERE {WATCHED}.t = {capture} AND {WATCHED}.k >= 0 AND EXISTS ({newer})",
        f"DELETE FROM {WATCHED} WHERE id <= {oldest}",
    ]


def _watch_key(shape: SqliteTable, capture: int, number: int, updated: str) -> str:
    other = f" AND NOT ({_is_row(shape, updated)})" if updated else ""
    return (
        f"INSERT INTO {WATCHED}(t, k, r, {_places(shape, 'o')}) "
        f"SELECT {capture}, {number}, {f'r.{shape.rowid}' if shape.rowid else 'NULL'}, {_values(shape, 'r')} "
        f"FROM {quoted(shape.name)} AS r WHERE {_conflict(shape, shape.unique[number], 'NEW')}{other}"
    )


def _gone(shape: SqliteTable, beside: str) -> str:
    """No row has the watched row's key any more; or only the row `beside` has, which took its place."""
    cases = " ".join(f"WHEN {number} THEN {_missing(shape, key, beside)}" for number, key in enumerate(shape.unique))
    return f"CASE {WATCHED}.k {cases} END"


def _missing(shape: SqliteTable, key: UniqueKey, beside: str) -> str:
    other = f" AND NOT ({_is_row(shape, beside)})" if beside else ""
    return f"NOT EXISTS (SELECT 1 FROM {quoted(shape.name)} AS r WHERE {_conflict(shape, key, WATCHED)}{other})"


# Comparing rows. `r` is a row of the table.


def _conflict(shape: SqliteTable, key: UniqueKey, record: str) -> str:
    """The row `r` and the record have the same unique key."""
    terms = [f"{_term(term)} COLLATE {quoted(term.collation)} = {_of(shape, term, record)}" for term in key.terms]
    return " AND ".join(terms + ([f"({key.where})"] if key.where else []))


def _term(term: KeyTerm) -> str:
    return f"({term.sql})" if term.column is None else f"r.{term.sql}"


def _of(shape: SqliteTable, term: KeyTerm, record: str) -> str:
    """The record's value of the term. Bare names in an expression find the record, for it is all there is in scope."""
    if term.column is not None:
        return _value(shape, term.column, record)
    names = ", ".join(f"{_value(shape, place, record)} AS {quoted(name)}" for place, name in enumerate(shape.names))
    return f"(SELECT {term.sql} FROM (SELECT {names}))"


def _value(shape: SqliteTable, place: int, record: str) -> str:
    field = shape.fields[place]
    if record == WATCHED:
        return f"{WATCHED}.o{place}"
    return _or_default(field) if record == "NEW" else f"{record}.{quoted(field.name)}"


def _or_default(field: SqliteColumn) -> str:
    """REPLACE puts the default where NOT NULL finds a NULL, but only after the BEFORE triggers."""
    new = f"NEW.{quoted(field.name)}"
    return f"ifnull({new}, {field.default})" if field.not_null and field.default is not None else new


def _is_row(shape: SqliteTable, record: str) -> str:
    """`r` is the very row of the record."""
    if shape.rowid is not None:
        return f"r.{shape.rowid} = {record}.{shape.rowid}"
    names = [quoted(shape.names[place]) for place in shape.key]
    return " AND ".join(f"r.{name} COLLATE BINARY IS {record}.{name}" for name in names)


def _cascaded(shape: SqliteTable) -> str:
    """The row has been updated by its own cascade, and NEW is older than that."""
    if not shape.refers_to_itself:
        return "0"
    same = " AND ".join(f"r.{quoted(name)} COLLATE BINARY IS NEW.{quoted(name)}" for name in shape.names)
    return f"NOT EXISTS (SELECT 1 FROM {quoted(shape.name)} AS r WHERE {_is_row(shape, 'NEW')} AND {same})"


def _watched_as(shape: SqliteTable, capture: int, record: str) -> str:
    values = [f"{WATCHED}.o{place} IS {record}.{quoted(name)}" for place, name in enumerate(shape.names)]
    rowid = [f"({WATCHED}.r IS NULL OR {WATCHED}.r = {record}.{shape.rowid})"] if shape.rowid else []
    return " AND ".join([f"{WATCHED}.t = {capture}", *rowid, *values])


def _key_changes(shape: SqliteTable) -> str:
    """An update that leaves all unique keys as they are conflicts with nothing."""
    if any(key.where or any(term.column is None for term in key.terms) for key in shape.unique):
        return ""
    columns = sorted({term.sql for key in shape.unique for term in key.terms})
    return f"WHEN NOT ({' AND '.join(f'OLD.{name} COLLATE BINARY IS NEW.{name}' for name in columns)}) "


def _places(shape: SqliteTable, prefix: str) -> str:
    return ", ".join(f"{prefix}{place}" for place in range(len(shape.fields)))


def _values(shape: SqliteTable, record: str) -> str:
    return ", ".join(f"{record}.{quoted(name)}" for name in shape.names)


def _images(shape: SqliteTable) -> str:
    rowid = [f"r = CASE WHEN r IS NULL THEN NULL ELSE NEW.{shape.rowid} END"] if shape.rowid else []
    return ", ".join(rowid + [f"o{place} = NEW.{quoted(name)}" for place, name in enumerate(shape.names)])
