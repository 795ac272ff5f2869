"""Is this PostgreSQL ready to be live? The checks of `server` and `tables`, in the order in which they
matter.

It reads catalogs and settings, no row of the user's; what it changes it was told to, statement by statement.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psycopg

from headwater.model.errors import SourceError
from headwater.sources.doctor import EVERYTHING, DoctorScope, Finding
from headwater.sources.postgres.doctor import server as server_checks
from headwater.sources.postgres.doctor import tables as table_checks
from headwater.sources.postgres.server.connections import Connection, Sessions

_RELOAD = "SELECT pg_reload_conf()"
CHECKS: tuple[Callable[[Connection, str, DoctorScope], Iterator[Finding]], ...] = (
    server_checks.version,
    server_checks.primary,
    server_checks.encryption,
    server_checks.wal_level,
    server_checks.room,
    server_checks.role,
    server_checks.powers,
    server_checks.database_rights,
    table_checks.tables,
    server_checks.event_trigger,
    server_checks.slots,
    server_checks.publications,
    server_checks.retention,
    server_checks.collation,
    table_checks.policies,
)


class PostgresDoctor:
    def __init__(self, url: str, scope: DoctorScope = EVERYTHING) -> None:
        self._sessions, self._scope = Sessions(url), scope
        with self._sessions.lent() as db:
            self._role = scope.role or server_checks.one(db, "SELECT current_user::text")[0]

    def examine(self) -> tuple[Finding, ...]:
        with self._sessions.lent() as db:
            return tuple(finding for check in CHECKS for finding in check(db, self._role, self._scope))

    def apply_fix(self, finding: Finding) -> None:
        """A warning is a refusal: to grant what one may not grant is no error to PostgreSQL, and changes nothing."""
        with self._sessions.lent() as db, _warned(db) as warnings:
            db.execute(finding.fix.encode())
            if warnings:
                raise SourceError(f"PostgreSQL said: {warnings[0]}")
            if finding.fix.startswith("ALTER SYSTEM"):
                db.execute(_RELOAD)

    def close(self) -> None:
        self._sessions.close()


@contextlib.contextmanager
def _warned(db: Connection) -> Iterator[list[str]]:
    """What the server warns of meanwhile, in its words."""
    said: list[str] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            said.append(notice.message_primary or "")

    db.add_notice_handler(hear)
    try:
        yield said
    finally:
        db.remove_notice_handler(hear)
