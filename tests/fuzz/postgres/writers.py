"""Connections that live through the transactions of a case at once, and journal inside each what it did.

An action first locks the rows it means, then changes just those, and notes each by its whole text: so what the journal
says has the same effect when it is repeated in the order of the commits.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

from tests.fuzz.postgres.case import Action, Case, Transaction

JOURNAL = "CREATE TABLE journal (id serial PRIMARY KEY, xid bigint, statement text)"
_NOTE = "INSERT INTO journal (xid, statement) VALUES (pg_current_xact_id()::text::int8, %s)"
_SETTINGS = (
    "SET deadlock_timeout = '20ms'",
    "SET TimeZone = 'UTC'",
    "SET jit = off",  # tables that nobody analysed seem large
    "SET max_parallel_workers_per_gather = 0",
)
_TONGUES = ("(provider = icu, locale = 'und')", "FROM ucs_basic")
_ABORTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_REFUSALS = (psycopg.errors.IntegrityError, psycopg.errors.DataError)
Connection = psycopg.Connection[Any]


def run(db: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        db.execute(statement.encode())


def fill(db: Connection, case: Case) -> None:
    """The tables and their rows; those whose key is taken are left out."""
    make_tongue(db)
    run(db, [*case.created(), *_SETTINGS])
    for row in case.rows:
        with contextlib.suppress(*_REFUSALS), db.transaction():
            db.execute(_inserted(row).encode())


def make_tongue(db: Connection) -> None:
    """A collation that is not that of bytes, where the server was built with one."""
    for definition in _TONGUES:
        with contextlib.suppress(psycopg.Error), db.transaction():
            db.execute(f"CREATE COLLATION IF NOT EXISTS tongue {definition}".encode())


def lived(url: str, sessions: Sequence[Sequence[Transaction]]) -> Counter[str]:
    """Each session in a connection of its own; what became of their transactions, by name."""
    counts: Counter[str] = Counter()
    threads = [threading.Thread(target=_session, args=(url, session, counts)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def _session(url: str, session: Sequence[Transaction], counts: Counter[str]) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        run(db, _SETTINGS)
        for transaction in session:
            counts[_transacted(db, transaction, counts)] += 1


def _transacted(db: Connection, transaction: Transaction, counts: Counter[str]) -> str:
    db.execute(f"BEGIN ISOLATION LEVEL {transaction.level}".encode())
    try:
        for action in transaction.actions:
            counts[acted(db, action, lambda statement: db.execute(_NOTE, (statement,)))] += 1
        db.execute(b"COMMIT" if transaction.committed else b"ROLLBACK")
    except _ABORTS as abort:
        db.execute(b"ROLLBACK")
        return "deadlocks" if isinstance(abort, _ABORTS[0]) else "serialization failures"
    return "commits" if transaction.committed else "rollbacks"


def acted(db: Connection, action: Action, note: Callable[[str], object]) -> str:
    """Inside a transaction; what became of it."""
    db.execute(b"SAVEPOINT s")
    try:
        for statement, noted in _statements(db, action):
            if db.execute(statement.encode()).rowcount:
                note(noted)
    except _REFUSALS:
        db.execute(b"ROLLBACK TO s")
        return "refused actions"
    if action.undone:
        db.execute(b"ROLLBACK TO s")
    return "undone actions" if action.undone else "actions"


def _statements(db: Connection, action: Action) -> list[tuple[str, str]]:
    """What to do, and how to say it where rows have other places."""
    match action.verb:
        case "INSERT":
            return [(_inserted(action), _inserted(action))]
        case "REPEAT":
            return [(action.text, action.text)]
        case "TRUNCATE":
            return [(f"TRUNCATE {action.table} CASCADE",) * 2]
        case _:
            return [_changed(action, *row) for row in db.execute(_locked(action).encode()).fetchall()]


def _inserted(action: Action) -> str:
    return f"INSERT INTO {action.table} {action.text}"


def _locked(action: Action) -> str:
    found = f"SELECT tableoid::int8, ctid::text, it::text FROM {action.table} AS it WHERE {action.where}"
    return f"{found} LIMIT {action.most} FOR UPDATE"


def _changed(action: Action, part: int, place: str, text: str) -> tuple[str, str]:
    start = f"DELETE FROM {action.table}"
    if action.verb == "UPDATE":
        start = f"UPDATE {action.table} SET {action.text}"
    quoted = text.replace("'", "''")
    same = f"SELECT tableoid, ctid FROM {action.table} AS it WHERE it::text = '{quoted}' LIMIT 1"
    return f"{start} WHERE (tableoid, ctid) = ({part}, '{place}')", f"{start} WHERE (tableoid, ctid) = ({same})"
