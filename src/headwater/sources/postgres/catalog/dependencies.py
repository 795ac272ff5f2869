"""What a query reads, in PostgreSQL's own words: a view made of it for a moment, and what that depends on.

Nothing is run and nothing stays: the view is rolled back.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import generators

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.sources.postgres.catalog.tables import quoted, read_columns, table_name
from headwater.sources.postgres.server.connections import Connection, alone, speaking
from headwater.sources.postgres.server.parameters import literals_of, with_nulls
from headwater.sources.postgres.server.query_guard import SYSTEM, functions_of, refuse_harmful, system_relations
from headwater.sources.source import Reads

_Depends = tuple[int, str, str, str, str, int, int]  # oid, schema, name, kind, persistence, column, root
_Described = list[tuple[str, int]]  # of each column: its name, and the oid of its type
_PREPARED = "headwater_prepared"
_PARAMETERS = "parameters are $1, $2, … in order, or :name"
_VIEW = "headwater_view"
_COMPOSITE = "c"  # a type that a query takes apart
_RECORDS = (2249, 2287, 2278)  # record, record[], void
_UNWATCHED = {"m": "materialised view", "f": "foreign table", "S": "sequence"}
_DEPENDS = """
SELECT DISTINCT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, d.refobjsubid,
       COALESCE(pg_partition_root(c.oid), c.oid)::int8
FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
JOIN pg_class c ON d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid AND c.oid <> r.ev_class
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.ev_class = ANY (%s::int8[])
"""
_ACTIONS = "SELECT ev_action::text FROM pg_rewrite WHERE ev_class = ANY (%s::int8[])"
_COLUMNS = """
SELECT c.oid::int8, n.nspname, c.relname, a.attnum, a.attname, a.attgenerated <> ''
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.oid = ANY (%s::int8[]) AND a.attnum > 0 AND NOT a.attisdropped
"""
_IN_FROM = re.compile(r":rtekind 0 :relid (\d+) ")
_WHOLE_ROW = re.compile(r"\{VAR :varno \S+ :varattno 0 ")
_GATHERING = ("hasAggs", "hasWindowFuncs", "hasTargetSRFs")
_NOW = re.compile(r"\A[eE]?'\s*(now|today|tomorrow|yesterday)\b", re.I)
_CLOCKS = re.compile(
    "now|transaction_timestamp|statement_timestamp|clock_timestamp|timeofday|current_.*|session_user|inet_.*_(addr|port)"
    "|version|txid_.*|lastval|currval|to_reg.*"
)
_READ_NOTHING = ("pg_collation_for", "pg_input_error_info", "pg_input_is_valid", "pg_typeof")
_READERS = ("pg_", "has_", "query_to_xml", "table_to_xml", "schema_to_xml", "database_to_xml", "cursor_to_xml")


def prepared(db: Connection, sql: str) -> tuple[tuple[str, ...], _Described]:
    """The types of its parameters, and its columns; `SqlError` in the server's words where it refuses."""
    _read(db, f"PREPARE {_PREPARED} AS ", sql, sql)
    with speaking(sql):
        row = db.execute(
            "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = %s", (_PREPARED,)
        ).fetchone()
        columns = _described(db)
        db.execute(f"DEALLOCATE {_PREPARED}")
    assert row is not None
    return tuple(row[0]), columns


def _described(db: Connection) -> _Described:
    """Its columns. Not by libpq's own call: psycopg keeps the interpreter to itself until that returns, and a network
    that stands still would stop the whole server."""
    db.pgconn.send_describe_prepared(_PREPARED.encode())
    (described,) = db.wait(generators.execute(db.pgconn))
    places = range(described.nfields)
    return [((described.fname(place) or b"").decode(), int(described.ftype(place))) for place in places]


def _read(db: Connection, before: str, query: str, sql: str) -> None:
    """Lets the server read a query behind some words of ours. The place of an error is that in the user's `sql`."""
    try:
        alone(db, before + query)
    except SqlError as error:
        if "multiple commands" in error.message:
            raise SqlError(
                "expected one query, found several statements", sql=sql, hint="remove everything after the semicolon"
            ) from None
        at, shift = error.at, len(before)
        here = (at[0] - shift, at[1] - shift) if at is not None and at[0] >= shift and sql.startswith(query) else None
        hint = error.hint or (_PARAMETERS if "?" in sql else None)
        raise SqlError(error.message, sql=sql, at=here, hint=hint) from None


