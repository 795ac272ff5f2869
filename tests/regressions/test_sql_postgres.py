"""Queries in PostgreSQL's dialect that the fuzzer found bound wrongly, or not to the same template a second time."""

from __future__ import annotations

from datetime import date
from uuid import UUID

import pytest

from headwater.engine.expressions.evaluator import Expressions
from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Type, from_array
from headwater.plan.planner import plan, template_from_sql
from headwater.sql.ir.expr import Const
from tests.engine.world import batch_of

P = Table(
    "p",
    (
        Column("id", Type.INTEGER, "integer", nullable=False),
        Column("s", Type.TEXT, "text", "C"),
        Column("c", Type.TEXT, "text", "en_US"),
        Column("f", Type.REAL, "double precision"),
        Column("n", Type.NUMERIC, "numeric"),
        Column("d", Type.NUMERIC, "numeric(9,2)"),
        Column("k", Type.TEXT, "character(5)", "C"),
        Column("l", Type.OTHER, "integer[]"),
        Column("t", Type.TIMESTAMP, "timestamp without time zone"),
    ),
    ("id",),
    dialect="postgres",
)
KEYLESS = Table(
    "k",
    (
        Column("i", Type.INTEGER, "integer"),
        Column("x", Type.REAL, "double precision"),
        Column("n", Type.NUMERIC, "numeric"),
    ),
    dialect="postgres",
)
AGAIN = (
    "SELECT id FROM p UNION ALL SELECT id + 1 FROM p UNION SELECT id + 2 FROM p LIMIT 3",
    "SELECT x.id FROM (SELECT id FROM p INTERSECT SELECT id + 1 FROM p EXCEPT ALL SELECT id + 2 FROM p) AS x",
    "SELECT id FROM p EXCEPT (SELECT id FROM p UNION SELECT id + 1 FROM p) ORDER BY 1",
    "SELECT c, count(*) AS n FROM p GROUP BY c LIMIT 2",
    "SELECT p.id FROM p JOIN (SELECT avg(f) AS f, sum(n) AS n FROM p LIMIT 1) AS x ON x.n = p.n ORDER BY 1",
    "SELECT max(f) AS most, sum(d * 1.10) AS worth FROM p WHERE d > 1.50 AND n * 1.50 > 3 AND k = 'ab'",
    "SELECT f, k FROM p WHERE TRUE ORDER BY n, k FETCH FIRST 3 ROWS ONLY",
    "SELECT v.b FROM p LEFT JOIN (VALUES (1.5, 'a'), (NULL, 'b')) AS v (n, b) ON v.n = p.d AND 1 < 2",
    "SELECT x FROM k WHERE i > 1 ORDER BY i",  # without a key rows are told apart by all that they hold, as text
    "SELECT i, n FROM k LIMIT 2",
    "SELECT c, string_agg(DISTINCT s, ',') AS s, array_agg(id) AS i, string_agg(k, '' ORDER BY f) FROM p GROUP BY c",
    "SELECT l[1] AS one, '{1,2}' <@ l AS some, cardinality(l) AS n FROM p WHERE NOT 3 = ANY (l) AND l <> ARRAY[1]",
    "SELECT id FROM p WHERE s SIMILAR TO '(a|b)%' AND s NOT LIKE s || '_' AND to_char(t, 'YYYY-MM') = '2024-02'",
)


@pytest.mark.parametrize("sql", AGAIN)
def test_a_template_reads_back_as_itself(sql: str) -> None:
    """Set operations got parentheses on their left, where none can be read; such queries were refused."""
    template = plan(sql, [P, KEYLESS]).template
    assert template_from_sql(template.sql, [P, KEYLESS]) == template


def test_a_frame_of_groups_goes_by_bytes_here_and_there() -> None:
    """Ours did, and PostgreSQL's went by the collation of the key."""
    assert 'ORDER BY "p"."c" COLLATE "C"' in plan("SELECT c, count(*) AS n FROM p GROUP BY c LIMIT 2", [P]).template.sql


@pytest.mark.parametrize("end", ["ORDER BY n", "LIMIT 2"])
def test_an_order_among_groups_of_a_subquery_is_not_ours(end: str) -> None:
    """The template named the subquery twice, and did not read back as itself: the query was refused for good."""
    with pytest.raises(UnsupportedQuery, match="an order among groups of a subquery"):
        plan(f"SELECT (SELECT count(*) FROM k) AS c, count(*) AS n FROM p GROUP BY 1 {end}", [P, KEYLESS])


@pytest.mark.parametrize("sql", ["SELECT DISTINCT c FROM p LIMIT 2", "SELECT c FROM p UNION SELECT s FROM p LIMIT 2"])
def test_a_frame_of_a_set_is_not_ours_where_only_postgres_knows_the_order(sql: str) -> None:
    with pytest.raises(UnsupportedQuery, match="only the source knows"):
        plan(sql, [P])


def test_an_empty_string_at_the_end_of_a_query_with_parameters() -> None:
    """sqlglot took it for one that is not closed."""
    assert plan("SELECT id FROM p WHERE id = $1 AND s >= ''", [P], (1,)).instance.values == (1, "")


def test_a_constant_of_a_type_that_sqlite_does_not_have() -> None:
    """It stood alone, and so was given to SQLite to evaluate."""
    rows = batch_of(P, [(1, "a", "b", *[None] * 6)])
    evaluated = Expressions([Const(date(2024, 1, 31), Type.DATE)], P).evaluate(rows)
    assert not evaluated.failed
    assert from_array(evaluated.columns[0], Type.DATE) == [date(2024, 1, 31)]


def test_a_constant_beside_a_column_that_sqlite_does_not_have() -> None:
    """Its values were given to SQLite all the same, for there must be as many rows as they are."""
    table = Table("u", (Column("u", Type.UUID, "uuid"),), dialect="postgres")
    evaluated = Expressions([Const(7, Type.INTEGER)], table).evaluate(batch_of(table, [(UUID(int=1),), (None,)]))
    assert from_array(evaluated.columns[0], Type.INTEGER) == [7, 7]


def test_a_varchar_that_meets_a_char_is_left_to_the_origin() -> None:
    """PostgreSQL compares them without the blanks behind, of the varchar too; we kept those, and rows were missing."""
    with pytest.raises(UnsupportedQuery, match="char"):
        plan("SELECT a.id FROM p AS a JOIN p AS b ON a.s = b.k", [P])
    assert plan("SELECT id FROM p WHERE k = 'a '", [P]).template.keys == ("k",)


def test_a_real_in_a_list_of_numbers_is_left_to_the_origin() -> None:
    """`r = 0.1` compares doubles, `r IN (0.1, 0.2)` reals: PostgreSQL finds 0.1 in the list, we did not."""
    table = Table("r", (Column("r", Type.REAL, "real"), Column("n", Type.NUMERIC, "numeric")), (), dialect="postgres")
    for sql in ("SELECT r FROM r WHERE r IN (0.1, 0.2)", "SELECT r FROM r WHERE n IN (0.1, 0.2::float8)"):
        with pytest.raises(UnsupportedQuery, match="IN of numbers"):
            plan(sql, [table])
    assert plan("SELECT r FROM r WHERE r = 0.1 AND n IN (0.1, 2)", [table]).strategy == "incremental"
