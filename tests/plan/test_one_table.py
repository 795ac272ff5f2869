"""Rows of one table: a template over the table itself on either database, with no operator beneath."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.demand import demands_of
from headwater.plan.explain import explain
from headwater.plan.planner import earlier_templates, effective_sql, logged_template, plan, template_from_sql
from headwater.sql.ir.relation import Filter, Scan

COLUMNS = (
    Column("id", Type.INTEGER, "bigint"),
    Column("a", Type.INTEGER, "integer"),
    Column("t", Type.TEXT, "text", "en_US.utf8"),
    Column("n", Type.NUMERIC, "numeric"),
    Column("f", Type.REAL, "double precision"),
)
POSTGRES = Table("p", COLUMNS, ("id",), dialect="postgres")
FAR = Table("sales.p", COLUMNS, ("id",), dialect="postgres")
KEYLESS = Table("k", COLUMNS[1:], dialect="postgres")
SQLITE = Table("p", (Column("id", Type.INTEGER, "INTEGER"), Column("a", Type.INTEGER, "INTEGER")), ("id",))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM p",
        "SELECT id, a + 1 AS b FROM p AS q WHERE q.a = 5 AND t = 'x' AND n > 1 ORDER BY f DESC LIMIT 3",
        "SELECT id FROM p WHERE a BETWEEN 1 AND 5 AND a > 2 AND id IN (1, 2)",
        "SELECT t FROM p WHERE NOT a <> 5 OR a / id > 1",
        "SELECT id FROM sales.p WHERE a = 1 ORDER BY n",
        "SELECT a, t FROM k WHERE a = 1",
        'SELECT a FROM k ORDER BY t COLLATE "C", f LIMIT 2',
    ],
)
def test_rows_of_one_table_need_no_operator_on_postgresql(sql: str) -> None:
    tables = [POSTGRES, FAR, KEYLESS]
    planned = plan(sql, tables)
    template = planned.template
    assert template.relation is None
    assert template.dialect == "postgres"
    table = next(table for table in tables if table.name == template.table)
    assert {*template.keys, *(each.column for each in template.selectors)} <= set(table.names)
    assert template_from_sql(template.sql, tables) == template
    told = explain(planned, table)
    assert "one table, row by row" in told
    assert f"source {table.name}" in told
    assert effective_sql(template, planned.instance) in told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT a FROM p",
        "SELECT id FROM (SELECT id FROM p) AS d",
        "WITH d AS (SELECT id FROM p) SELECT id FROM d",
        "SELECT a, count(*) AS n FROM p GROUP BY a",
        "SELECT id FROM p WHERE EXISTS (SELECT 1 FROM p AS q WHERE q.a = p.id)",
        "SELECT id FROM p UNION ALL SELECT id FROM p",
    ],
)
def test_what_is_more_has_a_relation(sql: str) -> None:
    for table in (POSTGRES, SQLITE):
        assert plan(sql, [table]).template.relation is not None


def test_conditions_are_tested_in_the_order_of_the_text() -> None:
    """On PostgreSQL one may guard the next: what it computes in vain is no error."""
    template = plan("SELECT id FROM p WHERE n <> 0 AND 10 / a > 1 AND a <> 0", [POSTGRES]).template
    again = template_from_sql(template.sql, [POSTGRES])
    assert again.where == template.where
    text = template.sql.partition("WHERE")[2]
    assert text.index('"n" <> 0') < text.index('10 / "p"."a"') < text.index('"a" <> 0')


def test_what_an_earlier_version_logged_goes_on_by_operators() -> None:
    """It followed rows of one PostgreSQL table by a relation, under another name."""
    template = plan("SELECT id, a FROM p WHERE a = 5 AND n > 1 AND 10 / a > 1", [POSTGRES]).template
    *_, earlier = earlier_templates(template.sql, [POSTGRES])
    assert isinstance(earlier.relation, Filter)
    assert isinstance(earlier.relation.input, Scan)
    assert (earlier.id, earlier.table) != (template.id, template.table)
    assert logged_template(earlier.id, template.sql, [POSTGRES]) == earlier
    assert logged_template(template.id, template.sql, [POSTGRES]) == template


def test_the_text_of_a_keyless_table_is_bound_to_the_columns_it_had() -> None:
    template = plan("SELECT a FROM k ORDER BY a", [KEYLESS]).template
    wider = replace(KEYLESS, columns=(*KEYLESS.columns, Column("j", Type.JSON, "jsonb")))
    assert template_from_sql(template.sql, replace(wider, columns=wider.columns[: len(KEYLESS.columns)])) == template


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT id FROM p WHERE a = 1", "SELECT o.id FROM main.p AS o WHERE 2 = o.a"),
        ("SELECT id FROM p WHERE a BETWEEN 1 AND 2", "SELECT p.id FROM P WHERE P.A BETWEEN 3 AND 9"),
        ("SELECT id, a FROM p WHERE a = 1 AND id > 2 ORDER BY a", "SELECT * FROM p WHERE id > 7 AND a = 1 ORDER BY 2"),
    ],
)
def test_on_sqlite_queries_that_only_look_different_share_a_template(one: str, other: str) -> None:
    assert plan(one, [SQLITE]).template == plan(other, [SQLITE]).template


def test_an_alias_stands_for_what_it_was_written_for() -> None:
    """`true` inside of it is not the alias `true` beside it."""
    template = plan("SELECT true AS x, 0 AS true FROM p WHERE x", [SQLITE]).template
    assert template.where == plan("SELECT 1 AS x, 0 AS y FROM p WHERE 1", [SQLITE]).template.where


def test_what_an_earlier_version_logged_goes_on_without_demand() -> None:
    """It held all joined rows, whatever was asked for."""
    template = plan("SELECT x.id FROM p x JOIN p y ON y.a = x.n WHERE x.a = 5", [POSTGRES]).template
    earlier, _ = earlier_templates(template.sql, [POSTGRES])
    assert template.relation is not None and earlier.relation is not None
    assert any(demands_of(template.relation)) and not any(demands_of(earlier.relation))
    assert logged_template(earlier.id, template.sql, [POSTGRES]) == earlier
    assert logged_template(template.id, template.sql, [POSTGRES]) == template
