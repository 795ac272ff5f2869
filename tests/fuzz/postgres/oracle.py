"""What PostgreSQL answers: the journal repeated in the order of the commits, in a scratch database of the same server.

It never looks at what we captured.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from tests.fuzz.postgres.case import Case, Query
from tests.fuzz.postgres.writers import JOURNAL, Connection, fill, run

_SLOT = "SELECT pg_create_logical_replication_slot('oracle', 'pgoutput')"
_COMMITS = """
SELECT xid::text::int8, data FROM pg_logical_slot_get_binary_changes('oracle', NULL, NULL, 'proto_version', '1',
'publication_names', 'oracle')
"""
_MOMENTS = ("date", "timestamp", "timestamptz")  # as text: Python has no infinity of them
_ZEROS = re.compile(r"(\.\d*?)0+(?=\+|$)")
_EMPTY, _FULL = "empty", "full"
Journal = Mapping[int, Sequence[str]]  # the statements of each transaction, in the order of the commits


def watch(db: Connection) -> None:
    """From here on the server remembers in which order transactions commit."""
    run(db, [JOURNAL, "CREATE PUBLICATION oracle FOR TABLE journal", _SLOT])


def journal(db: Connection) -> Journal:
    statements: dict[int, list[str]] = defaultdict(list)
    for xid, statement in db.execute("SELECT xid, statement FROM journal ORDER BY id"):
        statements[xid].append(statement)
    commits = [xid for xid, data in db.execute(_COMMITS) if bytes(data)[:1] == b"C"]
    db.execute("SELECT pg_drop_replication_slot('oracle')")
    return {xid: statements[xid] for xid in commits if xid in statements}


def repeat(db: Connection, statements: Sequence[str]) -> None:
    """One transaction of the journal."""
    with db.transaction():
        for statement in statements:
            done = db.execute(statement.encode()).rowcount
            assert done == 1 or statement.startswith("TRUNCATE"), f"the journal does not repeat: {done} by {statement}"


# The last one: an infinite numeric has no integer.
_RAISED = (psycopg.errors.DataError, psycopg.errors.CardinalityViolation, psycopg.errors.FeatureNotSupported)


def answer(db: Connection, query: Query) -> list[tuple[Any, ...]] | None:
    """None where PostgreSQL has an error for these rows."""
    with psycopg.RawCursor(db) as cursor:
        for moment in _MOMENTS:
            cursor.adapters.register_loader(moment, TextLoader)
        try:
            params = [str(param) for param in query.params]
            return cursor.execute(query.sql.encode(), params or None, prepare=False).fetchall()
        except _RAISED:
            return None


def contents(db: Connection, case: Case) -> list[list[str]]:
    return [sorted(text for (text,) in db.execute(_rows(table.name).encode())) for table in case.tables]


def _rows(table: str) -> str:
    return f"SELECT it::text FROM {table} AS it"


# Which queries are worth asking


def possible(db: Connection, case: Case, offered: Sequence[Query]) -> list[Query]:
    """PostgreSQL runs it on no rows and on some, and answers otherwise."""
    worlds = [_attempted(db, case, offered, rows) for rows in (_EMPTY, _FULL)]
    return [
        query
        for query, empty, full in zip(offered, *worlds, strict=True)
        if empty is not None and full is not None and empty != full
    ]


def _attempted(db: Connection, case: Case, offered: Sequence[Query], rows: str) -> list[list[str] | None]:
    with undone(db):
        fill(db, case)
        if rows == _EMPTY:
            run(db, (f"TRUNCATE {table.name} CASCADE" for table in case.tables))
        return [shown(db, query) for query in offered]


def shown(db: Connection, query: Query) -> list[str] | None:
    with undone(db):
        try:
            rows = answer(db, query)
        except psycopg.Error:
            return None
        return None if rows is None else sorted(map(exactly, rows))


@contextlib.contextmanager
def undone(db: Connection) -> Iterator[None]:
    with db.transaction(force_rollback=True):
        yield


# Values as they are compared


def exactly(row: Sequence[Any]) -> str:
    """To the bit: 1.0 is not 1.00, and 0.0 not -0.0."""
    return repr([_plain(value) for value in row])


def roughly(row: Sequence[Any]) -> str:
    """Where PostgreSQL may show any of several equal values: 1.0 is 1.00, and 0.0 is -0.0."""
    return repr([_even(_plain(value)) for value in row])


def _plain(value: Any) -> Any:
    """Moments as PostgreSQL writes them."""
    if not isinstance(value, date):
        return value
    text = value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    return _ZEROS.sub(r"\1", text.removesuffix(":00") if "+" in text else text)


def _even(value: Any) -> Any:
    match value:
        case Decimal():
            return value.normalize()
        case float():
            return value + 0.0
        case _:
            return value
