"""What a query reads, in SQLite's own words: while it compiles a statement, SQLite asks leave for every column."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.sources.source import Params, Reads
from headwater.sources.sqlite_schema import table_names

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_CATALOGS = frozenset({"sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_sequence"})


class Asked:
    """The authorizer: it notes what is asked for, and denies what is more than reading."""

    def __init__(self) -> None:
        self.columns: dict[str, set[str]] = defaultdict(set)
        self.functions: set[str] = set()
        self.more: str | None = None

    def __call__(self, action: int, one: str | None, two: str | None, *rest: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            self.columns[one or ""].add(two or "")
        elif action == sqlite3.SQLITE_FUNCTION:
            self.functions.add((two or "").lower())
        elif action not in _ALLOWED:
            self.more = one or two or "something else than a query"
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


def reads_of(db: sqlite3.Connection, sql: str, params: Params) -> Reads:
    """Compiles the query and runs nothing of it. Views are seen through."""
    asked = Asked()
    names = _names(db, sql, params)
    db.set_authorizer(asked)
    try:
        db.execute(f"EXPLAIN {sql}", params)
    except sqlite3.Error as error:
        if asked.more is not None:
            raise SqlError(f"expected a query, found one that also wants {asked.more}", sql=sql) from None
        raise SqlError(str(error), sql=sql) from None
    finally:
        db.set_authorizer(None)
    if catalogs := _CATALOGS & asked.columns.keys():
        raise UnsupportedQuery(f"{', '.join(sorted(catalogs))} cannot be watched", sql=sql)
    tables = set(table_names(db))
    return Reads(
        names,
        {name: frozenset(columns) for name, columns in asked.columns.items() if name in tables},
        frozenset(asked.functions),
    )


def _names(db: sqlite3.Connection, sql: str, params: Params) -> tuple[str, ...]:
    try:
        cursor = db.execute(f"SELECT * FROM ({sql.rstrip().rstrip(';')}\n) LIMIT 0", params)
    except sqlite3.Error as error:
        raise SqlError(str(error), sql=sql) from None
    except sqlite3.Warning as error:
        raise SqlError(str(error), sql=sql, hint="subscribe to one query at a time") from None
    names = tuple(column[0] for column in cursor.description)
    for name in names:
        base, colon, number = name.rpartition(":")
        if colon and number.isdigit() and base in names:
            raise UnsupportedQuery(
                f"two columns are named {base}", sql=sql, hint="give one of them another name with AS"
            )
    return names