def reads_of(db: Connection, sql: str, given: int) -> Reads:
    """Views are seen through, and so are partitions: changes of theirs are told as their parent's. So many parameters
    are `given`."""
    plain = sql.rstrip().rstrip(";")
    types, columns = prepared(db, plain)
    if len(types) != given:
        needed = f"{len(types)} parameter{'' if len(types) == 1 else 's'}"
        raise SqlError(f"expected {needed}, found {given} value{'' if given == 1 else 's'}", sql=sql, hint=_PARAMETERS)
    _refuse_words(sql)
    with _undone(db):
        view = _viewed(db, sql, with_nulls(plain, types), columns)
        oids, found, actions = _read_by(db, view)
        _refuse_catalogs(db, actions, sql)
        _refuse_unwatched(found, actions, sql)
        functions = _functions(db, actions, sql)
        typed = read_columns(db, view)
        depends = [one for one in found if one[3] != _COMPOSITE]
        masks = _masks(db, depends, bool(_WHOLE_ROW.search(actions)))
        alone = len(oids) == 1 and not _gathers(actions) and not _has_records(columns)
        sees_through = len(oids) > 1 or len(depends) < len(found) or _calls_users(db, actions)
        names = tuple(column.name for column in typed)
        return Reads(names, masks, functions, alone, typed, sees_through, _once(db, depends, actions))


def relations_of(db: Connection, sql: str) -> tuple[str, ...]:
    """The tables it reads, as SQL names them; `PermissionDenied` where it does more than to read them. The columns of
    the view have names of our own: a query that is not live may have two of one name."""
    plain = sql.rstrip().rstrip(";")
    types, columns = prepared(db, plain)
    with _undone(db):
        view = _viewed(
            db, sql, with_nulls(plain, types), [(str(place), type) for place, (_, type) in enumerate(columns)]
        )
        _, depends, actions = _read_by(db, view)
        refuse_harmful(db, actions)
        tables = {f"{quoted(schema)}.{quoted(name)}" for _, schema, name, kind, *_ in depends if kind in "rp"}
        return tuple(sorted(tables))


