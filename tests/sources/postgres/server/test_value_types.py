"""Values of every type: the same by stream, by snapshot and by query, and equal to what PostgreSQL writes."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from headwater.model.change import Transaction
from headwater.model.value import Type
from headwater.sources.postgres.server.connections import answered
from headwater.sources.postgres.source import PostgresSource
from tests.sources.replica import Replica, drained, exact

Db = psycopg.Connection[Any]

_BEFORE = [
    "CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy')",
    "CREATE TYPE pair AS (n int, word text)",
    "CREATE DOMAIN small AS int CHECK (VALUE < 1000)",
    "CREATE DOMAIN smaller AS small CHECK (VALUE < 100)",
]
# type: (ours, values as SQL)
_TYPES: dict[str, tuple[Type, list[str]]] = {
    "smallint": (Type.INTEGER, ["-32768", "32767"]),
    "integer": (Type.INTEGER, ["-2147483648", "0"]),
    "bigint": (Type.INTEGER, ["-9223372036854775808", "9223372036854775807"]),
    "oid": (Type.INTEGER, ["4294967295"]),
    "smaller": (Type.INTEGER, ["42"]),
    "boolean": (Type.BOOLEAN, ["true", "false"]),
    "real": (Type.REAL, ["1.1", "'NaN'", "'-Infinity'", "3.4028235e38"]),
    "double precision": (Type.REAL, ["0.1", "'-0'", "1e-307", "'Infinity'"]),
    "numeric": (Type.NUMERIC, ["1.50", "'NaN'", "123456789012345678901234567890.123456789", "-0.00"]),
    "numeric(12,2)": (Type.NUMERIC, ["1.5"]),
    "money": (Type.OTHER, ["'1234.5'"]),
    "text": (Type.TEXT, ["''", "'größer ☃'", "E'a\\nb\\t\"c\"\\\\'"]),
    "varchar(10)": (Type.TEXT, ["'short'"]),
    "char(5)": (Type.TEXT, ["'ab'"]),
    "mood": (Type.TEXT, ["'happy'", "'it''s ok'"]),
    "bytea": (Type.BLOB, ["''", "'\\x00ff5c'"]),
    "date": (Type.DATE, ["'2024-02-29'", "'infinity'", "'0044-03-15 BC'"]),
    "time": (Type.TIME, ["'23:59:59.999999'", "'24:00'"]),
    "timetz": (Type.OTHER, ["'12:00+05:30'"]),
    "timestamp": (Type.TIMESTAMP, ["'2024-02-29 12:34:56.789'", "'0044-03-15 12:00 BC'"]),
    "timestamptz": (Type.TIMESTAMPTZ, ["'2024-02-29 12:34:56.789+09'", "'-infinity'"]),
    "interval": (Type.INTERVAL, ["'1 year 2 mons -3 days 04:05:06.7'"]),
    "uuid": (Type.UUID, ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"]),
    "json": (Type.JSON, ["""'{"b": 1,  "a": [null, "x"]}'"""]),
    "jsonb": (Type.JSON, ["""'{"b": 1,  "a": [null, "x"]}'"""]),
    "xml": (Type.TEXT, ["'<a>1</a>'"]),
    "inet": (Type.OTHER, ["'192.168.0.1/24'", "'::1'"]),
    "cidr": (Type.OTHER, ["'10.0.0.0/8'"]),
    "macaddr": (Type.OTHER, ["'08:00:2b:01:02:03'"]),
    "bit(4)": (Type.OTHER, ["B'1010'"]),
    "integer[]": (Type.OTHER, ["'{1,NULL,3}'", "'{}'", "'{{1,2},{3,4}}'", "'[0:1]={1,2}'"]),
    "text[]": (Type.OTHER, ["""ARRAY['a,b', '"q"', NULL, '']"""]),
    "mood[]": (Type.OTHER, ["ARRAY['sad', NULL, 'happy']::mood[]"]),
    "numeric[]": (Type.OTHER, ["'{1.50,NaN}'"]),
    "timestamptz[]": (Type.OTHER, ["ARRAY['2024-02-29 12:34:56.789+09'::timestamptz]"]),
    "smaller[]": (Type.OTHER, ["'{1,42}'"]),
    "box[]": (Type.OTHER, ["'{(1,1),(0,0);(2,2),(1,1)}'"]),
    "int4range": (Type.OTHER, ["'[1,5)'", "'empty'"]),
    "tstzrange": (Type.OTHER, ["'[2024-01-01 00:00+02,)'"]),
    "pair": (Type.OTHER, ["ROW(1, 'a \"b\", c')"]),
    "pair[]": (Type.OTHER, ["ARRAY[ROW(1, 'a \"b\", c'), NULL]::pair[]"]),
    "int4multirange": (Type.OTHER, ["'{[1,5),[7,9)}'", "'{}'"]),
    "point": (Type.OTHER, ["'(1.5,-2)'"]),
    "tsvector": (Type.OTHER, ["'a:1 fat:2 cat:3'"]),
}
_SETTINGS = (
    "SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'; SET IntervalStyle = 'iso_8601'; SET extra_float_digits = 0"
)


@pytest.fixture
def typed(db: Db) -> Db:
    """A table with a column of each type, written by somebody with settings of their own."""
    for statement in _BEFORE:
        db.execute(statement.encode())
    if not _has_xml(db):
        _TYPES.pop("xml", None)
    columns = ", ".join(f"c{place} {type}" for place, type in enumerate(_TYPES))
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})".encode())
    db.execute(_SETTINGS.encode())
    return db


def _has_xml(db: Db) -> bool:
    try:
        db.execute("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def _insert(db: Db, ids: range, chance: random.Random) -> None:
    for id in ids:
        values = [
            "NULL" if chance.random() < 0.2 else f"({chance.choice(values)})::{type}"
            for type, (_, values) in _TYPES.items()
        ]
        db.execute(f"INSERT INTO t VALUES ({id}, {', '.join(values)})".encode())


def test_every_type_reads_the_same_everywhere(source: PostgresSource, typed: Db) -> None:
    chance = random.Random(5)
    _insert(typed, range(20), chance)
    table = source.capture("t")
    assert [column.type for column in table.columns[1:]] == [ours for ours, _ in _TYPES.values()]
    snapshot = Replica(source, "t")
    start = source.position()
    typed.execute("UPDATE t SET id = id + 1000")
    _insert(typed, range(20, 40), chance)
    items = drained(source, start)
    snapshot.apply(items)
    answered = source.query("SELECT * FROM t").rows
    snapshot.holds(answered)
    streamed = {
        change.new[0]: change.new
        for item in items
        if isinstance(item, Transaction)
        for change in item.changes
        if change.new is not None
    }
    assert sorted(map(exact, streamed.values())) == sorted(map(exact, answered))
    _equals_the_driver(source, {row[0]: row for row in answered})


def _equals_the_driver(source: PostgresSource, rows: dict[Any, Any]) -> None:
    """As PostgreSQL reads what we hold: each value, written as a parameter, is what is in the table."""
    with source._sessions.lent() as db:
        for place, type in enumerate(_TYPES):
            shown = dict(db.execute(f"SELECT id, format('%s', c{place}) FROM t".encode()).fetchall())
            for id, text in shown.items():
                value = rows[id][place + 1]
                _, [(again,)] = answered(db, f"SELECT format('%s', $1::{type})", [value])
                assert again == text, (type, value)
