"""What we create in the database: one publication and one replication slot, both named after the data directory; and an
event trigger where we may.

A table is published only if it has a replica identity, and its rows are read only once nobody writes to it any more who
began before it was published. Nothing of the user's is ever altered.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from headwater.model.errors import SourceError
from headwater.sources.postgres.catalog.event_trigger import announce, unannounce
from headwater.sources.postgres.catalog.tables import OURS, PostgresTable, qualified, quoted
from headwater.sources.postgres.server.connections import Connection
from headwater.sources.postgres.server.lsn import parse_lsn

_LOOK_S = 0.005
_LEAVE_S = 2.0  # others, who may not want to
_OURS_LEAVE_S = 10.0  # we, who have let go: a busy server sees it late
_LOCK_MS = 500
_WRITERS = ("RowExclusiveLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")

_ALTERED = """
SELECT 1 FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid
WHERE pubname = %s
      AND NOT (pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot
               AND to_jsonb(r)->>'prqual' IS NULL AND to_jsonb(r)->>'prattrs' IS NULL)
"""


def name_for(directory: Path) -> str:
    """The same for the same directory; fits where PostgreSQL takes a name for a slot."""
    return f"{OURS}_{hashlib.blake2b(os.fsencode(directory.absolute()), digest_size=6).hexdigest()}"


def refuse_unready(db: Connection) -> None:
    (level,) = db.execute("SHOW wal_level").fetchone() or ("",)
    if level != "logical":
        raise SourceError(
            f"wal_level is {level}: it must be logical, or changes cannot be read",
            hint="ALTER SYSTEM SET wal_level = logical, and restart PostgreSQL",
        )


def create(db: Connection, name: str) -> None:
    """The publication, before the slot: the stream refuses to pass a time when it was not there."""
    refuse_unready(db)
    remove(db, name)
    db.execute(f"CREATE PUBLICATION {quoted(name)} WITH (publish_via_partition_root = true)".encode())
    announce(db)


def create_slot(db: Connection, name: str) -> int:
    """Where the stream begins. It waits for every transaction that has written and is still open, in any database."""
    row = db.execute("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (name,)).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def lack(db: Connection, name: str) -> str | None:
    """What became of the slot or the publication, where they cannot be read from any more."""
    row = db.execute("SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s", (name,)).fetchone()
    if row is None:
        return f"the replication slot {name} was dropped"
    if row[0] == "lost":
        return f"the replication slot {name} was invalidated by a limit of the server"
    if not db.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone():
        return f"the publication {name} was dropped"
    if db.execute(_ALTERED, (name,)).fetchone():
        return f"the publication {name} was altered to publish less"
    return None


def lag_bytes(db: Connection, name: str) -> int:
    """What the server keeps of its log because we have not acknowledged it."""
    sql = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8 FROM pg_replication_slots"
    row = db.execute(f"{sql} WHERE slot_name = %s".encode(), (name,)).fetchone()
    return max(0, int(row[0] or 0)) if row is not None else 0


def published(db: Connection, name: str) -> set[int]:
    sql = "SELECT prrelid::int8 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE pubname = %s"
    return {oid for (oid,) in db.execute(sql, (name,))}


def publish(db: Connection, name: str, shape: PostgresTable) -> None:
    if shape.oid not in published(db, name):
        db.execute(f"ALTER PUBLICATION {quoted(name)} ADD TABLE {qualified(shape)}".encode())


def unpublish(db: Connection, name: str, shape: PostgresTable) -> None:
    """Does not wait long for a table that its user has locked."""
    with db.transaction():
        db.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}".encode())
        db.execute(f"ALTER PUBLICATION {quoted(name)} DROP TABLE {qualified(shape)}".encode())


def wait_for_writers(db: Connection, oids: Iterable[int], seconds: float, over: threading.Event) -> list[int]:
    """Returns when all have ended who may have written to the tables before now. Nobody waits for us. When the time is
    up, or it is `over`: the processes still waited for; 0 stands for a prepared transaction, which has none."""
    asked, until_s = list(oids), time.monotonic() + seconds
    old = _writers(db, asked)
    while old and time.monotonic() < until_s:
        if over.wait(_LOOK_S):
            break
        old = {one: pid for one, pid in _writers(db, asked).items() if one in old}
    return sorted(set(old.values()))


def _writers(db: Connection, oids: list[int]) -> dict[str, int]:
    """Each transaction with its process."""
    sql = (
        "SELECT DISTINCT virtualtransaction, COALESCE(pid, 0)::int8 FROM pg_locks "
        "WHERE locktype = 'relation' AND granted AND relation = ANY (%s::int8[]) AND mode = ANY (%s) "
        "AND pid IS DISTINCT FROM pg_backend_pid() "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return dict(db.execute(sql, (oids, list(_WRITERS))).fetchall())


def remove(db: Connection, name: str | None = None) -> list[str]:
    """Ours in this database, or all by one name; what that was. A slot that somebody reads from stays."""
    like = (name or f"{OURS}_%").replace("_", r"\_")
    slots = _unused_slots(db, like, _LEAVE_S if name is None else _OURS_LEAVE_S)
    for slot in slots:
        db.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
    used = {slot for (slot,) in db.execute("SELECT slot_name FROM pg_replication_slots")}
    named = db.execute("SELECT pubname FROM pg_publication WHERE pubname LIKE %s", (like,)).fetchall()
    gone = [publication for (publication,) in named if publication not in used]
    for publication in gone:
        db.execute(f"DROP PUBLICATION {quoted(publication)}".encode())
    return [f"replication slot {slot}" for slot in slots] + [f"publication {one}" for one in gone]


def remove_all(db: Connection) -> list[str]:
    """Everything of ours in this database, and the event trigger with the last slot; what that was."""
    told = remove(db)
    return told if _slots(db) else told + unannounce(db)


def in_use(db: Connection) -> list[str]:
    """Slots of ours in this database that somebody reads from."""
    return sorted(slot for slot, active in _slots(db) if active)


def _slots(db: Connection) -> list[tuple[str, bool]]:
    """Those of ours in this database, and whether somebody reads from them."""
    sql = "SELECT slot_name, active FROM pg_replication_slots WHERE database = current_database()"
    return [(slot, active) for slot, active in db.execute(sql) if slot.startswith(f"{OURS}_")]


def _unused_slots(db: Connection, like: str, leave_s: float) -> list[str]:
    """Those nobody reads from; the server takes a moment to see that we are gone."""
    sql = "SELECT slot_name, active FROM pg_replication_slots WHERE database = current_database() AND slot_name LIKE %s"
    until_s = time.monotonic() + leave_s
    while True:
        slots = db.execute(sql, (like,)).fetchall()
        if time.monotonic() > until_s or not any(active for _, active in slots):
            return [slot for slot, active in slots if not active]
        time.sleep(_LOOK_S)
