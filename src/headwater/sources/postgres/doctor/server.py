"""What a live query needs of the server, the role and the database. Each check is a function that reads and tells.

`user` is the role that Headwater connects as; whoever looks may be another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.model.errors import SourceError
from headwater.model.limits import DEFAULT
from headwater.sources.doctor import DoctorScope, Finding, Severity
from headwater.sources.postgres.catalog.event_trigger import CREATE, TRIGGER, trigger_state
from headwater.sources.postgres.catalog.tables import OURS, quoted
from headwater.sources.postgres.server.connections import Connection

VERSION_MIN = 140000
_RESTART = "restart PostgreSQL"
_CHECKED = ("verify-ca", "verify-full")
_BYTEWISE = ("C", "POSIX", "C.UTF-8", "C.utf8")


def one(db: Connection, sql: str, *params: Any) -> tuple[Any, ...]:
    """The row of a question that always has one."""
    row = db.execute(sql.encode(), params or None).fetchone()
    assert row is not None
    return tuple(row)


def version(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    needed, found = "PostgreSQL 14 or later", db.info.parameter_status("server_version") or "unknown"
    if db.info.server_version >= VERSION_MIN:
        yield Finding("version", needed, found)
    else:
        yield Finding("version", needed, found, Severity.BAD, then="upgrade the server")


def primary(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """A standby takes neither publications nor writes."""
    (standby,) = one(db, "SELECT pg_is_in_recovery()")
    if standby:
        then = "connect to the primary; with several hosts in the address, add target_session_attrs=read-write"
        yield Finding(
            "server", "the primary", "a standby, on which no publication can be created", Severity.BAD, then=then
        )


def encryption(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    needed = "TLS with a verified certificate, unless the server is on this machine"
    given = {option.keyword: option.val or b"" for option in db.pgconn.info}
    mode, host = given.get(b"sslmode", b"").decode(), db.info.host
    row = db.execute("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl").fetchone()
    if row is not None:
        checked = mode in _CHECKED
        found = f"{row[0]}, {'certificate verified' if checked else 'certificate not verified'}"
        then = "" if checked else "add sslmode=verify-full and sslrootcert=… to the address"
        yield Finding("encryption", needed, found, Severity.FINE if checked else Severity.NOTE, then=then)
    elif host.startswith("/") or host in ("localhost", "127.0.0.1", "::1"):
        yield Finding("encryption", needed, "none, on this machine")
    else:
        then = "turn on ssl at the server, then add sslmode=verify-full to the address"
        yield Finding("encryption", needed, f"none: rows are sent unencrypted to {host}", Severity.NOTE, then=then)


def wal_level(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    yield _setting(db, "wal_level", "logical", lambda value: value == "logical", "logical")


def room(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """One slot and one sender for each data directory, beside those that others use."""
    slots, ours, senders = one(
        db,
        "SELECT (SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_replication_slots WHERE "
        f"database = current_database() AND slot_name LIKE '{OURS}\\_%'), (SELECT count(*) FROM pg_stat_replication)",
    )
    for name, used in (("max_replication_slots", slots), ("max_wal_senders", senders)):
        needed = f"more than {used}, one per data directory" if not ours else f"at least {used}"
        enough = max(used, 1) if ours else used + 1
        yield _setting(db, name, needed, lambda value, enough=enough: int(value) >= enough, str(used + 10))


def _setting(db: Connection, name: str, needed: str, fits: Any, wanted: str) -> Finding:
    value, waits = one(db, "SELECT setting, pending_restart FROM pg_settings WHERE name = %s", name)
    if fits(value):
        return Finding(name, needed, value)
    if waits:
        return Finding(
            name, needed, f"{value}; another value is set and takes effect after a restart", Severity.BAD, then=_RESTART
        )
    return Finding(name, needed, value, Severity.BAD, f"ALTER SYSTEM SET {name} = {wanted}", _RESTART)


_ROLE = """
SELECT rolsuper, rolreplication OR EXISTS (
           SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(u.oid, r.oid, 'MEMBER'))
