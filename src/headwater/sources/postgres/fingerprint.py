"""A fingerprint of the catalog: read at little cost, and another one once a captured table, or what queries read
through, was changed. What changed it does not tell."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sources.postgres.sessions import Connection

_TABLES = """
SELECT md5(COALESCE(string_agg(one, ',' ORDER BY one), '')) FROM (
    SELECT concat_ws(' ', 'c', oid, relname, relnamespace, relowner, relreplident, relispartition, relkind,
                     relrowsecurity, relforcerowsecurity) AS one
    FROM pg_class WHERE oid = ANY (%(oids)s::int8[])
    UNION ALL SELECT concat_ws(' ', 'a', attrelid, attnum, xmin) FROM pg_attribute
    WHERE attrelid = ANY (%(oids)s::int8[]) AND attnum > 0
    UNION ALL SELECT concat_ws(' ', 'i', inhparent, inhrelid) FROM pg_inherits WHERE inhparent = ANY (%(oids)s::int8[])
    UNION ALL SELECT concat_ws(' ', 'p', r.prrelid) FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
    WHERE p.pubname = %(publication)s
) AS found
"""
_DEFINITIONS = """
SELECT md5(COALESCE(string_agg(one, ',' ORDER BY one), '')) FROM (
    SELECT concat_ws(' ', 'v', c.oid, c.relname, c.relnamespace, c.xmin, r.xmin) AS one
    FROM pg_class c JOIN pg_rewrite r ON r.ev_class = c.oid
    WHERE c.relkind = 'v' AND c.relpersistence <> 't' AND c.oid >= 16384
    UNION ALL SELECT concat_ws(' ', 'n', oid, relname, relnamespace) FROM pg_class
    WHERE relkind IN ('r', 'p', 'm', 'f') AND relpersistence <> 't' AND NOT relispartition AND oid >= 16384
    UNION ALL SELECT concat_ws(' ', 'f', oid, xmin) FROM pg_proc WHERE oid >= 16384
) AS found
"""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of the captured tables; and of views, functions and the names of tables, empty where nobody asked for it."""

    tables: str
    definitions: str


def read_fingerprint(db: Connection, oids: list[int], publication: str, with_definitions: bool) -> Fingerprint:
    tables = db.execute(_TABLES, {"oids": oids, "publication": publication}).fetchone()
    definitions = db.execute(_DEFINITIONS).fetchone() if with_definitions else None
    assert tables is not None
    return Fingerprint(tables[0], definitions[0] if definitions is not None else "")
