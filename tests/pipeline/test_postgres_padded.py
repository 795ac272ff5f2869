"""char(n) and real on PostgreSQL: blanks that do not count, and numbers that are not what their digits say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import headwater
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_SCHEMA = "CREATE TABLE t (id int PRIMARY KEY, k char(5), l char(3), s text, r real)"
_ROWS = r"INSERT INTO t VALUES (1, 'ab', 'ab', 'ab', 0.1), (2, 'a', 'a', 'a ', 1.5), (3, E'ab\t', 'ab', 'ab', 0)"
_CHANGES = (
    "INSERT INTO t VALUES (4, 'ab', 'x', 'ab ', 0.1), (5, NULL, NULL, NULL, 'NaN')",
    "UPDATE t SET k = 'a', r = 16777216 WHERE id = 3",
    "DELETE FROM t WHERE id = 1",
)
_BLANKS_COUNT = "SELECT a.id, b.id AS o FROM t a JOIN t b ON a.k = b.s"  # in a varchar, which is a text to us
_QUERIES = (
    "SELECT id, k FROM t WHERE k = 'ab'",
    "SELECT id FROM t WHERE k = 'ab      '",
    "SELECT id, k::text AS x, k IN ('a', 'zz') AS y FROM t WHERE k > 'a' ORDER BY k, id",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k LIMIT 2",
    "SELECT DISTINCT l FROM t",
    "SELECT a.id, b.id AS o FROM t a JOIN t b ON a.k = b.k",
    "SELECT a.id, b.id AS o FROM t a JOIN t b ON a.k = b.l",
    _BLANKS_COUNT,
    "SELECT id FROM t WHERE r = 0.1",
    "SELECT id, r, r * 2 AS double, r::text AS told FROM t WHERE r > 0.05 ORDER BY r, id",
    "SELECT count(DISTINCT r) AS n FROM t",
    "SELECT a.id, b.id AS o FROM t a JOIN t b ON a.r = b.r",
)


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    with servers[request.param].database() as database:
        yield servers[request.param].url(database)


def test_every_query_has_the_rows_of_the_origin_after_each_change(url: str, tmp_path: Path) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(_SCHEMA)
        db.execute(_ROWS.encode())
        with headwater.connect(url, runner="inline", data_dir=tmp_path) as opened:
            lives = [opened.query(sql, live=True) for sql in _QUERIES]
            strategies = {sql: live.strategy for sql, live in zip(_QUERIES, lives, strict=True)}
            assert [sql for sql, each in strategies.items() if each != "incremental"] == [_BLANKS_COUNT]
            for change in _CHANGES:
                db.execute(change.encode())
                for sql, live in zip(_QUERIES, lives, strict=True):
                    assert live.wait(opened.position(), timeout=60.0)
                    found = sorted(repr(tuple(row.values())) for row in live.rows)
                    assert found == sorted(map(repr, db.execute(sql.encode()))), sql
