"""The smallest SQL that once went wrong in sql/ or plan/."""

from __future__ import annotations

import sqlite3

import pytest

from headwater.dialects.bind import bind
from headwater.dialects.sqlite.render import render
from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.planner import plan
from tests.sql.written import TABLE, filled

CASES = ("id IS NOT DISTINCT FROM id IS NOT FALSE",)


@pytest.mark.parametrize("text", CASES)
def test_binding_rendered_text_gives_the_same_expression(text: str) -> None:
    expr = plan(f"SELECT {text} FROM t", [TABLE]).template.outputs[0].expr
    assert plan(f"SELECT {render(expr)} FROM t", [TABLE]).template.outputs[0].expr == expr


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT !(id) FROM t",
        "SELECT id FROM t WHERE EXISTS",
        "SELECT id FROM t LIMIT .",
        "SELECT id FROM t ORDER BY . id",
    ],
)
def test_what_sqlite_cannot_read_is_a_syntax_error(sql: str) -> None:
    with pytest.raises(sqlite3.Error):
        filled([]).execute(sql)
    with pytest.raises(SqlError, match="syntax error"):
        bind(sql, [TABLE])


def test_an_alias_may_be_called_false() -> None:
    """SQLite looks for a column or an alias before it takes FALSE for 0."""
    template = plan("SELECT id FALSE FROM t WHERE FALSE", [TABLE]).template
    assert template.where == template.outputs[0].expr


def test_is_true_compares_where_true_is_an_alias() -> None:
    where = plan("SELECT i AS true FROM t WHERE r IS true", [TABLE]).template.where
    assert where is not None
    assert render(where) == '"r" IS "i"'


def test_replacing_nothing_gives_back_what_was_there() -> None:
    """Found with `replace(id, x'', id)`: an integer."""
    assert bind("SELECT replace(id, x'', id) AS a FROM t", [TABLE]).outputs[0].expr.type is Type.ANY


@pytest.mark.parametrize("text", ["CASE WHEN a IS NULL THEN a ELSE a END", "coalesce(a, a)"])
def test_branches_of_a_type_we_only_pass_on_are_refused_not_an_error_of_ours(text: str) -> None:
    """In PostgreSQL's dialect, of uuids, dates and their like, this was a KeyError."""
    table = Table("t", (Column("id", Type.INTEGER, "integer"), Column("a", Type.OTHER, "inet")), ("id",), 0, "postgres")
    with pytest.raises(UnsupportedQuery, match="inet"):
        bind(f"SELECT {text} AS x FROM t", [table])
