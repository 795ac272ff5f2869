"""What a query reads, in SQLite's own words: while it compiles a statement, SQLite asks leave for every column."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.sources.source import Params, Reads
from headwater.sources.sqlite_schema import table_names

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_PURE = frozenset({"json_each", "json_tree"})  # virtual tables made of their arguments alone
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
        program = db.execute(f"EXPLAIN {sql}", params).fetchall()
    except sqlite3.Error as error:
        if asked.more is not None:
            raise SqlError(f"expected a query, found one that also wants {asked.more}", sql=sql) from None
        raise SqlError(str(error), sql=sql) from None
    finally:
        db.set_authorizer(None)
    if catalogs := _CATALOGS & asked.columns.keys():
        raise UnsupportedQuery(f"{', '.join(sorted(catalogs))} cannot be watched", sql=sql)
    tables = set(table_names(db))
    _refuse_unwatchable(db, sql, asked, tables, any(step[1] == "VOpen" for step in program))
    return Reads(
        names,
        {name: frozenset(columns) for name, columns in asked.columns.items() if name in tables},
        frozenset(asked.functions),
        row_by_row=not asked.functions & _gathering(db) and not _names_view(db, sql),
    )


def _gathering(db: sqlite3.Connection) -> set[str]:
    """The aggregates and window functions; `max` and `min` may be both, and count as such."""
    return {name.lower() for (name,) in db.execute("SELECT name FROM pragma_function_list WHERE type <> 's'")}


def _names_view(db: sqlite3.Connection, sql: str) -> bool:
    """Whether any view's name stands in it, as whatever."""
    views = db.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall()
    return any(name.lower() in sql.lower() for (name,) in views)


def _refuse_unwatchable(db: sqlite3.Connection, sql: str, asked: Asked, tables: set[str], opens_virtual: bool) -> None:
    """A virtual table tells nobody of its changes; a rowid that is no column may be renumbered behind our back."""
    views = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")}
    virtual = sorted(asked.columns.keys() - tables - views - _PURE) if opens_virtual else []
    if virtual:
        raise UnsupportedQuery(f"{', '.join(virtual)} cannot be watched", sql=sql, hint="ask for the rows of tables")
    for table in sorted(tables & asked.columns.keys()):
        if "ROWID" in asked.columns[table]:
            raise UnsupportedQuery(
                f"the rowid of {table} is no column of it, and SQLite may renumber it",
                sql=sql,
                hint="declare an INTEGER PRIMARY KEY, or select the key",
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
