"""What a question may do inside SQLite: read the user's tables and views, and call functions that are known to be safe.

By allow-list, in SQLite's own authorizer, which is asked for everything that a statement is compiled to; and with small
limits. Only the standard library and our errors are imported: the processes that run questions start with this.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.model.errors import HeadwaterError, LimitExceeded, PermissionDenied, SqlError

VALUE_BYTES_MAX = 64 << 20  # no record of our log holds more
PURE = frozenset({"json_each", "json_tree"})  # virtual tables made of their arguments alone
CATALOGS = frozenset({"sqlite_master", "sqlite_schema", "sqlite_sequence"})
_RESERVED = ("sqlite_", "pragma_", "_headwater_")
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: VALUE_BYTES_MAX,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 << 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 500,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 1_000_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 4096,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 32766,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_FORMATS = ("printf", "format")  # at the limit of a length they give NULL and no error: the memory alone limits them
_LENGTH_MAX = 1_000_000_000  # SQLite's own
_TOO_MUCH = ("string or blob too big", "too many", "too large", "parser stack overflow", "out of memory", "too complex")

_NUMBERS = """
abs acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 max min mod pi pow
power radians random round sign sin sinh sqrt tan tanh trunc
"""
_TEXTS = """
char coalesce concat concat_ws format glob hex if ifnull iif instr length like likelihood likely lower ltrim match
nullif octet_length printf quote randomblob replace rtrim soundex substr substring subtype trim typeof unhex unicode
unistr unistr_quote unlikely upper zeroblob
"""
_TIMES = "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch"
_JSON = """
-> ->> json json_array json_array_length json_error_position json_extract json_insert json_object json_patch json_pretty
json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract jsonb_insert
jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
"""
_AGGREGATES = """
avg count cume_dist dense_rank first_value group_concat json_group_array json_group_object jsonb_group_array
jsonb_group_object lag last_value lead median nth_value ntile percent_rank percentile percentile_cont percentile_disc
rank row_number string_agg sum total
"""
_OF_FULL_TEXT = "bm25 highlight snippet"
_OF_THE_CONNECTION = "changes last_insert_rowid sqlite_source_id sqlite_version total_changes"
_SAFE = (_NUMBERS, _TEXTS, _TIMES, _JSON, _AGGREGATES, _OF_FULL_TEXT, _OF_THE_CONNECTION)
FUNCTIONS = frozenset(" ".join(_SAFE).split())


class Relations:
    """What the database has, by name in lower case: tables, views, virtual tables and their shadows."""

    def __init__(self) -> None:
        self.kinds: dict[str, tuple[str, str]] = {}
        self.modules: frozenset[str] = frozenset()
        self._version = -1

    def refresh(self, db: sqlite3.Connection) -> None:
        """With no authorizer set. Virtual tables are opened here: SQLite would ask leave to declare their columns."""
        (version,) = db.execute("PRAGMA schema_version").fetchone()
        if version == self._version:
            return
        found = db.execute("SELECT name, type FROM pragma_table_list WHERE schema = 'main'").fetchall()
        self.kinds = {name.lower(): (name, kind) for name, kind in found if not name.lower().startswith(_RESERVED)}
        self.modules = frozenset(name.lower() for (name,) in db.execute("SELECT name FROM pragma_module_list"))
        for name in [*PURE, *(name for name, kind in self.kinds.values() if kind == "virtual")]:
            _opened(db, name)
        self._version = version

    def spelled(self, name: str) -> str:
        """As the database spells it: where only rows are counted, SQLite passes on what the query says."""
        return self.kinds.get(name.lower(), (name, ""))[0]

    def of_kind(self, *kinds: str) -> frozenset[str]:
        return frozenset(name for name, kind in self.kinds.values() if kind in kinds)


def _opened(db: sqlite3.Connection, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        db.execute(f"SELECT 1 FROM {quoted} LIMIT 0")
    except sqlite3.Error:
        return  # its module is not here, or it is damaged: whoever reads it is told so


class Authorizer:
    """Notes what a statement wants, and denies all that is not on the list; `denied` is the first such thing."""

    def __init__(self, db: sqlite3.Connection, relations: Relations) -> None:
        self._db, self._relations = db, relations
        self.columns: dict[str, set[str]] = defaultdict(set)
        self.functions: set[str] = set()
        self.denied: HeadwaterError | None = None

    def __call__(self, action: int, one: str | None, two: str | None, schema: str | None, _: str | None) -> int:
        refusal = self._refusal(action, one or "", two or "", schema)
        if refusal is None:
            return sqlite3.SQLITE_OK
        self.denied = self.denied or refusal
        return sqlite3.SQLITE_DENY

    def _refusal(self, action: int, one: str, two: str, schema: str | None) -> HeadwaterError | None:
        if action in _READING:
            return None
        if action == sqlite3.SQLITE_READ:
            return self._read(one, two, schema)
        if action == sqlite3.SQLITE_FUNCTION:
            self.functions.add(two.lower())
            if two.lower() in _FORMATS:
                self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH_MAX)
            return None if two.lower() in FUNCTIONS else _denied(f"the function {two} may not be called in a query")
        if action == sqlite3.SQLITE_PRAGMA and one == "data_version" and not two:
            return None  # full-text tables ask for it
        if action == sqlite3.SQLITE_UPDATE and one in CATALOGS:
            return _denied("it reads a virtual table that does not belong to the database")
        return SqlError(f"expected a query that only reads, found one that also uses {one or two or 'something else'}")

    def _read(self, table: str, column: str, schema: str | None) -> HeadwaterError | None:
        name = table.lower()
        self.columns[self._relations.spelled(table)].add(column)
        known = schema in (None, "main") and (name in self._relations.kinds or name in PURE or name in CATALOGS)
        common = not column and not name.startswith(_RESERVED) and name not in self._relations.modules  # WITH it AS …
        if known or common:
            return None
        if name.startswith("_headwater_"):
            return _denied(f"{table} belongs to Headwater: it cannot be queried")
        return _denied(f"{table} is not a table or view of the database: it cannot be queried")


def _denied(what: str) -> PermissionDenied:
    return PermissionDenied(what, hint="query tables and views instead")


@contextmanager
def guarded(db: sqlite3.Connection, relations: Relations) -> Iterator[Authorizer]:
    """Inside the block, only what a question may do. What it wants more comes out as `PermissionDenied`."""
    relations.refresh(db)
    authorizer = Authorizer(db, relations)
    before = {limit: db.setlimit(limit, most) for limit, most in _LIMITS.items()}
    db.set_authorizer(authorizer)
    try:
        yield authorizer
    except (sqlite3.Error, sqlite3.Warning) as error:
        if authorizer.denied is not None:
            raise authorizer.denied from None
        if any(words in str(error) for words in _TOO_MUCH):
            raise LimitExceeded(f"the query exceeds a limit of SQLite: {error}", hint="simplify the query") from None
        raise
    finally:
        db.set_authorizer(None)
        for limit, most in before.items():
            db.setlimit(limit, most)


def harden(db: sqlite3.Connection) -> None:
    """For a connection that runs nothing but questions."""
    db.execute("PRAGMA query_only = ON")
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    db.execute("PRAGMA mmap_size = 0")
    setconfig = getattr(db, "setconfig", None)  # from Python 3.12 on
    if setconfig is not None:
        setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # type: ignore[attr-defined]
        setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, False)  # type: ignore[attr-defined]
        setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, False)  # type: ignore[attr-defined]
