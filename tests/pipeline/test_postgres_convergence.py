"""Law 1 on PostgreSQL: four connections write at once, and at every commit each live query has the oracle's rows.

Writers journal their statements inside each transaction. The order of the commits is the server's word, through a slot
of the test's own; the oracle replays the journal in it, and never looks at what we captured.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.model.emission import Diff, Emission, State, apply
from headwater.model.errors import SqlError
from headwater.plan.planner import effective_sql, plan
from headwater.sources.postgres.origin import PostgresSource
from tests.support.fuzz import MULTIPLIER
from tests.support.postgres import VERSIONS, Postgres, Servers
from tests.support.postgres_queries import SCHEMA, Asking, Writing

pytestmark = pytest.mark.slow

_JOURNAL = "CREATE TABLE journal (id serial PRIMARY KEY, xid bigint, statement text)"
_NOTE = "INSERT INTO journal (xid, statement) VALUES (pg_current_xact_id()::text::int8, %s)"
_SLOT = "SELECT pg_create_logical_replication_slot('oracle', 'pgoutput')"
_COMMITS = """
SELECT xid::text::int8, data FROM pg_logical_slot_get_binary_changes('oracle', NULL, NULL, 'proto_version', '1',
'publication_names', 'oracle')
"""
_WRITERS = 4
_TRANSACTIONS = 25
_QUERIES = 24 * MULTIPLIER
_PATIENCE_S = 60.0
_MISHAPS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Postgres:
    return servers[request.param]


class Recorded:
    def __init__(self, live: headwater.LiveResult) -> None:
        self.emissions: list[Emission] = []
        self.state = State(list(live.rows), list(live.hashes), live.columns, live.seq, live.gen, live.position)
        live.listen(lambda emission: self.emissions.append(emission) if emission is not None else None)

    def advance(self, position: int) -> None:
        while self.emissions and self.emissions[0].position <= position:
            self.state = apply(self.state, self.emissions.pop(0))


def test_every_commit_of_four_connections_gives_the_oracles_rows(server: Postgres, tmp_path: Path) -> None:
    with server.database() as database, server.database() as scratch:
        _fill(server, database)
        queries = list(_asked(server.url(database)))
        with headwater.connect(server.url(database), runner="inline", data_dir=tmp_path) as db:
            journal = Recorded(db.query("SELECT id, xid FROM journal", live=True))
            lives = [db.query(sql, live=True) for sql, _, _ in queries]
            assert {live.strategy for live in lives} == {"incremental"}
            recorded = [Recorded(live) for live in lives]
            mishaps = _write(server.url(database))
            end = db.position()
            assert all(live.wait(end, timeout=_PATIENCE_S) for live in lives)
            assert {live.reason for live in lives} == {None}
        assert mishaps["deadlocks"] + mishaps["failures"] > 0
        _check(server, database, scratch, queries, journal, recorded)


def _fill(server: Postgres, database: str) -> None:
    with server.connect(database) as db:
        for statement in (*SCHEMA, _JOURNAL, "CREATE PUBLICATION oracle FOR TABLE journal", _SLOT):
            db.execute(statement.encode())


def _asked(url: str) -> Iterator[tuple[str, str, bool]]:
    """Queries that we follow ourselves, what they are made into, and whether they are ordered."""
    source, asking, found = PostgresSource(url), Asking(7), 0
    tables = source.tables()
    source.close()
    while found < _QUERIES:
        sql = asking.query()
        try:
            planned = plan(sql, tables)
        except SqlError:
            continue
        found += 1
        yield sql, effective_sql(planned.template, planned.instance), planned.template.ordered


# Writers


def _write(url: str) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    threads = [threading.Thread(target=_transact, args=(url, number, counts)) for number in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def _transact(url: str, seed: int, counts: dict[str, int]) -> None:
    chance, writing = random.Random(seed), Writing(seed)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET deadlock_timeout = '20ms'")
        for _ in range(_TRANSACTIONS):
            level = chance.choice(("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"))
            db.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            try:
                for _ in range(chance.choice((1, 2, 4, 8))):
                    _one(db, chance, writing)
                db.execute(b"ROLLBACK" if chance.random() < 0.15 else b"COMMIT")
            except _MISHAPS as mishap:
                counts["deadlocks" if isinstance(mishap, _MISHAPS[0]) else "failures"] += 1
                db.execute("ROLLBACK")


def _one(db: psycopg.Connection[Any], chance: random.Random, writing: Writing) -> None:
    """A statement, noted if it did something; perhaps taken back again, or failing on a key that is there."""
    db.execute("SAVEPOINT s")
    statement = writing.statement()
    try:
        if db.execute(statement.encode()).rowcount:
            db.execute(_NOTE, (statement,))
    except psycopg.errors.UniqueViolation:
        db.execute("ROLLBACK TO s")
    if chance.random() < 0.2:
        db.execute("ROLLBACK TO s")


# The oracle


def _check(
    server: Postgres,
    database: str,
    scratch: str,
    queries: list[tuple[str, str, bool]],
    journal: Recorded,
    recorded: list[Recorded],
) -> None:
    statements, commits = _journal(server, database)
    positions = _positions(journal.emissions)
    assert sorted(commits, key=positions.__getitem__) == commits, "another order than the server's"
    with server.connect(scratch) as db:
        for statement in (*SCHEMA, "SET TimeZone = 'UTC'"):
            db.execute(statement.encode())
        for xid in commits:
            with db.transaction():
                for statement in statements[xid]:
                    assert db.execute(statement.encode()).rowcount == 1, statement
            for (sql, effective, ordered), one in zip(queries, recorded, strict=True):
                one.advance(positions[xid])
                wanted = [repr(row) for row in db.execute(effective.encode(), prepare=False)]
                found = [repr(tuple(row.values())) for row in one.state.rows]
                assert (found if ordered else sorted(found)) == (wanted if ordered else sorted(wanted)), (xid, sql)
    assert len(commits) > _WRITERS * _TRANSACTIONS // 3
    assert not any(one.emissions for one in recorded), "emissions at positions where nothing was committed"


def _journal(server: Postgres, database: str) -> tuple[dict[int, list[str]], list[int]]:
    """The statements of each transaction, and the transactions in the order of their commits."""
    statements: dict[int, list[str]] = defaultdict(list)
    with server.connect(database) as db:
        for xid, statement in db.execute("SELECT xid, statement FROM journal ORDER BY id"):
            statements[xid].append(statement)
        commits = [xid for xid, data in db.execute(_COMMITS) if bytes(data)[:1] == b"C"]
        db.execute("SELECT pg_drop_replication_slot('oracle')")
    return statements, [xid for xid in commits if xid in statements]


def _positions(emissions: list[Emission]) -> dict[int, int]:
    """Where our log has each transaction: never two at one place."""
    found: dict[int, int] = {}
    for emission in emissions:
        assert isinstance(emission, Diff)
        (xid,) = {change.new["xid"] for change in emission.changes if change.new is not None}
        found[int(str(xid))] = emission.position
    assert len(set(found.values())) == len(found)
    return found
