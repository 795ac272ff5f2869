"""What a question may do inside PostgreSQL: read tables and views, and call functions that change nothing.

By allow-list, on the query as PostgreSQL has read it: the relations and functions in it by their numbers, not by their
names in the text. What is beneath, a read-only transaction with a time limit, is not set here.
"""

from __future__ import annotations

import re

from headwater.model.errors import PermissionDenied
from headwater.sources.postgres.server.connections import Connection

SYSTEM = ("pg_catalog", "information_schema", "pg_toast")
_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%s::int8[]) AND n.nspname = ANY (%s) ORDER BY 1, 2
"""
_FUNCTIONS = """
SELECT p.proname, n.nspname, p.provolatile::text, p.pronargs
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = ANY (%s::int8[]) ORDER BY 1
"""
_CALLED = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|hashfuncid) (\d+)")
_RELATION = re.compile(r":relid (\d+)")

# What a query that is not live may read of the catalogs: the shape of the user's own objects, and no values.
_CATALOGS = frozenset(
    f"pg_catalog.{name}"
    for name in (
        "pg_attribute",
        "pg_class",
        "pg_constraint",
        "pg_enum",
        "pg_index",
        "pg_indexes",
        "pg_namespace",
        "pg_tables",
        "pg_type",
        "pg_views",
    )
)
_SCHEMA_VIEWS = frozenset(
    f"information_schema.{name}"
    for name in ("columns", "key_column_usage", "schemata", "table_constraints", "tables", "views")
)
_HARMLESS = frozenset(
    {
        "array_sample",
        "array_shuffle",
        "clock_timestamp",
        "gen_random_uuid",
        "pg_collation_for",
        "pg_column_size",
        "pg_input_is_valid",
        "pg_size_bytes",
        "pg_size_pretty",
        "pg_typeof",
        "random",
        "random_normal",
        "timeofday",
        "uuidv4",
        "uuidv7",
    }
)
_TELLING = re.compile(r"pg_.*|binary_upgrade_.*|.*_to_xml.*|.*validator|current_setting|current_query|lo_.*|txid_.*")

Function = tuple[str, str, str, int]  # name, schema, volatility, arguments


def system_relations(db: Connection, actions: str) -> list[tuple[str, str, str]]:
    """Those of PostgreSQL's own that a query reads: schema, name and kind."""
    oids = [int(oid) for oid in set(_RELATION.findall(actions))]
    return db.execute(_RELATIONS, (oids, list(SYSTEM))).fetchall()


def functions_of(db: Connection, actions: str) -> list[Function]:
    """All that a query calls, also by its operators."""
    called = [int(oid) for oid in set(_CALLED.findall(actions)) if int(oid)]
    return db.execute(_FUNCTIONS, (called,)).fetchall()


def refuse_harmful(db: Connection, actions: str) -> None:
    """For a query that is not live: clocks and chance are no harm there."""
    for schema, name, _ in system_relations(db, actions):
        if f"{schema}.{name}" not in _CATALOGS | _SCHEMA_VIEWS:
            raise PermissionDenied(
                f"{name} is a system catalog: it cannot be queried", hint="query tables and views instead"
            )
    for name, schema, volatility, _ in functions_of(db, actions):
        ours = schema == "pg_catalog"
        if ours and name in _HARMLESS:
            continue
        if volatility == "v" or (ours and _TELLING.fullmatch(name)):
            raise PermissionDenied(
                f"the function {name} may not be called in a query: it can change or reveal something",
                hint=None if ours else "declare it STABLE or IMMUTABLE if it only reads",
            )
