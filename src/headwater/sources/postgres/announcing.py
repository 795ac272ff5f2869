"""DDL told at once: an event trigger that says, in the stream itself, that some table was altered or dropped.

Only where we may create one; elsewhere the catalog is looked at now and then. It says nothing but that it is time to
look, and cannot fail in a way that would undo the user's statement.
"""

from __future__ import annotations

import psycopg

from headwater.sources.postgres.sessions import Connection
from headwater.sources.postgres.shape import OURS

PREFIX = f"{OURS}.ddl"
TRIGGER = f"{OURS}_ddl"
_LOCK = 0x6865_6164  # two pipelines may begin at once
CREATE = f"""
CREATE SCHEMA IF NOT EXISTS {OURS};
CREATE OR REPLACE FUNCTION {OURS}.tell_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_logical_emit_message(true, '{PREFIX}', tg_tag);
END $$;
CREATE EVENT TRIGGER {TRIGGER} ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'DROP TABLE', 'CREATE TABLE', 'ALTER PUBLICATION', 'DROP PUBLICATION', 'DROP SCHEMA',
                 'ALTER SCHEMA', 'ALTER TYPE')
    EXECUTE FUNCTION {OURS}.tell_ddl();
"""


def announce(db: Connection) -> bool:
    """Creates the trigger; False where we may not."""
    try:
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if db.execute("SELECT 1 FROM pg_event_trigger WHERE evtname = %s", (TRIGGER,)).fetchone() is None:
                db.execute(CREATE.encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


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
