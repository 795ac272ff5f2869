"""Reads the schema of an SQLite database: columns, keys, and every way in which two rows can conflict.

It never writes to the database it reads; what no PRAGMA tells (collations, defaults) it asks a scratch database.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from functools import lru_cache

from headwater.model.errors import SourceError
from headwater.model.value import Type, Value

OURS = "_headwater_"
COLUMNS_MAX = 990  # an SQLite table has at most 2,000 columns and the log needs two for each
_ROWID_NAMES = ("rowid", "_rowid_", "oid")
_TEXT_BY_HABIT = re.compile("DATE|TIME|JSON|UUID|STRING|GUID|XML", re.IGNORECASE)
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/ | \w+ | \s+ | .""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class SqliteColumn:
    """A column as SQLite describes it; `default` is the SQL text of its default.

    `declared` is empty for ANY in a STRICT table, which has no affinity, unlike ANY elsewhere."""

    name: str
    declared: str
    not_null: bool
    default: str | None
    generated: bool
    collation: str


@dataclass(frozen=True, slots=True)
class KeyTerm:
    """A part of a unique key: a column by its place, or an expression by its SQL text."""

    column: int | None
    sql: str
    collation: str


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """`where` is the predicate of a partial index."""

    terms: tuple[KeyTerm, ...]
    where: str | None = None


@dataclass(frozen=True, slots=True)
class SqliteTable:
    """A table. `rowid` is a name its rowid answers to, None where it has none. `key` holds places of columns.

    `key` is empty for a primary key that may hold NULL: SQLite lets such rows repeat. `refers_to_itself`: the
    columns that foreign keys of the table itself refer to, where an action of such a key may update rows.
    """

    name: str
    fields: tuple[SqliteColumn, ...]
    key: tuple[int, ...]
    unique: tuple[UniqueKey, ...]
    rowid: str | None
    strict: bool
    refers_to_itself: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def table_names(db: sqlite3.Connection) -> list[str]:
    """Ordinary tables, without SQLite's own, without ours."""
    rows = db.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name")
    return [name for (name,) in rows if not name.startswith(("sqlite_", OURS))]


def kind_of(db: sqlite3.Connection, name: str) -> tuple[str, str] | None:
    """The name as the database spells it, and what it is: table, view, virtual or shadow."""
    sql = "SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE"
    row: tuple[str, str] | None = db.execute(sql, (name,)).fetchone()
    return row


def read_shape(db: sqlite3.Connection, name: str) -> SqliteTable:
    """The table as it is in the transaction that `db` is in."""
    without_rowid, strict = db.execute(
        "SELECT wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?", (name,)
    ).fetchone()
    create = _sql_of(db, name)
    rows = db.execute(
        'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', (name,)
    ).fetchall()
    collations = _collations(create, name, tuple(row[0] for row in rows))
    fields = tuple(
        SqliteColumn(column, _declared(declared, strict), bool(not_null), default, hidden in (2, 3), collation)
        for (column, declared, not_null, default, _, hidden), collation in zip(rows, collations, strict=True)
    )
    primary = tuple(place for _, place in sorted((row[4], place) for place, row in enumerate(rows) if row[4]))
    indexes = db.execute('SELECT name, origin, partial FROM pragma_index_list(?) WHERE "unique"', (name,)).fetchall()
    alias = bool(primary) and not without_rowid and all(origin != "pk" for _, origin, _ in indexes)
    unique = [_index_key(db, index, bool(partial), fields) for index, _, partial in sorted(indexes)]
    if alias:
        unique.insert(0, UniqueKey((KeyTerm(primary[0], quoted(fields[primary[0]].name), "BINARY"),)))
    sure = bool(without_rowid) or alias or all(fields[place].not_null for place in primary)
    rowid = None if without_rowid else _rowid_name(fields)
    key = primary if sure else ()
    return SqliteTable(
        name, fields, key, tuple(unique), rowid, bool(strict), _refers_to_itself(db, name, fields, primary)
    )


def _declared(word: str, strict: bool) -> str:
    return "" if strict and word.upper() == "ANY" else word


