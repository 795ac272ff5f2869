"""Selective queries on PostgreSQL in any order that we know: the rows stand where PostgreSQL would put them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from tests.support.postgres import VERSIONS, Servers

VALUES = {  # of each type, with what stands at its ends, equal values that look different, and NULL
    "bool": "true false",
    "bigint": "-9223372036854775808 -1 0 1 9007199254740993 9223372036854775807",
    "float8": "-Infinity -1.5 -0 0 1e-300 1.5 Infinity NaN",
    "real": "-Infinity -0.1 0.1 0.3 NaN",
    "numeric": "-Infinity -1.50 -1.5 0 0.0 1 1.00 9007199254740993.1 NaN",
    'text COLLATE "C"': "a A aa Z z ä é 𐍈 ~",
    "date": "-infinity 0044-03-15BC 1969-12-31 1970-01-01 infinity",
    "timestamptz": "-infinity 1969-12-31T23:59:59Z 2024-02-29T12:00:00+02 infinity",
    "time": "00:00 12:30:00.000001 24:00",
    "interval": "-1day 24hours 1day 1mon 30days 1year",
    "uuid": "00000000-0000-0000-0000-000000000001 ffffffff-0000-0000-0000-000000000000",
    "bytea": r"\x \x00 \x0001 \x61 \xff",
}
COLUMNS = {f"c{number}": type for number, type in enumerate(VALUES)}
ORDERS = (
    *(f"{name}{way}" for name in COLUMNS for way in ("", " DESC NULLS LAST")),
    "c0 DESC, c4, c2 NULLS FIRST",
    "c3 IS NULL, 3 DESC",
    "q COLLATE \"C\" DESC",
    "length(c5) + c1 % 3, c9 DESC",
)  # fmt: skip
OTHERS = ("kind", "blank", "about::jsonb", "about COLLATE ucs_basic", "ARRAY[id]")
SQL = "SELECT id, quote_ident(c5) AS shown, to_hex(id) AS hex FROM t ORDER BY {}"


@pytest.fixture
def db(servers: Servers, tmp_path: Path) -> Iterator[headwater.Database]:
    server = servers[VERSIONS[-1]]
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    with server.database() as database:
        with headwater.connect(server.url(database), runner="inline", data_dir=tmp_path) as opened:
            opened.execute("CREATE TYPE kinds AS ENUM ('z', 'a')")
            opened.execute(
                f"CREATE TABLE t (id int PRIMARY KEY, {columns}, q text, kind kinds, blank char(4), about text)"
            )
            yield opened


def _row(chance: random.Random) -> str:
    values = (chance.choice((*told.split(), None)) for told in VALUES.values())
    return ", ".join("NULL" if value is None else f"'{value}'" for value in values)


@pytest.mark.slow
def test_rows_stand_where_postgresql_puts_them(db: headwater.Database) -> None:
    chance = random.Random(4)
    for id in range(60):
        db.execute(f"INSERT INTO t VALUES ({id}, {_row(chance)})")
    lives = [db.query(SQL.format(order), live=True) for order in ORDERS]
    assert {live.strategy for live in lives} == {"selective"}
    for _ in range(2):
        for id in chance.sample(range(60), 5):
            db.execute(f"UPDATE t SET ({', '.join(COLUMNS)}) = ROW ({_row(chance)}) WHERE id = {id}")
        db.execute("UPDATE t SET id = 100 + id WHERE id = (SELECT max(id) FROM t WHERE id < 60)")
        for live in lives:
            db.verify(live)


def test_an_order_that_only_postgresql_knows_is_asked_of_it(db: headwater.Database) -> None:
    for order in OTHERS:
        live = db.query(SQL.format(order), live=True)
        assert live.strategy == "requery", order
        live.abort(forget=True)
