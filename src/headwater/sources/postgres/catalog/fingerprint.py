"""A fingerprint of the catalog: read at little cost, and another one once a captured table, or what queries read
through, was changed. What changed it does not tell. The files of partitions are not in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from headwater.sources.postgres.catalog.cache_validity import TYPES, VALUES
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.server.connections import Connection

_USERS = 16384  # the first oid that is not PostgreSQL's own
_TABLES = """
SELECT concat_ws(' ', 'c', c.oid, relname, nspname, relreplident, relispartition, relkind, row_security_active(c.oid))
    AS one FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = ANY (%(oids)s::int8[])
UNION ALL SELECT concat_ws(' ', 'a', attrelid, attnum, xmin) FROM pg_attribute
WHERE attrelid = ANY (%(oids)s::int8[]) AND attnum > 0
UNION ALL SELECT concat_ws(' ', 'x', indexrelid, indisprimary, indisreplident) FROM pg_index
WHERE indrelid = ANY (%(oids)s::int8[]) AND (indisprimary OR indisreplident)
UNION ALL SELECT concat_ws(' ', 'i', inhparent, inhrelid) FROM pg_inherits WHERE inhparent = ANY (%(parents)s::int8[])
UNION ALL SELECT concat_ws(' ', 'p', p.xmin, prrelid, r.xmin) FROM pg_publication p
LEFT JOIN pg_publication_rel r ON prpubid = p.oid WHERE pubname = %(publication)s
"""
_MADE = f"""
UNION ALL SELECT 'e ' || label::text FROM ({VALUES}) AS label
UNION ALL SELECT 't ' || made::text FROM ({TYPES}) AS made
"""
_DEFINITIONS = f"""
SELECT concat_ws(' ', 'v', c.oid, c.relname, c.relnamespace, c.xmin, r.xmin) AS one
FROM pg_class c JOIN pg_rewrite r ON r.ev_class = c.oid
WHERE c.relkind = 'v' AND c.relpersistence <> 't' AND c.oid >= {_USERS}
UNION ALL SELECT concat_ws(' ', 'q', attrelid, attnum, a.xmin) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
WHERE c.relkind IN ('v', 'c') AND c.relpersistence <> 't' AND c.oid >= {_USERS}
UNION ALL SELECT concat_ws(' ', 'n', oid, relname, relnamespace) FROM pg_class
WHERE relkind IN ('r', 'p', 'm', 'f') AND relpersistence <> 't' AND NOT relispartition AND oid >= {_USERS}
UNION ALL SELECT concat_ws(' ', 's', oid, nspname) FROM pg_namespace WHERE nspname !~ '^pg_'
UNION ALL SELECT concat_ws(' ', 'f', oid, xmin) FROM pg_proc WHERE oid >= {_USERS}
"""
_HASH = "SELECT concat(count(*), ' ', sum(hashtextextended(one, 0))) FROM ({}) AS found"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of the captured tables, with these `oids`: two that are gone look alike. And of views, functions and the names of
    tables, empty where nobody asked for it."""

    oids: tuple[int, ...]
    tables: str
    definitions: str


def read_fingerprint(
    db: Connection, captures: Collection[CapturedTable], publication: str, with_definitions: bool
) -> tuple[Fingerprint, str]:
    """And where the log stands, not earlier than that: in one question."""
    made = _MADE if any(type >= _USERS for one in captures for type in one.types) else ""
    definitions = _HASH.format(_DEFINITIONS) if with_definitions else "''"
    sql = f"SELECT ({_HASH.format(_TABLES + made)}), ({definitions}), pg_current_wal_insert_lsn()::text"
    oids = sorted(one.oid for one in captures)
    parents = [*oids, *(part for one in captures for part in one.parts)]
    row = db.execute(sql.encode(), {"oids": oids, "parents": parents, "publication": publication}).fetchone()
    assert row is not None
    return Fingerprint(tuple(oids), row[0], row[1]), row[2]