def affinity(declared: str) -> str:
    """SQLite's rule from a declared type to INTEGER, TEXT, BLOB, REAL or NUMERIC."""
    word = declared.upper()
    if "INT" in word:
        return "INTEGER"
    if any(part in word for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not word or "BLOB" in word:
        return "BLOB"
    return "REAL" if any(part in word for part in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def declared_type(field: SqliteColumn) -> Type:
    """The type of a column that holds no value yet. Dates and the like are text by habit, booleans integers."""
    match affinity(field.declared):
        case "NUMERIC" if _TEXT_BY_HABIT.search(field.declared):
            return Type.TEXT
        case "NUMERIC" if "BOOL" in field.declared.upper():
            return Type.INTEGER
        case "BLOB" if not field.declared:
            return Type.ANY
        case "NUMERIC":
            return Type.ANY
        case word:
            return Type(word.lower())


def default_of(field: SqliteColumn) -> Value:
    """What rows older than the column hold: SQLite allows only constants there."""
    if field.default is None or field.default.upper().startswith("CURRENT_"):
        return None
    scratch = sqlite3.connect(":memory:")
    try:
        scratch.execute(f"CREATE TABLE t(x {field.declared} DEFAULT {field.default})")
        scratch.execute("INSERT INTO t DEFAULT VALUES")
        value: Value = scratch.execute("SELECT x FROM t").fetchone()[0]
    except sqlite3.Error:
        return None
    finally:
        scratch.close()
    return value


def _sql_of(db: sqlite3.Connection, name: str) -> str:
    return str(db.execute("SELECT sql FROM sqlite_schema WHERE name = ? COLLATE NOCASE", (name,)).fetchone()[0])


def _refers_to_itself(
    db: sqlite3.Connection, name: str, fields: tuple[SqliteColumn, ...], primary: tuple[int, ...]
) -> tuple[int, ...]:
    rows = db.execute(
        'SELECT "to" FROM pragma_foreign_key_list(?) WHERE lower("table") = lower(?) '
        "AND (on_update NOT IN ('NO ACTION', 'RESTRICT') OR on_delete LIKE 'SET %')",
        (name, name),
    ).fetchall()
    if any(column is None for (column,) in rows):
        return primary
    named = {column.lower() for (column,) in rows}
    return tuple(place for place, field in enumerate(fields) if field.name.lower() in named)


def _rowid_name(fields: tuple[SqliteColumn, ...]) -> str | None:
    taken = {field.name.lower() for field in fields}
    return next((name for name in _ROWID_NAMES if name not in taken), None)


@lru_cache(maxsize=256)
def _collations(create: str, table: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """An index takes over the collation of its column and tells it: so index every column of an empty twin."""
    scratch = sqlite3.connect(":memory:")
    try:
        scratch.execute(create)
        return tuple(_collation(scratch, table, column) for column in columns)
    except sqlite3.Error:  # a function or module that only the application has
        return ("BINARY",) * len(columns)
    finally:
        scratch.close()


def _collation(scratch: sqlite3.Connection, table: str, column: str) -> str:
    try:
        scratch.execute(f"CREATE INDEX headwater_probe ON {quoted(table)}({quoted(column)})")
    except sqlite3.OperationalError as error:
        return str(error).rpartition("no such collation sequence: ")[2] if "collation" in str(error) else "BINARY"
    (found,) = scratch.execute("SELECT coll FROM pragma_index_xinfo('headwater_probe') WHERE key").fetchone()
    scratch.execute("DROP INDEX headwater_probe")
    return str(found)


def _index_key(db: sqlite3.Connection, index: str, partial: bool, fields: tuple[SqliteColumn, ...]) -> UniqueKey:
    rows = db.execute("SELECT cid, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", (index,)).fetchall()
    texts, where = ([], None) if all(cid >= 0 for cid, _ in rows) and not partial else _parsed_index(_sql_of(db, index))
    terms = tuple(
        KeyTerm(cid, quoted(fields[cid].name), coll) if cid >= 0 else KeyTerm(None, texts[place], coll)
        for place, (cid, coll) in enumerate(rows)
    )
    return UniqueKey(terms, where)


def _parsed_index(sql: str) -> tuple[list[str], str | None]:
    """The texts of the terms and of the predicate of a CREATE INDEX statement."""
    tokens = [" " if token.startswith(("--", "/*")) else token for token in _TOKEN.findall(sql)]
    opening = tokens.index("(")
    closing = _closing(tokens, opening)
    rest = tokens[closing + 1 :]
    where = next((place for place, token in enumerate(rest) if token.upper() == "WHERE"), None)
    predicate = None if where is None else "".join(rest[where + 1 :]).strip().rstrip(";")
    return [_bare_term(term) for term in _split(tokens[opening + 1 : closing])], predicate


def _closing(tokens: list[str], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += (tokens[place] == "(") - (tokens[place] == ")")
        if depth == 0:
            return place
    raise ValueError("unbalanced parentheses in an index")


def _split(tokens: list[str]) -> list[list[str]]:
    """At the commas outside of parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _bare_term(tokens: list[str]) -> str:
    """A term without its ASC, DESC and COLLATE."""
    words = [place for place, token in enumerate(tokens) if not token.isspace()]
    if tokens[words[-1]].upper() in ("ASC", "DESC"):
        words.pop()
    if len(words) > 2 and tokens[words[-2]].upper() == "COLLATE":
        del words[-2:]
    return "".join(tokens[: words[-1] + 1]).strip()


def capturable(db: sqlite3.Connection, name: str) -> SqliteTable:
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


def _refuse_loose_references(shape: SqliteTable) -> None:
    """Foreign-key actions of a table on itself are put in order by what they refer to, which must tell rows apart."""
    for place in shape.refers_to_itself:
        field = shape.fields[place]
        if not field.not_null and place not in shape.key:
            raise SourceError(
                f"table {shape.name!r} refers to its own column {field.name!r}, which may hold NULL, "
                "by a foreign key with an action: its changes cannot be ordered",
                hint=f"declare {field.name} NOT NULL, or the foreign key without an action",
            )


def estimate_rows(db: sqlite3.Connection, shape: SqliteTable) -> int | None:
    """As many as there are rowids from the first to the last; where there are none, what ANALYZE has noted."""
    if shape.rowid is not None:
        span = f"SELECT (SELECT max({shape.rowid}) FROM {{0}}) - (SELECT min({shape.rowid}) FROM {{0}}) + 1"
        return int(db.execute(span.format(quoted(shape.name))).fetchone()[0] or 0)
    if kind_of(db, "sqlite_stat1") is None:
        return None
    noted = db.execute("SELECT max(CAST(stat AS INTEGER)) FROM sqlite_stat1 WHERE tbl = ?", (shape.name,)).fetchone()[0]
    return None if noted is None else int(noted)


def text_encoding(db: sqlite3.Connection) -> str:
    """By Python's name for it."""
    names = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}
    return names[db.execute("PRAGMA encoding").fetchone()[0]]
