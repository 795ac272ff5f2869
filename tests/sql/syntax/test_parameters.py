"""Parameters of every style become constants, as SQLite would bind them."""

from __future__ import annotations

import decimal
import sqlite3
from typing import Any

import pytest

from headwater.dialects.bind import bind
from headwater.model.errors import SqlError
from headwater.model.value import Value
from headwater.plan.planner import effective_sql, plan, template_from_sql
from headwater.sql.ir.expr import Const
from tests.sql.test_golden import SCRIPT, TABLES
from tests.sql.written import TABLE, filled


def _constants(sql: str, params: Any) -> list[Value]:
    outputs = bind(sql, [TABLE], params).outputs
    return [output.expr.value for output in outputs if isinstance(output.expr, Const)]


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT ? AS a, ? AS b FROM t", (1, "x")),
        ("SELECT ?1 AS a, ?2 AS b FROM t", (1, "x")),
        ("SELECT ?1 AS a, ? AS b FROM t", [1, "x"]),
        ("SELECT $1 AS a, $2 AS b FROM t", (1, "x")),
        ("SELECT :a AS a, :b AS b FROM t", {"a": 1, "b": "x", "more": 2}),
        ("SELECT @limit AS a, $b AS b FROM t", {"limit": 1, "b": "x"}),
    ],
)
def test_every_style(sql: str, params: Any) -> None:
    assert _constants(sql, params) == [1, "x"]


def test_a_number_may_come_again_and_out_of_order() -> None:
    assert _constants("SELECT ?2 AS a, ?1 AS b, ?2 AS c, ? AS d FROM t", (1, 2, 3)) == [2, 1, 2, 3]


def test_numbers_follow_the_text_whatever_the_clause() -> None:
    query = bind("SELECT ? AS a FROM t WHERE i = ? ORDER BY r LIMIT ? OFFSET ?", [TABLE], (1, 2, 3, 4))
    assert (query.limit, query.offset) == (3, 4)
    assert plan(query, [TABLE]).instance.values == (2,)


@pytest.mark.parametrize(
    ("given", "value"),
    [(True, 1), (False, 0), (None, None), (float("nan"), None), (float("inf"), float("inf")), (bytearray(b"x"), b"x")],
)
def test_values_are_taken_as_sqlite_takes_them(given: Any, value: Value) -> None:
    assert _constants("SELECT ? AS a FROM t", (given,)) == [value]
    assert sqlite3.connect(":memory:").execute("SELECT ?", (given,)).fetchone() == (value,)


@pytest.mark.parametrize(
    "value", ["it's", "a\0b", "ä\n", b"\x00\xff", 5e-324, 1.84e-292, 0.1, 1 << 62, -(1 << 63), -0.0]
)
def test_a_value_survives_being_written(value: Value) -> None:
    planned = plan("SELECT ? AS v FROM t WHERE x = ?2 AND x IS NOT ?3", [TABLE], (value, value, "other"))
    memory = filled([(1, None, None, None, None, None, None, value)])
    assert memory.execute(effective_sql(planned.template, planned.instance)).fetchall() == [(value,)]


def test_a_parameter_is_no_ordinal() -> None:
    assert bind("SELECT i, r FROM t ORDER BY ?", [TABLE], (2,)).order == ()


@pytest.mark.parametrize(
    ("sql", "params", "message", "underlined"),
    [
        ("SELECT ? AS a FROM t", (), "expected 1 parameter, found 0 values", "?"),
        ("SELECT i FROM t", (1,), "expected 0 parameters, found 1 value", ""),
        ("SELECT ?3 AS a FROM t", (1, 2), "expected 3 parameters, found 2 values", "?3"),
        ("SELECT ?0 AS a FROM t", (), "numbered from 1", "?0"),
        ("SELECT :name AS a FROM t", ("x",), "by name", ":name"),
        ("SELECT :name AS a FROM t", {"nmae": 1}, "expected a value for :name", ":name"),
        ("SELECT ? AS a FROM t", {"a": 1}, "found values by name", "?"),
        ("SELECT ? AS a, :x AS b FROM t", (), "found both: :x", ":x"),
        ("SELECT ? AS a, :x AS b FROM t", (1, 2), "found both: :x", ":x"),
        ("SELECT ? AS a, :x AS b FROM t", {"x": 1}, "found both: :x", ":x"),
        ("SELECT ?2 AS a, @x AS b, ? AS c FROM t", (1,), "found both: @x", "@x"),
        ("SELECT $1 AS a, $x AS b FROM t", (1,), "found both: $x", "$x"),
        ("SELECT :name AS a FROM t", {1: 1}, "expected a value for :name", ":name"),
        ("SELECT ? AS a FROM t", (1 << 63,), "64 bits", "?"),
        ("SELECT ? AS a FROM t", ("\ud800",), "surrogate", "?"),
        ("SELECT ? AS a FROM t", (decimal.Decimal(1),), "found Decimal", "?"),
        ("SELECT i FROM t LIMIT ?", ("x",), "expected an integer for LIMIT", "?"),
        ("SELECT i FROM t LIMIT ?", (None,), "expected an integer for LIMIT, found NULL", "?"),
    ],
)
def test_what_does_not_fit(sql: str, params: Any, message: str, underlined: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(sql, [TABLE], params)
    assert message in caught.value.message
    start, end = caught.value.at or (0, 0)
    assert sql[start:end] == underlined


def test_a_misspelt_name_is_suggested() -> None:
    with pytest.raises(SqlError) as caught:
        bind("SELECT :customer AS a FROM t", [TABLE], {"costumer": 1})
    assert caught.value.hint == "did you mean costumer?"


def test_parameters_stand_anywhere_in_a_query_over_relations() -> None:
    sql = (
        "SELECT o.id, :given AS given FROM orders o JOIN pairs p ON p.a = o.id AND p.b <> :b"
        " WHERE o.user_id = :u AND o.id IN (SELECT a FROM pairs WHERE a < :most) GROUP BY o.id"
        " HAVING count(*) >= :least ORDER BY 1 LIMIT :limit"
    )
    given = {"given": "it's", "b": "z", "u": 42, "most": 5, "least": -1, "limit": 2}
    planned = plan(sql, TABLES, given)
    memory = sqlite3.connect(":memory:")
    memory.executescript(SCRIPT)
    assert planned.template.keys == ("o.user_id",) and "it''s" in planned.template.sql
    effective = memory.execute(effective_sql(planned.template, planned.instance)).fetchall()
    assert effective == memory.execute(sql, given).fetchall() != []
    assert template_from_sql(planned.template.sql, TABLES) == planned.template
