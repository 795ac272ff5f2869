"""Tables as PostgreSQL's catalog has them: names, columns, keys, replica identity. It reads and changes nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.model.errors import SourceError
from headwater.model.schema import Column, Table
from headwater.model.value import Type, Value, pack_any
from headwater.sources.postgres.catalog.cache_validity import CacheValidity, read_validity
from headwater.sources.postgres.server.connections import Connection
from headwater.sources.postgres.server.value_types import BUILT_IN, Defined, Types

OURS = "headwater"  # the schema, and the first word of every name of ours
_FOLDING = ("NOCASE", "RTRIM")
_NAMES = re.compile(r'"(?:[^"]|"")*"|[^.]+')  # of a schema or a relation, between dots
_KINDS = {"v": "view", "m": "materialised view", "f": "foreign table", "S": "sequence", "c": "type", "i": "index"}


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """`type` is the base type's oid, `ours` what it is to us.

    `missing` is what rows older than the column hold; `has_default` newer ones.
    """

    name: str
    type: int
    ours: Type
    declared: str
    not_null: bool
    generated: bool
    missing: Value
    has_missing: bool
    has_default: bool
    collation: str = "BINARY"


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """`identity` is the table's replica identity: d, n, f or i; `identity_columns` are those its old images have.

    `key` is no deferrable one: it names no row before the commit. `parts` are its partitions, or those that inherit, at
    any depth. `validity` are what rows that were read of it rest on. `is_secured`: row-level security applies to us.
    """

    oid: int
    schema: str
    relation: str
    kind: str
    persistence: str
    is_partition: bool
    fields: tuple[PostgresColumn, ...]
    key: tuple[str, ...]
    identity: str
    identity_columns: tuple[str, ...]
    parts: frozenset[int]
    validity: CacheValidity
    is_secured: bool

    @property
    def name(self) -> str:
        return table_name(self.schema, self.relation)

    @property
    def sent(self) -> tuple[PostgresColumn, ...]:
        """The columns that replication tells of: generated ones are not among them."""
        return tuple(field for field in self.fields if not field.generated)

    def table(self, schema_id: int = 0) -> Table:
        return Table(self.name, tuple(column_of(field) for field in self.sent), self.key, schema_id, "postgres")


def column_of(field: PostgresColumn) -> Column:
    """A collation that is called as one of SQLite's that fold is quoted: it compares by bytes."""
    collation = quoted(field.collation) if field.collation in _FOLDING else field.collation
    return Column(field.name, field.ours, field.declared, collation, not field.not_null, filler=pack_any(field.missing))


def table_name(schema: str, relation: str) -> str:
    """`orders` for a table of the schema public, `sales.orders` for others; quoted where a dot would mislead."""
    names = [relation] if schema == "public" else [schema, relation]
    return ".".join(quoted(name) if set(name) & {".", '"'} else name for name in names)


def qualified_name(name: str) -> str:
    """A table by its `table_name`, as SQL names it, whatever the search path."""
    names = [part if part.startswith('"') else quoted(part) for part in _NAMES.findall(name)]
    return ".".join(names if len(names) > 1 else [quoted("public"), *names])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def qualified(shape: PostgresTable) -> str:
    """As SQL names it, whatever the search path."""
    return f"{quoted(shape.schema)}.{quoted(shape.relation)}"


_RELATIONS = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.relispartition,
       c.relreplident::text, row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'headwater')
      AND c.relpersistence <> 't' AND (%(oids)s::int8[] IS NULL OR c.oid = ANY (%(oids)s::int8[]))
ORDER BY n.nspname <> 'public', n.nspname, c.relname
"""
_FIELDS = """
SELECT a.attrelid::int8, a.attname, a.atttypid::int8, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attgenerated <> '', a.atthasmissing, (a.attmissingval::text::text[])[1], a.atthasdef,
       CASE WHEN o.collname IS NULL THEN 'BINARY' WHEN NOT o.collisdeterministic THEN 'nondeterministic'
            WHEN o.collprovider <> 'd' THEN o.collname
            WHEN d.datcollate = d.datctype AND COALESCE(to_jsonb(d)->>'datlocprovider', 'c') = 'c' THEN d.datcollate
            ELSE 'default' END
