"""Transactions that keep us waiting: what must wait for others ends at a deadline, with an error that names them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psycopg

from headwater.model.errors import SourceError
from headwater.sources.postgres.server.connections import Connection, Sessions

_OPEN = """
SELECT format('pid %%s of user %%s in database %%s (%%s, open for %%s s)', pid, usename, datname, state,
              extract(epoch FROM clock_timestamp() - xact_start)::int8),
       format('SELECT pg_terminate_backend(%%s)', pid)
FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND CASE WHEN %s::int8[] IS NULL THEN backend_xid IS NOT NULL ELSE pid = ANY (%s) END
UNION ALL
SELECT format('prepared transaction %%L in database %%s (open for %%s s)', gid, database,
              extract(epoch FROM clock_timestamp() - prepared)::int8),
       format('ROLLBACK PREPARED %%L', gid)
FROM pg_prepared_xacts WHERE %s::int8[] IS NULL OR (0 = ANY (%s) AND database = current_database())
LIMIT 3
"""


_AGAIN_S = 0.1
_CANCEL_S = 5.0


class Patience:
    """Of all who wait for transactions of others: until the source is closed. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statements: set[Connection] = set()
        self.over = threading.Event()

    def check(self) -> None:
        if self.over.is_set():
            raise SourceError("the server is shutting down", hint="subscribe again later")

    @contextlib.contextmanager
    def waiting(self, db: Connection) -> Iterator[None]:
        """What runs on the connection in this block may have to wait."""
        with self._lock:
            self.check()
            self._statements.add(db)
        try:
            yield
        finally:
            with self._lock:
                self._statements.discard(db)

    def end(self) -> None:
        """Nobody waits any more, and nobody begins to. Returns at once."""
        self.over.set()
        if self._statements:
            threading.Thread(target=self._cancel, name="headwater-cancel", daemon=True).start()

    def _cancel(self) -> None:
        """Again and again: a statement that is only about to begin does not hear of it."""
        while self._statements:
            for db in tuple(self._statements):
                cancel(db)
            threading.Event().wait(_AGAIN_S)


def cancel(db: Connection) -> None:
    with contextlib.suppress(psycopg.Error):
        db.cancel_safe(timeout=_CANCEL_S)


@contextlib.contextmanager
def deadline(sessions: Sessions, db: Connection, patience: Patience, seconds: float, doing: str) -> Iterator[None]:
    """Cancels what runs on the connection when the time is up, and raises with the transactions it waits for."""
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        cancel(db)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        with patience.waiting(db):
            yield
    except (SourceError, psycopg.Error):
        patience.check()
        if expired.is_set():
            raise blocked(sessions, seconds, doing) from None
        raise
    finally:
        timer.cancel()


def blocked(sessions: Sessions, seconds: float, doing: str, pids: list[int] | None = None) -> SourceError:
    """`pids`: only these are waited for, and with 0 the prepared transactions of this database; None where it is every
    transaction that has written."""
    with sessions.lent() as db:
        found = db.execute(_OPEN.encode(), (pids,) * 4).fetchall()
    who = "; ".join(told for told, _ in found) or "none that is still open"
    statements = "; ".join(statement for _, statement in found)
    return SourceError(
        f"could not {doing} within {seconds:g} s: PostgreSQL waits for transactions that began before: {who}",
        hint=f"end them ({statements}) and subscribe again" if statements else "subscribe again",
    )
