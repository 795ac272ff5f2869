"""Live queries on PostgreSQL that compare, join, group and order by types beyond numbers and text: followed, and right.

Rows come, change and go at random; after each round every query is held against the source's own answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

import headwater
from tests.support.followed import check_followed, database_with
from tests.support.fuzz import MULTIPLIER
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_SCHEMA = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TABLE users (id uuid PRIMARY KEY, friend uuid, born date, mood mood, salt bytea, data jsonb)",
    "CREATE TABLE visits (id uuid PRIMARY KEY, who uuid REFERENCES users, at timestamptz, day date, clock time)",
)
_USERS = [UUID(int=n * 0x1111_2222_3333_4444_5555_6666_7777) for n in range(1, 7)]
_MOODS = ("sad", "ok", "happy", None)
_DATA = ('{"name": "Ada", "n": "2", "tags": ["x", 1.0]}', '{"n": 1, "name": "Ada"}', '{"tags": ["y"]}', "[]", None)
_QUERIES = (
    "SELECT * FROM users ORDER BY id LIMIT 3",
    "SELECT friend, count(*) AS n FROM users GROUP BY friend",
    f"SELECT id FROM users WHERE friend = '{_USERS[0]}'",
    f"SELECT id FROM users WHERE friend IN ('{_USERS[0]}', '{_USERS[3]}') ORDER BY friend DESC, id",
    f"SELECT id FROM users WHERE id > '{_USERS[2]}'::uuid",
    "SELECT u.id, f.id AS friend FROM users u JOIN users f ON f.id = u.friend",
    "SELECT u.id, count(v.id) AS visits FROM users u LEFT JOIN visits v ON v.who = u.id GROUP BY u.id",
    "SELECT DISTINCT who FROM visits",
    "SELECT id FROM users EXCEPT SELECT who FROM visits",
    "SELECT id FROM users u WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.who = u.id)",
    "SELECT id, friend IN (SELECT who FROM visits) AS busy FROM users",
    "SELECT id, (SELECT count(*) FROM visits v WHERE v.who = u.id) AS n FROM users u",
    "SELECT count(DISTINCT friend) AS n FROM users",
    "SELECT id, born FROM users WHERE born >= '2000-01-01' ORDER BY born DESC NULLS LAST, id",
    "SELECT born, count(*) AS n FROM users GROUP BY born ORDER BY born",
    "SELECT day, min(at) AS first, max(clock) AS last FROM visits GROUP BY day",
    "SELECT u.id, v.id AS visit FROM users u JOIN visits v ON v.day = u.born AND v.at < u.born + interval '1 year'",
    "SELECT date_trunc('month', at) AS month, count(*) AS n FROM visits WHERE isfinite(at) GROUP BY 1",
    "SELECT id, at::date - 7 AS week_before, at + interval '1 month' AS due, clock::text AS clock FROM visits",
    "SELECT DISTINCT day FROM visits WHERE at BETWEEN '2023-01-01' AND timestamptz '2024-12-31 00:00+01'",
    "SELECT born AS day FROM users UNION SELECT day FROM visits",
    "SELECT id, (SELECT max(at) FROM visits v WHERE v.day = u.born) AS last FROM users u",
    "SELECT id FROM visits ORDER BY at, clock DESC LIMIT 4",
    "SELECT mood, count(*) AS n FROM users WHERE mood <> 'ok' GROUP BY mood",
    "SELECT a.id, b.id AS other FROM users a JOIN users b ON b.mood = a.mood AND b.salt > a.salt",
    "SELECT DISTINCT mood, salt FROM users WHERE mood IN ('sad', 'happy')",
    'SELECT mood FROM users ORDER BY mood::text COLLATE "C", id LIMIT 2',
)


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    with database_with(servers[request.param], _SCHEMA) as url:
        yield url


def test_each_is_followed_and_right(url: str, tmp_path: Path) -> None:
    check_followed(url, tmp_path, _QUERIES, _write, seed=11, rounds=3 * MULTIPLIER)


def test_queries_that_differ_in_a_constant_share_a_plan(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        for sql, one, other in _SHARING:
            assert db.explain(sql, one).splitlines()[0] == db.explain(sql, other).splitlines()[0], sql


_SHARING: tuple[tuple[str, object, object], ...] = (
    ("SELECT id FROM users WHERE friend = $1", _USERS[0], str(_USERS[1])),
    ("SELECT u.id FROM users u JOIN visits v ON v.who = u.id WHERE v.who = $1", _USERS[0], _USERS[1]),
    ("SELECT count(*) AS n FROM visits WHERE who = $1", _USERS[0], _USERS[1]),
    ("SELECT id FROM users WHERE id > $1", _USERS[0], _USERS[1]),
    ("SELECT id FROM users WHERE born = $1", date(2024, 2, 29), "1999-12-31"),
    ("SELECT id FROM visits WHERE at >= $1", datetime(2024, 1, 1, tzinfo=UTC), "2023-01-01 00:00+02"),
    ("SELECT id FROM visits WHERE day BETWEEN '2024-01-01' AND $1", date(2024, 2, 29), "infinity"),
    ("SELECT id FROM users WHERE mood = $1", "sad", "happy"),
    ("SELECT id FROM users WHERE friend = ANY($1)", _USERS[:2], _USERS[2:5]),
    ("SELECT v.id FROM users u JOIN visits v ON v.who = u.id WHERE u.id = ANY($1::uuid[])", _USERS[:2], _USERS[2:5]),
    ("SELECT id FROM users WHERE salt = $1", b"a", b"\xff"),
    ("SELECT id FROM visits WHERE at >= $1::date", date(2024, 2, 29), "1999-12-31"),
)


def _write(db: psycopg.Connection[tuple[object, ...]], chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 12)):
        user, friend = chance.choice(_USERS), chance.choice([*_USERS, None])
        born = chance.choice(["2024-02-29", "1999-12-31", "infinity", None])
        db.execute(
            "INSERT INTO users VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET "
            "friend = excluded.friend, born = excluded.born, mood = excluded.mood, salt = excluded.salt, "
            "data = excluded.data",
            (user, friend, born, chance.choice(_MOODS), chance.choice([b"a", b"\xff", None]), chance.choice(_DATA)),
        )
        at = chance.choice(["2024-02-29 23:59:59.5+00", "2023-12-31 23:00-05", "-infinity", None])
        clock = chance.choice(["00:00", "12:30:01.25", "24:00", None])
        visit = UUID(int=chance.randrange(12))
        db.execute("DELETE FROM visits WHERE id = %s", (visit,))
        if chance.random() < 0.7:
            db.execute("INSERT INTO visits VALUES (%s, %s, %s, %s, %s)", (visit, user, at, born, clock))
