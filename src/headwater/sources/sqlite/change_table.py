"""What we keep inside an SQLite database, beside the triggers that write it: our tables.

- `_headwater_log`: one row for each change of a captured table; `seq` is the position. `t` names the capture that wrote
  it, `op` is i, u or d; c: an update after what it led to by a cascade (see `cascades`); s: from here on
  capture `o0` is replaced by `t`; g: capture `t` is over, `n0` says why; v: views are others than before.
- `_headwater_tables`: a capture is one table in one shape. A column added makes a new capture.
- `_headwater_mixed`: columns that did not keep to their type, as told by log rows that are pruned by now.
- `_headwater_position`, `_headwater_replaced`: see `triggers`.

Functions on a connection inside a transaction of the caller's; nothing here begins or commits one.
"""

from __future__ import annotations

import sqlite3

from headwater.sources.sqlite.schema import OURS, SqliteTable, quoted
from headwater.sources.sqlite.triggers import LOG, NOTE_POSITION, POSITION, WATCHED, trigger_names, triggers

TABLES = "_headwater_tables"
MIXED = "_headwater_mixed"


def create(db: sqlite3.Connection, width: int) -> None:
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


def install(db: sqlite3.Connection, shape: SqliteTable, id: int) -> None:
    """Puts the triggers of a capture on its table, behind all others that are there."""
    uninstall(db, id)
    for sql in triggers(shape, id).values():
        db.execute(sql)


def uninstall(db: sqlite3.Connection, id: int) -> None:
    for name in trigger_names(id):
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    db.execute(f"DELETE FROM {WATCHED} WHERE t = ?", (id,))


def note_redefined(db: sqlite3.Connection) -> None:
    """Notes that views are others than before."""
    db.execute(f"INSERT INTO {LOG}(op) VALUES ('v')")
    db.execute(NOTE_POSITION)


def remove_all(db: sqlite3.Connection) -> list[str]:
    """Removes all that is ours, and says what."""
    like = OURS.replace("_", r"\_") + "%"
    rows = db.execute(
        r"SELECT type, name FROM sqlite_schema WHERE name LIKE ? ESCAPE '\' AND type IN ('table', 'trigger')", (like,)
    )
    ours = sorted(rows.fetchall(), reverse=True)
    for kind, name in ours:
        db.execute(f"DROP {kind.upper()} IF EXISTS {quoted(name)}")
    return [f"{kind} {name}" for kind, name in ours]
