"""Where the log of changes inside an SQLite database stands. Functions on a connection inside a transaction.

Only the standard library is imported: the processes that run questions read positions too.
"""

from __future__ import annotations

import sqlite3

LOG = "_headwater_log"


def is_installed(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (LOG,)).fetchone() is not None


def log_position(db: sqlite3.Connection) -> int:
    """The last seq. The last row of the log is never pruned."""
    try:
        return int(db.execute(f"SELECT max(seq) FROM {LOG}").fetchone()[0] or 0)
    except sqlite3.OperationalError:
        if is_installed(db):
            raise
        return 0
