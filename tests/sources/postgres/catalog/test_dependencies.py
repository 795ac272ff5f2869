"""What queries read, and those that cannot be kept current."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.sources.postgres.server.parameters import bound
from headwater.sources.postgres.source import PostgresSource

Db = psycopg.Connection[Any]


@pytest.fixture
def shop(db: Db, source: PostgresSource) -> PostgresSource:
    for statement in (
        "CREATE TABLE a (id int PRIMARY KEY, x text, y numeric, at timestamptz)",
        "CREATE TABLE g (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED)",
        "CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 (v int, id int NOT NULL)",
        "ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10)",
        "CREATE VIEW inner_view AS SELECT id, x FROM a WHERE y > 1",
        "CREATE VIEW outer_view AS SELECT upper(x) AS big FROM inner_view",
        "CREATE MATERIALIZED VIEW m AS SELECT 1 AS one",
        "CREATE FUNCTION reads_tables() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM a'",
        "CREATE FUNCTION pure(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n + 1'",
    ):
        db.execute(statement.encode())
    return source


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT big FROM outer_view", {"a": {"id", "x", "y"}}),
        ("SELECT row_to_json(a) AS j FROM a", {"a": {"id", "x", "y", "at"}}),
        ("SELECT twice FROM g", {"g": {"id", "n", "twice"}}),
        ("SELECT v FROM p1", {"p": {"v"}}),
        ("SELECT id FROM p WHERE v > $1", {"p": {"id", "v"}}),
        ("SELECT x FROM a WHERE id = ANY ($1::int[]) AND at > $2", {"a": {"id", "x", "at"}}),
        ("SELECT 1 AS one WHERE EXISTS (SELECT FROM a JOIN g USING (id))", {"a": {"id"}, "g": {"id"}}),
        ("SELECT pure(id) AS n, to_char(at, 'YYYY') AS y, x ILIKE '%a' AS is FROM a", {"a": {"id", "x", "at"}}),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n, x FROM r, a",
            {"a": {"x"}},
        ),
        ("SELECT x, rank() OVER (PARTITION BY y ORDER BY id) FROM a -- $9 and ':no'", {"a": {"id", "x", "y"}}),
    ],
)
def test_what_a_query_depends_on(shop: PostgresSource, sql: str, tables: dict[str, set[str]]) -> None:
    given = (None,) * sql.partition("--")[0].count("$")
    found = shop.reads(sql.replace(" AS is ", " AS matches "), given).tables
    if "outer_view" in sql:
        assert found["a"] >= {"x", "y"}
    else:
        assert found == {name: frozenset(names) for name, names in tables.items()}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT now() AS n FROM a", "now changes"),
        ("SELECT x FROM a WHERE at > current_date", "current_date"),
        ("SELECT random() AS r FROM a", "random changes"),
        ("SELECT x FROM a WHERE at > 'now'::timestamptz", "now changes"),
        ("SELECT x FROM a WHERE at > timestamptz 'yesterday'", "yesterday changes"),
        ("SELECT age(at) AS old FROM a", "age changes"),
        ("SELECT one FROM m", "materialised view"),
        ("SELECT relname FROM pg_class", "system catalog"),
        ("SELECT ctid AS c FROM a", "system columns"),
        ("SELECT reads_tables() AS n FROM a", "may read"),
        ("SELECT x FROM a TABLESAMPLE SYSTEM (10)", "TABLESAMPLE"),
        ("SELECT pg_table_size('a') AS s FROM a", "changes|may read"),
        ("SELECT a.id, g.id FROM a, g", "two columns are named id"),
    ],
)
def test_what_cannot_be_watched_is_refused(shop: PostgresSource, sql: str, words: str) -> None:
    with pytest.raises(UnsupportedQuery, match=words):
        shop.reads(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM a",
        "SELECT nope FROM a",
        "SELECT 1; SELECT 2",
        "",
        "SET x = 1",
        "WITH d AS (DELETE FROM a RETURNING id) SELECT id FROM d",
    ],
)
def test_what_is_no_query_is_refused(shop: PostgresSource, sql: str) -> None:
    with pytest.raises(SqlError):
        shop.reads(sql)
    assert shop.query("SELECT count(*) AS n FROM a").rows == [(0,)]


def test_errors_point_at_their_place(shop: PostgresSource) -> None:
    sql = "SELECT x, nope FROM a"
    for ask in (shop.reads, shop.prepare, shop.query):
        with pytest.raises(SqlError) as error:
            ask(sql)
        assert error.value.at is not None
        assert sql[slice(*error.value.at)] == "nope"


def test_parameters_by_name_are_told_from_casts_strings_and_slices() -> None:
    sql = """SELECT ':no', ":no", a::text, b[1:2], $q$ :no $q$, :yes, :yes + :also -- :no
    /* :no */ FROM t"""
    text, values = bound(sql, {"yes": 1, "also": "x", "unused": 3})
    assert values == (1, "x")
    assert text == sql.replace(":yes", "$1").replace(":also", "$2")
    with pytest.raises(SqlError, match=":missing"):
        bound("SELECT :missing", {})


def test_a_query_only_reads(shop: PostgresSource) -> None:
    with pytest.raises(SqlError):
        shop.query("WITH d AS (INSERT INTO a (id) VALUES (1) RETURNING id) SELECT id FROM d")
    assert shop.query("SELECT id FROM a").rows == []
