"""Every kind of statement, on every kind of table: the replica of the captured changes equals the table."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.sources.postgres.source import PostgresSource
from tests.sources.replica import Replica, drained
from tests.support.fuzz import MULTIPLIER

Db = psycopg.Connection[Any]
_ROUNDS = 60 * MULTIPLIER
_BIG = "(SELECT string_agg(md5(n::text || {seed}), '') FROM generate_series(1, 300) n)"

TABLES = {
    "key": ["CREATE TABLE t (id int PRIMARY KEY, a text, b int)"],
    "composite key": ["CREATE TABLE t (a text, id int, b int, PRIMARY KEY (id, a))"],
    "no key": ["CREATE TABLE t (id int, a text, b int)", "ALTER TABLE t REPLICA IDENTITY FULL"],
    "key and full": ["CREATE TABLE t (id int PRIMARY KEY, a text, b int)", "ALTER TABLE t REPLICA IDENTITY FULL"],
    "index": [
        "CREATE TABLE t (id int NOT NULL, a text, b int, CONSTRAINT one UNIQUE (id))",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX one",
    ],
    "generated": [
        "CREATE TABLE t (g int GENERATED ALWAYS AS (id * 2) STORED, id int PRIMARY KEY, a text, b int DEFAULT 5)"
    ],
    "dropped column": [
        "CREATE TABLE t (gone text, id int PRIMARY KEY, a text, b int)",
        "ALTER TABLE t DROP COLUMN gone",
    ],
    "partitions": [
        "CREATE TABLE t (id int, a text, b int, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (5)",
        "CREATE TABLE t_high (a text, b int, id int NOT NULL)",
        "ALTER TABLE t ATTACH PARTITION t_high FOR VALUES FROM (5) TO (MAXVALUE)",
    ],
}


def _statement(chance: random.Random, is_keyed: bool) -> str:
    id, other = chance.randrange(10), chance.randrange(10)
    word = chance.choice([f"'{chance.randrange(99)}'", "''", "NULL", _BIG.format(seed=chance.randrange(99))])
    word = "''" if word == "NULL" and is_keyed else word
    return chance.choice(
        [
            f"INSERT INTO t (id, a, b) VALUES ({id}, {word}, {other})",
            f"INSERT INTO t (id, a, b) VALUES ({id}, {word}, {other})",
            f"UPDATE t SET b = {other} WHERE id = {id}",
            f"UPDATE t SET a = {word} WHERE id > {id}",
            f"UPDATE t SET id = {id} WHERE id = {other}",
            f"DELETE FROM t WHERE id = {id}",
            f"UPDATE t SET b = b WHERE id = {id}",
            "TRUNCATE t" if chance.random() < 0.2 else f"DELETE FROM t WHERE b = {other}",
        ]
    )


def _play(db: Db, chance: random.Random, is_keyed: bool) -> None:
    """A transaction of a few statements, with savepoints around each; some are rolled back."""
    db.execute("BEGIN")
    for number in range(chance.randrange(1, 5)):
        db.execute(f"SAVEPOINT s{number}".encode())
        try:
            db.execute(_statement(chance, is_keyed).encode())
            undo = chance.random() < 0.15
        except (psycopg.errors.UniqueViolation, psycopg.errors.ProgramLimitExceeded):
            undo = True
        if undo:
            db.execute(f"ROLLBACK TO SAVEPOINT s{number}".encode())
    db.execute("ROLLBACK" if chance.random() < 0.15 else "COMMIT")


@pytest.mark.parametrize("kind", TABLES)
def test_random_statements(source: PostgresSource, db: Db, kind: str) -> None:
    chance = random.Random(kind)
    for statement in TABLES[kind]:
        db.execute(statement.encode())
    db.execute("INSERT INTO t (id, a, b) VALUES (1, 'x', 1), (7, repeat('long', 3000), 7)")
    source.capture("t")
    replica = Replica(source, "t")
    columns = ", ".join(replica.table.names)
    for number in range(_ROUNDS):
        _play(db, chance, kind != "no key")
        if number % 7 == 0:
            replica = _followed(source, replica)
            replica.holds(source.query(f"SELECT {columns} FROM t").rows)
        if number % 20 == 3:
            source.forget(replica.position)
    replica = _followed(source, replica)
    replica.holds(source.query(f"SELECT {columns} FROM t").rows)


def _followed(source: PostgresSource, replica: Replica) -> Replica:
    """Where a partition may have been truncated, the table ends as lost; then it is captured and read anew."""
    for item in drained(source, replica.position):
        replica.apply([item])
        if replica.reason is not None:
            assert "was truncated or rewritten" in replica.reason, replica.reason
            source.capture("t")
            again = Replica(source, "t")
            again.apply(drained(source, again.position))
            return again
    return replica


def test_a_large_value_that_stays_is_not_lost(source: PostgresSource, db: Db) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text)")
    db.execute("ALTER TABLE t ALTER COLUMN big SET STORAGE EXTERNAL")
    db.execute("INSERT INTO t VALUES (1, 1, repeat('x', 100000))")
    source.capture("t")
    start = source.position()
    db.execute("UPDATE t SET n = 2")
    db.execute("UPDATE t SET id = 3")
    first, second = [item for item in drained(source, start) if isinstance(item, Transaction) and item.changes]
    big = "x" * 100_000
    assert [(one.old, one.new) for one in (*first.changes, *second.changes)] == [
        ((1, 1, big), (1, 2, big)),
        ((1, 2, big), (3, 2, big)),
    ]


def test_truncate_with_cascade_is_deletes(source: PostgresSource, db: Db) -> None:
    db.execute("CREATE TABLE a (id int PRIMARY KEY)")
    db.execute("CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a)")
    db.execute("INSERT INTO a VALUES (1), (2)")
    db.execute("INSERT INTO b VALUES (10, 1)")
    for name in "ab":
        source.capture(name)
    start = source.position()
    with db.transaction():
        db.execute("INSERT INTO a VALUES (3)")
        db.execute("TRUNCATE a CASCADE")
        db.execute("INSERT INTO a VALUES (1)")
    (done,) = [item for item in drained(source, start) if isinstance(item, Transaction) and item.changes]
    assert sorted((one.table, one.old) for one in done.changes if one.old) == [
        ("a", (1,)),
        ("a", (2,)),
        ("a", (3,)),
        ("b", (10, 1)),
    ]
    assert [(one.table, one.new) for one in done.changes if one.new] == [("a", (3,)), ("a", (1,))]


def test_odd_names_and_other_schemas(source: PostgresSource, db: Db) -> None:
    db.execute('CREATE SCHEMA "My ""Shop"""')
    db.execute('CREATE TABLE "My ""Shop"""."Or.ders" ("Id" int PRIMARY KEY, "a ""b""" text, "select" int)')
    db.execute("CREATE SCHEMA sales")
    db.execute("CREATE TABLE sales.orders (id int PRIMARY KEY)")
    names = [table.name for table in source.tables()]
    assert names == ['"My ""Shop"""."Or.ders"', "sales.orders"]
    for name in names:
        source.capture(name)
    start = source.position()
    db.execute("""INSERT INTO "My ""Shop\"""."Or.ders" VALUES (1, 'x', 2)""")
    db.execute("INSERT INTO sales.orders VALUES (1)")
    told = [one for item in drained(source, start) if isinstance(item, Transaction) for one in item.changes]
    assert [(one.table, one.new) for one in told] == [(names[0], (1, "x", 2)), (names[1], (1,))]
    Replica(source, names[0]).holds([(1, "x", 2)])


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE t (id int)", "no replica identity"),
        ("CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", "unlogged"),
        ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS id", "materialised view"),
        ("CREATE SEQUENCE t", "sequence"),
        ("CREATE TABLE p (id int) PARTITION BY LIST (id); CREATE TABLE t PARTITION OF p DEFAULT", "is a partition"),
        ("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u () INHERITS (t)", "inherit"),
        ("CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING", "no replica identity"),
    ],
)
def test_what_cannot_be_captured_is_refused(source: PostgresSource, db: Db, statement: str, words: str) -> None:
    db.execute(statement.encode())
    with pytest.raises(SourceError, match=words):
        source.capture("t")
    if words == "no replica identity":
        db.execute("DELETE FROM t")  # the user's writes go on


def test_capturing_waits_for_those_who_write_already(source: PostgresSource, db: Db, url: str) -> None:
    """A transaction that began before the table was published is told by halves: its rows must be in the snapshot."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
    with psycopg.connect(url) as early:
        early.execute("INSERT INTO t VALUES (1, 'early')")
        with source._sessions.lent() as other:
            assert len(_writers_of(other)) == 1
        early.execute("INSERT INTO t VALUES (2, 'early')")
    source.capture("t")
    replica = Replica(source, "t")
    db.execute("UPDATE t SET a = 'later'")
    replica.apply(drained(source, replica.position))
    replica.holds([(1, "later"), (2, "later")])


def _writers_of(db: Db) -> dict[str, int]:
    from headwater.sources.postgres.catalog.publication import _writers

    row = db.execute("SELECT 't'::regclass::oid::int8").fetchone()
    assert row is not None
    return _writers(db, [row[0]])
