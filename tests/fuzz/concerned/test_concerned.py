"""Random queries that ask for values, with many instances each, and random changes: whatever changes an answer was said
to concern its instance, on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headwater.model.errors import SqlError
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.sqlite.memory import MemorySource
from tests.fuzz.concerned.check import Concerns
from tests.support.fuzz import MULTIPLIER
from tests.support.postgres import VERSIONS, Servers

_SQLITE = ("INTEGER", "TEXT", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "NUMERIC", "REAL", "BLOB", "")
_MIXED = (None, 1, "1", "1.0", " 1", 1.0, 2, "2", 0.5, "0.5", "a", "A", "a ", "b", b"a", b"1", 2**62, "é", "1e0")
_POSTGRES: dict[str, tuple[Any, ...]] = {
    "integer": (None, 1, 2, -3, 4),
    "bigint": (None, 1, 2**53, 2**53 + 1, 5),
    "text": (None, "a", "A", "a ", "b", ""),
    "varchar(6)": (None, "a", "A", "a ", "b", "é"),
    "char(4)": (None, "a", "A", "a ", "b", ""),
    "boolean": (None, True, False),
    "date": (None, date(2024, 1, 2), date(2025, 1, 2), "2024-01-02"),
    "uuid": (None, UUID(int=1), UUID(int=2), str(UUID(int=1)).upper()),
    "numeric": (None, 1, 2, "1.0", "1.00"),
    "double precision": (None, 0.5, 1.0, "-0", "0"),
    "worded": (None, "a", "A", "b"),  # a domain
    'text COLLATE "folding"': (None, "a", "A", "b"),
}
_FOLDING = "CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"


@pytest.mark.parametrize("seed", range(4 * MULTIPLIER))
def test_on_sqlite_what_changes_an_answer_concerns_it(seed: int) -> None:
    random, tally = Random(seed), Counter[str]()
    for type in _SQLITE:
        source = MemorySource(f"concerned-{seed}-{type}")
        for name in "tuw":
            source.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, s {type}, v INTEGER, r INTEGER)")
            for id in range(8):
                row = (id, random.choice(_MIXED), random.randrange(4), random.randrange(3))
                source.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", row)
        concerns = Concerns(source, partial(_rows, source), SqlError, _MIXED, random, "?")
        concerns.check(queries=8, transactions=10)
        tally += concerns.tally
        source.close()
    assert tally["changed"] > 100 and tally["left alone"] > tally["concerned in vain"] / 2, tally


def _rows(source: MemorySource, sql: str, given: Sequence[Any]) -> list[Any]:
    return source.query(sql, given).rows


@pytest.mark.parametrize("version", VERSIONS)
def test_on_postgres_what_changes_an_answer_concerns_it(version: str, servers: Servers, tmp_path: Path) -> None:
    tally = Counter[str]()
    for number, (type, values) in enumerate(_POSTGRES.items()):
        with (
            servers[version].database() as database,
            psycopg.connect(servers[version].url(database), autocommit=True) as db,
        ):
            tally += _checked(db, servers[version].url(database), type, values, number, tmp_path)
    assert tally["changed"] > 100 and tally["left alone"] > 1000, tally


def _checked(db: Any, url: str, type: str, values: tuple[Any, ...], seed: int, directory: Path) -> Counter[str]:
    random = Random(seed)
    db.execute("CREATE DOMAIN worded AS text")
    if "COLLATE" in type:
        try:
            db.execute(_FOLDING)
        except psycopg.errors.FeatureNotSupported:
            return Counter()  # built without ICU
    for name in "tuw":
        db.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, s {type}, v integer, r integer)")
        for id in range(8):
            row = (id, random.choice(values), random.randrange(4), random.randrange(3))
            db.execute(f"INSERT INTO {name} VALUES (%s, %s, %s, %s)", row)
    source = PostgresSource(url)
    source.attach(directory / str(seed))
    try:

        def run(sql: str, given: Any) -> list[Any]:
            return psycopg.RawCursor(db).execute(sql, [None if one is None else str(one) for one in given]).fetchall()

        concerns = Concerns(source, run, psycopg.Error, values, random, "$n")
        concerns.check(queries=12 * MULTIPLIER, transactions=12)
        return concerns.tally
    finally:
        source.detach()
        source.close()