@contextmanager
def _undone(db: Connection) -> Iterator[None]:
    db.execute("BEGIN READ WRITE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def _read_by(db: Connection, view: int) -> tuple[list[int], list[_Depends], str]:
    """Of a view and of those it reads: their oids, what they depend on, and their queries as PostgreSQL has them."""
    oids, depends = _dependencies(db, view)
    return oids, depends, " ".join(action for (action,) in db.execute(_ACTIONS, (oids,)))


def _viewed(db: Connection, sql: str, query: str, columns: _Described) -> int:
    """With columns of these names. A view cannot have rows as values: they are made texts."""
    shown = _with_records_as_text(query, columns) if _has_records(columns) else query
    names = f"({', '.join(quoted(name) for name, _ in columns)}) " if columns else ""
    try:
        _read(db, f"CREATE TEMPORARY VIEW {_VIEW} {names}AS ", shown, sql)
    except SqlError as error:
        if "specified more than once" in error.message:
            name = error.message.split('"')[1]
            raise UnsupportedQuery(
                f"two columns are named {name}", sql=sql, hint="give one of them another name with AS"
            ) from None
        raise
    row = db.execute(f"SELECT 'pg_temp.{_VIEW}'::regclass::oid::int8").fetchone()
    assert row is not None
    return int(row[0])


def _has_records(columns: _Described) -> bool:
    return any(type in _RECORDS for _, type in columns)


def _with_records_as_text(query: str, columns: _Described) -> str:
    names = [f"c{place}" for place in range(len(columns))]
    shown = [f"{name}::text" if type in _RECORDS else name for name, (_, type) in zip(names, columns, strict=True)]
    return f"SELECT {', '.join(shown)} FROM (\n{query}\n) AS headwater_rows ({', '.join(names)})"


def _gathers(action: str) -> bool:
    """What the outermost query says of itself stands before those inside it."""
    flags = [re.search(rf":{flag} (true|false)", action) for flag in _GATHERING]
    return any(flag is None or flag[1] == "true" for flag in flags)


def _dependencies(db: Connection, view: int) -> tuple[list[int], list[_Depends]]:
    """Of a view and of the views it reads, but the system's own: their oids, and all they depend on."""
    oids, found, fresh = [view], list[_Depends](), [view]
    while fresh:
        rows: list[Any] = db.execute(_DEPENDS, (fresh,)).fetchall()
        found += [row for row in rows if row[3] != "v"]
        views = {row[0] for row in rows if row[3] == "v" and row[1] not in SYSTEM}
        fresh = [oid for oid in views if oid not in oids]
        oids += fresh
    return oids, found


def _refuse_catalogs(db: Connection, actions: str, sql: str) -> None:
    """Nothing is noted as depending on the system's own tables and views: they are never dropped."""
    for _, name, _ in system_relations(db, actions):
        raise UnsupportedQuery(
            f"{name} is a system catalog: it cannot be watched", sql=sql, hint="query tables instead"
        )


def _refuse_unwatched(depends: Iterable[_Depends], actions: str, sql: str) -> None:
    for _, _, name, kind, persistence, column, _ in depends:
        what = _UNWATCHED.get(kind) or "temporary table" * (persistence == "t")
        if what:
            raise UnsupportedQuery(f"{name} is a {what}: it cannot be watched", sql=sql, hint="query tables instead")
        if column < 0:
            raise UnsupportedQuery(
                f"system columns of {name} change without any change of a row", sql=sql, hint="select the key instead"
            )
    if "{TABLESAMPLECLAUSE" in actions:
        raise UnsupportedQuery("TABLESAMPLE returns different rows every time", sql=sql)
    if "{ROWMARKCLAUSE" in actions:
        raise UnsupportedQuery("FOR UPDATE and FOR SHARE lock rows", sql=sql, hint="leave them out")
    if "{SQLVALUEFUNCTION" in actions or "{NEXTVALUEEXPR" in actions:
        raise _volatile("current_date, current_timestamp, current_user or a similar function", sql)


def _calls_users(db: Connection, actions: str) -> bool:
    """Whether it calls a function that is not PostgreSQL's own."""
    return any(schema != "pg_catalog" for _, schema, *_ in functions_of(db, actions))


def _functions(db: Connection, actions: str, sql: str) -> frozenset[str]:
    rows = functions_of(db, actions)
    for name, schema, volatility, arguments in rows:
        _refuse_function(name, schema, volatility, arguments, sql)
    return frozenset(name for name, *_ in rows)


def _refuse_function(name: str, schema: str, volatility: str, arguments: int, sql: str) -> None:
    if volatility == "v" or _CLOCKS.fullmatch(name) or (name == "age" and arguments == 1):
        raise _volatile(name, sql)
    reads = schema != "pg_catalog" or (name.startswith(_READERS) and name not in _READ_NOTHING)
    if volatility == "s" and reads:
        raise UnsupportedQuery(
            f"{name} may read data that Headwater does not track",
            sql=sql,
            hint="declare the function IMMUTABLE if it depends on its arguments alone",
        )


def _volatile(name: str, sql: str) -> UnsupportedQuery:
    at = re.search(rf"\b{re.escape(name)}\b", sql, re.I)
    return UnsupportedQuery(
        f"{name} changes without any change in the database",
        sql=sql,
        at=at.span() if at else None,
        hint="compute it in the application and pass it as a parameter",
    )


def _refuse_words(sql: str) -> None:
    """'now' is read as a time when the query is read."""
    for literal in literals_of(sql):
        if _NOW.match(literal) and re.search(
            re.escape(literal) + r"\s*::|(?:date|time\w*)\s*" + re.escape(literal), sql
        ):
            raise _volatile(literal.strip("eE'"), sql)


def _masks(db: Connection, depends: Sequence[_Depends], whole: bool) -> dict[str, frozenset[str]]:
    """The columns that count of each table; all of them where rows are taken whole, or one is computed from others."""
    used: dict[int, set[int]] = defaultdict(set)
    roots = {oid: root for oid, *_, root in depends}
    for oid, *_, column, _ in depends:
        used[oid].add(column)
    masks: dict[str, set[str]] = defaultdict(set)
    columns = _columns(db, [*roots, *roots.values()])
    for oid, root in roots.items():
        name, names, _ = columns[root]
        _, here, generated = columns[oid]
        computed = whole or bool(used[oid] & generated)
        masks[name] |= set(names.values()) if computed else {here.get(column, "") for column in used[oid]}
    return {name: frozenset(mask if mask == {""} else mask - {""}) for name, mask in masks.items()}


def _once(db: Connection, depends: Sequence[_Depends], actions: str) -> frozenset[str]:
    """The tables that stand once in FROM, here or in a query inside; a partition stands for its whole table."""
    roots = {oid: root for oid, *_, root in depends}
    read = Counter(roots.get(int(oid), 0) for oid in _IN_FROM.findall(actions))
    names = {root: name for root, (name, *_) in _columns(db, [*roots.values()]).items()}
    return frozenset(names[root] for root, times in read.items() if times == 1 and root in names)


def _columns(db: Connection, oids: Sequence[int]) -> dict[int, tuple[str, dict[int, str], set[int]]]:
    """By table: its name, its columns by number, and the numbers of the generated ones."""
    found: dict[int, tuple[str, dict[int, str], set[int]]] = {}
    for oid, schema, relation, number, name, generated in db.execute(_COLUMNS, (list(oids),)):
        _, names, computed = found.setdefault(oid, (table_name(schema, relation), {}, set()))
        names[number] = name
        if generated:
            computed.add(number)
    return found
