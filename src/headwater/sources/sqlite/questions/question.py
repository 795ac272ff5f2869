"""Questions to SQLite: SQL that we did not write, compiled and run under the guard. Functions on a connection.

Only the standard library and our errors are imported: the processes that run questions start with this.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headwater.model.errors import HeadwaterError, LimitExceeded, SourceError, SqlError, UnsupportedQuery
from headwater.sources.sqlite.questions.authorizer import CATALOGS, Relations, guarded

Given = Sequence[Any] | Mapping[str, Any]
Described = tuple[tuple[str, ...], dict[str, list[str]], list[str], bool, bool]
"""Names, columns read, functions, whether none of them gathers rows, whether a view is named."""
_VIEWS = "SELECT name, sql FROM sqlite_schema WHERE type = 'view'"
_TABLE_COLUMNS = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 1"
_BY_NAME = re.compile(r"\b(using|natural)\b")
_ROWID = "ROWID"  # that is no column: rows that come or go count anyway
ROWS_MAX = 1024  # handed on at a time
_ENVIRONMENT = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_SCHEMA,
}


def answer(
    db: sqlite3.Connection, relations: Relations, sql: str, params: Given
) -> Iterator[tuple[str, ...] | list[tuple[Any, ...]]]:
    """First the names of the columns, then the rows in batches."""
    with speaking(sql), guarded(db, relations):
        cursor = db.execute(sql, params)
        if cursor.description is None:
            raise SqlError("expected a query, found a statement that returns no rows", sql=sql)
        yield tuple(column[0] for column in cursor.description)
        while rows := cursor.fetchmany(ROWS_MAX):
            yield rows


def compile_only(db: sqlite3.Connection, relations: Relations, sql: str) -> None:
    with speaking(sql), guarded(db, relations):
        db.execute(f"EXPLAIN {sql}", [None] * _parameters(db, sql))


def describe(db: sqlite3.Connection, relations: Relations, sql: str, params: Given) -> Described:
    """What the query reads, views seen through. It is compiled, and nothing of it is run."""
    with speaking(sql), guarded(db, relations) as asked:
        names = _names(db, sql, params)
        asked.columns.clear()
        db.execute(f"EXPLAIN {sql}", params)
    for table, read in _joined_by_name(db, relations, sql):
        asked.columns[table].update(read)
    _refuse_unwatchable(relations, sql, asked.columns)
    tables = relations.of_kind("table")
    columns = {name: sorted(columns - {_ROWID} or {""}) for name, columns in asked.columns.items() if name in tables}
    gathers = bool(asked.functions & _gathering(db))
    return names, columns, sorted(asked.functions), not gathers, _names_view(relations, sql)


def _gathering(db: sqlite3.Connection) -> set[str]:
    """The aggregates and window functions; `max` and `min` may be both, and count as such."""
    return {name.lower() for (name,) in db.execute("SELECT name FROM pragma_function_list WHERE type <> 's'")}


def _names_view(relations: Relations, sql: str) -> bool:
    """Whether any view's name stands in it, as whatever."""
    return any(name.lower() in sql.lower() for name in relations.of_kind("view"))


def _joined_by_name(db: sqlite3.Connection, relations: Relations, sql: str) -> Iterator[tuple[str, list[str]]]:
    """SQLite asks no leave for the columns that USING and NATURAL compare, nor for a table of which nothing else is
    read. Where one of these words stands in the query or in a view of it: every table named there, with all columns."""
    texts, views = [sql.lower()], {name.lower(): text for name, text in db.execute(_VIEWS)}
    while named := [name for name in views if any(_says(name, text) for text in texts)]:
        texts += [views.pop(name).lower() for name in named]
    if any(_BY_NAME.search(text) for text in texts):
        for table in relations.of_kind("table"):
            if any(_says(table.lower(), text) for text in texts):
                yield table, [name for (name,) in db.execute(_TABLE_COLUMNS, (table,))]


def _says(name: str, text: str) -> bool:
    """Whether a name stands in a text as a word, quoted or not."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.replace('""', '"')) is not None


def _refuse_unwatchable(relations: Relations, sql: str, columns: Mapping[str, set[str]]) -> None:
    """A virtual table tells nobody of its changes."""
    unwatched = sorted(columns.keys() & (relations.of_kind("virtual", "shadow") | CATALOGS))
    if unwatched:
        raise UnsupportedQuery(f"{', '.join(unwatched)} cannot be watched", sql=sql, hint="query tables instead")


def _names(db: sqlite3.Connection, sql: str, params: Given) -> tuple[str, ...]:
    """SQLite tells them of a statement that runs. The outer LIMIT ends it at once, and the inner one keeps the query
    from becoming a part of the outer one, whose subqueries would be run before."""
    cursor = db.execute(f"SELECT * FROM (SELECT * FROM ({sql.rstrip().rstrip(';')}\n) LIMIT 1) LIMIT 0", params)
    names = tuple(column[0] for column in cursor.description)
    for name in names:
        base, colon, number = name.rpartition(":")
        if colon and number.isdigit() and base in names:
            raise UnsupportedQuery(
                f"two columns are named {base}", sql=sql, hint="give one of them another name with AS"
            )
    return names


def source_error(error: sqlite3.Error, what: str) -> SourceError:
    """SQLite's words, and what to do about them."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    hints = {
        sqlite3.SQLITE_BUSY: "another connection holds a write transaction open for too long; let it commit",
        sqlite3.SQLITE_READONLY: "make the file and its directory writable for this process",
        sqlite3.SQLITE_CANTOPEN: "check that the path exists and may be opened by this process",
        sqlite3.SQLITE_NOTADB: "give the path of an SQLite database",
        sqlite3.SQLITE_CORRUPT: "check the file with PRAGMA integrity_check",
    }
    return SourceError(f"{what}: {error}", hint=hints.get(code))


@contextmanager
def speaking(sql: str) -> Iterator[None]:
    """Errors of the user's statement in the database's words."""
    try:
        yield
    except HeadwaterError:
        raise
    except (sqlite3.Error, sqlite3.Warning) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _ENVIRONMENT and isinstance(error, sqlite3.Error):
            raise source_error(error, "the database refused the statement") from error
        raise SqlError(str(error), sql=sql) from error
    except MemoryError:
        raise LimitExceeded("the query needs more memory than it may use", hint="select less") from None
    except (OverflowError, UnicodeError, ValueError) as error:
        raise SqlError(f"a value or the SQL cannot be passed to SQLite: {error}", sql=sql) from error


def _parameters(db: sqlite3.Connection, sql: str) -> int:
    """How many values the statement wants bound: the driver says it only in its complaint."""
    try:
        db.execute(f"EXPLAIN {sql}")
    except sqlite3.ProgrammingError as error:
        words = str(error).replace(",", " ").split()
        return int(words[words.index("uses") + 1]) if "uses" in words else 0
    return 0
