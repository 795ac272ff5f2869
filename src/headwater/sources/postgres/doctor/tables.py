"""What a live query needs of each table it reads: rights, a replica identity, a kind that is logged.

Tables that have everything are one finding together: a database has many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from headwater.sources.doctor import DoctorScope, Finding, Severity, is_well
from headwater.sources.postgres.catalog.tables import PostgresTable, qualified, quoted, read_shapes, unidentified
from headwater.sources.postgres.server.connections import Connection

_RIGHTS = """
SELECT c.oid::int8, r.rolname, r.rolsuper, pg_has_role(%(user)s, c.relowner, 'USAGE'),
       has_table_privilege(%(user)s, c.oid, 'SELECT'), has_schema_privilege(%(user)s, c.relnamespace, 'USAGE'),
       c.relrowsecurity AND NOT (u.rolsuper OR u.rolbypassrls)
           AND (c.relforcerowsecurity OR NOT pg_has_role(%(user)s, c.relowner, 'USAGE'))
FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner CROSS JOIN pg_roles u
WHERE c.oid = ANY (%(oids)s::int8[]) AND u.rolname = %(user)s
"""
_UNIQUE = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]) k(n)
                      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE NOT a.attnotnull)
ORDER BY i.indnkeyatts, c.relname LIMIT 1
"""
_POLICIES = "SELECT count(*) FROM pg_class WHERE relrowsecurity AND relkind IN ('r', 'p')"


def tables(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    shapes = read_shapes(db)
    asked = [shape for shape in shapes.values() if not shape.is_partition and scope.asks(shape.name)]
    rights = _rights(db, user, asked)
    never = [finding for shape in asked for finding in _kind(shape)]
    lacks = [[*rights[one.oid], *_identity(db, one, shapes)] for one in asked if not any(_kind(one))]
    yield _together(len(asked), sum(1 for findings in lacks if is_well(findings)))
    for name in sorted(set(scope.tables) - {shape.name for shape in asked}):
        yield Finding(
            f"table {name}", "a table", "there is no table of this name", Severity.BAD, then="check the spelling"
        )
    yield from chain(*lacks, never)


def _together(count: int, ready: int) -> Finding:
    needed, state = (
        "each readable with all rows, owned by the role, with a replica identity",
        Severity.FINE if ready == count else Severity.NOTE,
    )
    return Finding("tables", needed, f"{ready} of {count} ready", state)


def _rights(db: Connection, user: str, shapes: Sequence[PostgresTable]) -> dict[int, list[Finding]]:
    """By table: those that are missing."""
    named = {shape.oid: shape for shape in shapes}
    found: dict[int, list[Finding]] = {}
    asked = {"user": user, "oids": list(named)}
    for oid, owner, owner_is_super, owns, reads, enters, is_secured in db.execute(_RIGHTS, asked):
        shape = named[oid]
        found[oid] = [
            finding
            for has, finding in (
                (enters, _ungranted(shape, "USAGE", f"SCHEMA {quoted(shape.schema)}", user)),
                (reads, _ungranted(shape, "SELECT", qualified(shape), user)),
                (owns, _not_owned(shape, owner, owner_is_super, user)),
                (not is_secured, _secured(shape, user)),
            )
            if not has
        ]
    return found


def _ungranted(shape: PostgresTable, right: str, on: str, user: str) -> Finding:
    fix = f"GRANT {right} ON {on} TO {quoted(user)}"
    return Finding(f"table {shape.name}", f"{right} on {on}", "not granted", Severity.BAD, fix)


def _not_owned(shape: PostgresTable, owner: str, owner_is_super: bool, user: str) -> Finding:
    """To belong to an ordinary owner is enough; to a superuser nobody should."""
    belong, take = f"GRANT {quoted(owner)} TO {quoted(user)}", f"ALTER TABLE {qualified(shape)} OWNER TO {quoted(user)}"
    return Finding(
        f"table {shape.name}",
        "ownership, to publish it",
        f"owned by {owner}",
        Severity.BAD,
        take if owner_is_super else belong,
        "or connect as the owner",
        by_hand=True,
    )


def _secured(shape: PostgresTable, user: str) -> Finding:
    """To see past policies is for an administrator to allow."""
    found = f"row-level security applies to {user}: no live queries"
    fix = f"ALTER ROLE {quoted(user)} BYPASSRLS"
    return Finding(
        f"table {shape.name}", "access to every row", found, Severity.BAD, fix, "as a superuser", by_hand=True
    )


def _kind(shape: PostgresTable) -> Iterator[Finding]:
    """Why it cannot be live, whatever else it lacks."""
    subject, needed = f"table {shape.name}", "a logged table without child tables"
    if shape.persistence == "u":
        fix = f"ALTER TABLE {qualified(shape)} SET LOGGED"
        yield Finding(
            subject, needed, "unlogged: no live queries", Severity.NOTE, fix, "this rewrites the table", by_hand=True
        )
    if shape.kind == "r" and shape.parts:
        yield Finding(
            subject, needed, "other tables inherit from it: no live queries", Severity.NOTE, then="partition it"
        )


def _identity(db: Connection, shape: PostgresTable, shapes: Mapping[int, PostgresTable]) -> Iterator[Finding]:
    for one in unidentified(shape, shapes):
        found = "no primary key, and no replica identity" if not one.key else "no replica identity"
        yield Finding(f"table {one.name}", "a replica identity", found, Severity.BAD, _identifying(db, one))
    if shape.identity == "f" and not shape.key:
        found = "FULL, without a key: every update is logged with its whole old row"
        yield Finding(f"table {shape.name}", "a primary key is better", found, Severity.NOTE)


def _identifying(db: Connection, shape: PostgresTable) -> str:
    """The cheapest way: its key, another unique index, and only then the whole row."""
    if shape.key:
        return f"ALTER TABLE {qualified(shape)} REPLICA IDENTITY DEFAULT"
    index = db.execute(_UNIQUE, (shape.oid,)).fetchone()
    how = f"USING INDEX {quoted(index[0])}" if index is not None and not shape.is_partition else "FULL"
    return f"ALTER TABLE {qualified(shape)} REPLICA IDENTITY {how}"


def policies(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    row = db.execute(_POLICIES).fetchone()
    if row is not None and row[0]:
        found = f"{row[0]} tables have policies, which subscribers bypass"
        yield Finding("row security", "none: it is not applied to subscribers", found, Severity.NOTE)