FROM pg_attribute a JOIN pg_database d ON d.datname = current_database()
LEFT JOIN pg_collation o ON o.oid = a.attcollation
WHERE a.attrelid = ANY (%(oids)s::int8[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT i.indrelid::int8, i.indisprimary, i.indisreplident, k.place, a.attname
FROM pg_index i CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = ANY (%(oids)s::int8[]) AND (i.indisprimary OR i.indisreplident) AND i.indimmediate
ORDER BY i.indrelid, k.place
"""
_PARTS = """
WITH RECURSIVE below(parent, part) AS (
    SELECT inhparent, inhrelid FROM pg_inherits WHERE inhparent = ANY (%(oids)s::int8[])
    UNION SELECT b.parent, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.part
)
SELECT parent::int8, part::int8 FROM below
"""
_DEFINED = """
SELECT t.oid::int8, CASE WHEN t.typcategory = 'A' THEN e.typname || '[]' ELSE t.typname END, t.typtype::text,
       t.typbasetype::int8, CASE WHEN t.typcategory = 'A' THEN t.typelem::int8 ELSE 0 END
FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE t.oid >= 16384
"""


def read_types(db: Connection) -> Types:
    return Types({oid: Defined(*made) for oid, *made in db.execute(_DEFINED)})


def read_shapes(db: Connection, oids: Sequence[int] | None = None) -> dict[int, PostgresTable]:
    """By oid: all tables, or those of them that are there."""
    rows = db.execute(_RELATIONS, {"oids": None if oids is None else list(oids)}).fetchall()
    found = {"oids": [row[0] for row in rows]}
    types = read_types(db)
    fields: dict[int, list[PostgresColumn]] = defaultdict(list)
    for oid, *field in db.execute(_FIELDS, found):
        fields[oid].append(_field(field, types))
    keys: dict[tuple[int, str], list[str]] = defaultdict(list)
    for oid, is_primary, is_identity, _, name in db.execute(_KEYS, found):
        for role in ("p" * is_primary) + ("i" * is_identity):
            keys[oid, role].append(name)
    parts: dict[int, set[int]] = defaultdict(set)
    for parent, part in db.execute(_PARTS, found):
        parts[parent].add(part)
    validity = read_validity(db, found["oids"])
    return {row[0]: _shape(row, fields[row[0]], keys, parts[row[0]], validity[row[0]]) for row in rows}


def read_columns(db: Connection, oid: int) -> tuple[Column, ...]:
    """Those of one relation, which may be a view. Types that somebody made are not looked into."""
    fields = db.execute(_FIELDS, {"oids": [oid]}).fetchall()
    return tuple(column_of(_field(field, BUILT_IN)) for _, *field in fields)


def _field(raw: Sequence[Any], types: Types) -> PostgresColumn:
    name, type, declared, not_null, generated, has_missing, missing, has_default, collation = raw
    base = types.base(type)
    value = types.parser(base)(missing.encode()) if missing is not None else None
    ours = types.type_of(base)
    return PostgresColumn(name, base, ours, declared, not_null, generated, value, has_missing, has_default, collation)


def _shape(
    row: Sequence[Any],
    fields: Sequence[PostgresColumn],
    keys: Mapping[tuple[int, str], list[str]],
    parts: set[int],
    validity: CacheValidity,
) -> PostgresTable:
    oid, schema, relation, kind, persistence, is_partition, identity, is_secured = row
    primary, index = tuple(keys.get((oid, "p"), ())), tuple(keys.get((oid, "i"), ()))
    columns = {"d": primary, "i": index, "f": tuple(one.name for one in fields if not one.generated)}
    return PostgresTable(
        oid,
        schema,
        relation,
        kind,
        persistence,
        is_partition,
        tuple(fields),
        primary or (index if identity == "i" else ()),
        identity,
        columns.get(identity, ()),
        frozenset(parts),
        validity,
        is_secured,
    )


def capturable(db: Connection, name: str) -> PostgresTable:
    """The table of this name, or an error that says why its changes cannot be captured."""
    shapes = read_shapes(db)
    shape = next((shape for shape in shapes.values() if shape.name == name), None)
    if shape is None:
        raise _no_table(db, name)
    if shape.persistence == "u":
        raise SourceError(
            f"table {name!r} is unlogged: its changes are not in the write-ahead log",
            hint=f"ALTER TABLE {qualified(shape)} SET LOGGED",
        )
    if shape.is_partition:
        raise SourceError(f"{name!r} is a partition: its changes are captured as those of its parent")
    if shape.kind == "r" and shape.parts:
        raise SourceError(f"tables inherit from {name!r}: its changes cannot be captured", hint="partition it instead")
    if not shape.sent:
        raise SourceError(f"table {name!r} has no columns that replication sends")
    _refuse_no_identity(shape, shapes)
    refuse_secured(shape)
    return shape


def refuse_secured(shape: PostgresTable) -> None:
    """We would read some of its rows, and hear of changes to all of them."""
    if shape.is_secured:
        raise SourceError(secured_reason(shape.name), hint="connect as a role with BYPASSRLS: ALTER ROLE … BYPASSRLS")


def secured_reason(name: str) -> str:
    return f"row-level security of table {name} applies to the role that Headwater connects as: it hides rows"


def _refuse_no_identity(shape: PostgresTable, shapes: Mapping[int, PostgresTable]) -> None:
    """To publish such a table would make its user's updates fail."""
    for one in unidentified(shape, shapes):
        raise SourceError(
            f"table {one.name!r} has no replica identity: PostgreSQL would not say which rows change",
            hint=f"give it a primary key, or ALTER TABLE {qualified(one)} REPLICA IDENTITY FULL",
        )


def unidentified(shape: PostgresTable, shapes: Mapping[int, PostgresTable]) -> list[PostgresTable]:
    """The table, or those of its partitions, whose old images would not name the row: each has an identity of its own,
    whatever that of the whole."""
    if not shape.identity_columns:
        return [shape]
    named = set(shape.identity_columns if shape.identity != "f" else shape.key)
    leaves = [shapes[oid] for oid in sorted(shape.parts) if oid in shapes and shapes[oid].kind == "r"]
    return [one for one in leaves if one.identity != "f" and not (named and named <= set(one.identity_columns))]


def rows_about(db: Connection, shape: PostgresTable) -> int | None:
    """As PostgreSQL's planner would guess: by how full its pages were when they were last counted."""
    sql = """
    SELECT sum(reltuples / relpages * pg_relation_size(oid) / current_setting('block_size')::int)::int8
    FROM pg_class WHERE oid = ANY (%s) AND reltuples >= 0 AND relpages > 0
    """
    row = db.execute(sql, ([shape.oid, *shape.parts],)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _no_table(db: Connection, name: str) -> SourceError:
    schema, _, relation = name.rpartition(".")
    row = db.execute(
        "SELECT relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s",
        (schema or "public", relation),
    ).fetchone()
    if row is None:
        return SourceError(f"there is no table {name!r} in the database", hint="check the spelling of the name")
    return SourceError(
        f"{name!r} is a {_KINDS.get(row[0], 'relation')}: its changes cannot be captured",
        hint="query the tables it reads from",
    )