FROM pg_roles u WHERE rolname = %s
"""


def role(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """Hosted servers have a role in place of the attribute."""
    row = db.execute(_ROLE, (user,)).fetchone()
    subject, fix = f"role {user}", f"ALTER ROLE {quoted(user)} REPLICATION"
    if row is None:
        raise SourceError(f"there is no role {user!r}", hint=f"CREATE ROLE {quoted(user)} LOGIN REPLICATION")
    if any(row):
        yield Finding(subject, "REPLICATION", "superuser" if row[0] else "granted")
    else:
        yield Finding(subject, "REPLICATION", "not granted", Severity.BAD, fix)


_POWERS = """
SELECT array_remove(array_agg(DISTINCT CASE WHEN u.rolsuper THEN 'superuser' ELSE r.rolname::text END), NULL)
FROM pg_roles u
LEFT JOIN pg_roles r ON r.rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
    AND pg_has_role(u.oid, r.oid, 'MEMBER')
WHERE u.rolname = %s
"""


def powers(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """Clients' queries run with the role's rights, read-only: what it cannot do, no query can."""
    (found,) = one(db, _POWERS, user)
    needed = "no server-wide rights: clients' queries run with the rights of this role"
    if found:
        fix = "CREATE ROLE headwater LOGIN REPLICATION IN ROLE pg_read_all_data"
        yield Finding(f"role {user}", needed, ", ".join(found), Severity.NOTE, fix, by_hand=True)
    else:
        yield Finding(f"role {user}", needed, "none")


def database_rights(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    (database,) = one(db, "SELECT current_database()")
    for right, why in (("CREATE", "for the publication"), ("TEMPORARY", "to find out what a query reads")):
        (granted,) = one(db, "SELECT has_database_privilege(%s, current_database(), %s)", user, right)
        subject, needed = f"database {database}", f"{right}, {why}"
        fix = f"GRANT {right} ON DATABASE {quoted(database)} TO {quoted(user)}"
        yield (
            Finding(subject, needed, "granted")
            if granted
            else Finding(subject, needed, "not granted", Severity.BAD, fix)
        )


def event_trigger(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """Without one the catalog is looked at once a second: later, not wrong."""
    needed = "an event trigger, to notice DDL at once"
    state = trigger_state(db)
    (is_super,) = one(db, "SELECT rolsuper FROM pg_roles WHERE rolname = %s", user)
    if state == "there":
        yield Finding("schema changes", needed, "created")
    elif state == "disabled":
        fix = f"ALTER EVENT TRIGGER {TRIGGER} ENABLE"
        yield Finding("schema changes", needed, "disabled: DDL is noticed within a second", Severity.NOTE, fix)
    elif is_super:
        yield Finding("schema changes", needed, "created with the first live query")
    else:
        there = "none" if state is None else "one of an older version"
        found = f"{there}, and only a superuser can create one: DDL is noticed within a second"
        yield Finding("schema changes", needed, found, Severity.NOTE, CREATE.strip().rstrip(";"))


_SLOTS = f"""
SELECT slot_name, active, wal_status, pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8
FROM pg_replication_slots
WHERE database = current_database() AND slot_name LIKE '{OURS}\\_%' AND NOT pg_is_in_recovery() ORDER BY slot_name
"""


def slots(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """Ours in this database; a slot holds back the write-ahead log from where it was last acknowledged."""
    limit = DEFAULT.slot_lag_bytes_max
    for name, active, status, lag in db.execute(_SLOTS.encode()):
        subject, needed = f"slot {name}", f"in use, at most {_size(limit)} behind"
        fix = f"SELECT pg_drop_replication_slot('{name}')"
        found = f"{'in use' if active else 'not in use'}, {_size(lag or 0)} behind, {status}"
        if status == "lost":
            then = "live queries of its data directory end with this reason; clients can subscribe again"
            yield Finding(subject, needed, f"{found}: its changes are lost", Severity.BAD, fix, then)
        elif (lag or 0) > limit:
            yield Finding(subject, needed, found, Severity.BAD, fix, "or let Headwater catch up", by_hand=True)
        elif not active:
            then = "if that Headwater will not be started again; until then the log grows and may fill the disk"
            yield Finding(subject, needed, found, Severity.BAD, fix, then, by_hand=True)
        else:
            yield Finding(subject, needed, found)


_PUBLICATIONS = f"""
SELECT pubname::text FROM pg_publication WHERE pubname LIKE '{OURS}\\_%'
AND pubname NOT IN (SELECT slot_name FROM pg_replication_slots) AND NOT pg_is_in_recovery() ORDER BY pubname
"""


def publications(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """Ours that nothing is read through: left by a process that was killed, or not read through yet."""
    for (name,) in db.execute(_PUBLICATIONS.encode()).fetchall():
        fix, then = f"DROP PUBLICATION {quoted(name)}", "if no Headwater is being started just now"
        found = "no slot: left by a process that was killed, which costs nothing"
        yield Finding(f"publication {name}", "a slot of the same name", found, Severity.NOTE, fix, then, by_hand=True)


def retention(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    """What becomes of a slot while Headwater is away: the server decides."""
    (keep,) = one(db, "SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'")
    needed = "a limit on the log that a slot keeps while Headwater is not running"
    if keep < 0:
        fix, found = "ALTER SYSTEM SET max_slot_wal_keep_size = '64GB'", "none: it may fill the disk"
        then = "choose a size that fits the disk; beyond it, live queries start again with a fresh result"
        yield Finding("max_slot_wal_keep_size", needed, found, Severity.NOTE, fix, then, by_hand=True)
    else:
        yield Finding("max_slot_wal_keep_size", needed, _size(keep << 20))
    idle = db.execute("SELECT setting::int8 FROM pg_settings WHERE name = 'idle_replication_slot_timeout'").fetchone()
    if idle is not None and idle[0] > 0:
        found = f"{idle[0]} s: after a longer stop, live queries start again with a fresh result"
        needed = "longer than Headwater is ever stopped"
        yield Finding("idle_replication_slot_timeout", needed, found, Severity.NOTE)


def collation(db: Connection, user: str, scope: DoctorScope) -> Iterator[Finding]:
    name, database = one(db, "SELECT datcollate, datname FROM pg_database WHERE datname = current_database()")
    needed = "C, so that Headwater can sort text itself"
    if name in _BYTEWISE:
        yield Finding("collation", needed, name)
    else:
        then = 'queries that sort text are answered by PostgreSQL; ORDER BY name COLLATE "C" sorts bytewise'
        yield Finding("collation", needed, name, Severity.NOTE, then=then)
    yield from _collation_version(db, database)


def _collation_version(db: Connection, database: str) -> Iterator[Finding]:
    """A library that sorts otherwise than it did when the indexes were built: PostgreSQL's own answers may be wrong."""
    if db.info.server_version < 150000:
        return
    built, now = one(
        db,
        "SELECT datcollversion, pg_database_collation_actual_version(oid) FROM pg_database "
        "WHERE datname = current_database()",
    )
    if built is not None and now is not None and built != now:
        fix, then = f"ALTER DATABASE {quoted(database)} REFRESH COLLATION VERSION", "REINDEX DATABASE first"
        found = f"indexes were built with {built}, the server has {now}"
        yield Finding(
            "collation version",
            "the version that indexes were built with",
            found,
            Severity.NOTE,
            fix,
            then,
            by_hand=True,
        )


def _size(count: int) -> str:
    """Bytes, as people read them."""
    size, units = float(count), iter(("bytes", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1024 and unit != "GB":
        size, unit = size / 1024, next(units)
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
