"""DDL told at once: an event trigger that says, in the stream itself, that a table, view or function was altered or
dropped.

Only where we may create one; elsewhere the catalog is looked at now and then. It says nothing but that it is time to
look, and cannot fail in a way that would undo the user's statement.
"""

from __future__ import annotations

from typing import Literal

import psycopg

from headwater.sources.postgres.catalog.tables import OURS
from headwater.sources.postgres.server.connections import Connection

PREFIX = f"{OURS}.ddl"
TRIGGER = f"{OURS}_ddl"
_FIRES = "OA"  # states of a trigger that fires in sessions of users
_LOCK = 0x6865_6164  # two pipelines may begin at once
TAGS = (
    "ALTER TABLE", "DROP TABLE", "CREATE TABLE", "CREATE TABLE AS", "SELECT INTO", "CREATE FOREIGN TABLE",
    "ALTER FOREIGN TABLE", "DROP FOREIGN TABLE", "CREATE MATERIALIZED VIEW", "ALTER MATERIALIZED VIEW",
    "DROP MATERIALIZED VIEW", "CREATE VIEW", "ALTER VIEW", "DROP VIEW", "CREATE RULE", "DROP RULE", "DROP INDEX",
    "ALTER PUBLICATION", "DROP PUBLICATION", "CREATE SCHEMA", "DROP SCHEMA", "ALTER SCHEMA", "ALTER TYPE", "DROP TYPE",
    "DROP DOMAIN", "DROP COLLATION", "CREATE FUNCTION", "ALTER FUNCTION", "DROP FUNCTION", "ALTER ROUTINE",
    "DROP ROUTINE", "CREATE AGGREGATE", "ALTER AGGREGATE", "DROP AGGREGATE", "DROP OPERATOR", "DROP CAST",
    "ALTER EXTENSION", "DROP EXTENSION", "DROP LANGUAGE", "DROP OWNED",
)  # fmt: skip
CREATE = f"""
DROP EVENT TRIGGER IF EXISTS {TRIGGER};
CREATE SCHEMA IF NOT EXISTS {OURS};
CREATE OR REPLACE FUNCTION {OURS}.tell_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_tag LIKE 'CREATE %' AND NOT EXISTS (
        SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp'
    ) THEN
        RETURN;
    END IF;
    PERFORM pg_logical_emit_message(true, '{PREFIX}', tg_tag);
END $$;
CREATE EVENT TRIGGER {TRIGGER} ON ddl_command_end
    WHEN TAG IN ({", ".join(f"'{tag}'" for tag in TAGS)})
    EXECUTE FUNCTION {OURS}.tell_ddl();
"""


def announce(db: Connection) -> bool:
    """Creates the trigger, or one that hears of more than that of an earlier version; False where we may not. One that
    was disabled stays so."""
    try:
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if trigger_state(db) in (None, "outdated"):
                db.execute(CREATE.encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    return is_announced(db)


def is_announced(db: Connection) -> bool:
    """Whether all of it is told in the stream."""
    return trigger_state(db) == "there"


def trigger_state(db: Connection) -> Literal["there", "disabled", "outdated"] | None:
    """None where there is no trigger. One that is outdated hears of less than we want to."""
    row = db.execute("SELECT evttags, evtenabled::text FROM pg_event_trigger WHERE evtname = %s", (TRIGGER,)).fetchone()
    if row is None:
        return None
    if row[1] not in _FIRES:
        return "disabled"
    return "there" if set(row[0] or TAGS) >= set(TAGS) else "outdated"


def unannounce(db: Connection) -> list[str]:
    """Takes it away; what that was. One that an administrator made for us is the administrator's to take."""
    if db.execute("SELECT 1 FROM pg_event_trigger WHERE evtname = %s", (TRIGGER,)).fetchone() is None:
        return []
    try:
        with db.transaction():
            db.execute(f"DROP EVENT TRIGGER {TRIGGER}".encode())
            db.execute(f"DROP SCHEMA {OURS} CASCADE".encode())
    except psycopg.errors.InsufficientPrivilege:
        return []
    return [f"event trigger {TRIGGER}", f"schema {OURS}"]
