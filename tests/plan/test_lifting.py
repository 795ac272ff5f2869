"""Which constants leave the query, and what a template and an instance are called."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.schema import Column
from headwater.model.value import Row, Type, Value
from headwater.plan.fingerprint import instance_id
from headwater.plan.lift import fitted
from headwater.plan.planner import effective_sql, plan, template_from_sql
from tests.sql.written import TABLE, examples


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t WHERE i = 1 AND s = 'x' AND r > 2 LIMIT 5",
        "select t.ID from T where r>2 and 'y'=S and i==+2 limit 7 offset 1",
        "SELECT u.id FROM main.t AS u WHERE (u.r > 2 AND u.i = 3) AND (u.s = 5 AND u.r > 2) LIMIT -1",
        "SELECT rowid FROM t WHERE 2 < r AND i = '7' AND s = '' LIMIT 0",
    ],
)
def test_queries_that_differ_in_constants_share_a_template(sql: str) -> None:
    template = plan(sql, [TABLE]).template
    assert template == plan("SELECT id FROM t WHERE i = 0 AND s = '' AND r > 2 LIMIT 1", [TABLE]).template
    assert template.keys == ("i", "s")


@pytest.mark.parametrize(
    ("where", "lifted", "values"),
    [
        ("i IN (3, 1, NULL, '2', 3.0)", [("i", "in")], ((1, 2, 3),)),
        ("c IN ('b', 'B', 'a')", [("c", "in")], (("a", "b"),)),
        ("i IN (7, 7)", [("i", "=")], (7,)),
        ("2 <= i AND i < 5", [("i", ">="), ("i", "<")], (2, 5)),
        ("i BETWEEN 2 AND 5.0", [("i", ">="), ("i", "<=")], (2, 5)),
        ("r > 1 AND s = 'x' AND i IN (1, 2)", [("s", "="), ("i", "in"), ("r", ">")], ("x", (1, 2), 1.0)),
        ("i < 5 AND i < 7", [("i", "<")], (5,)),
        ("i = 5 AND i < 7 AND i IN (1, 2)", [("i", "=")], (5,)),
        ("i IN (1, 2) AND i > 0", [("i", "in")], ((1, 2),)),
        ("n > 1 AND n <= 'a'", [("n", ">"), ("n", "<=")], (1, "a")),
    ],
)
def test_lists_and_bounds_are_lifted(where: str, lifted: list[tuple[str, str]], values: Row) -> None:
    for sql in (f"SELECT id FROM t WHERE {where}", f"SELECT x.id FROM t AS x JOIN t AS y ON y.id = x.id WHERE {where}"):
        joined = "JOIN" in sql
        planned = plan(re.sub(r"\b([icrsn]) ", r"x.\1 ", sql) if joined else sql, [TABLE])
        assert [(name.removeprefix("x."), op) for name, op in planned.template.lifted] == lifted
        assert planned.instance.values == values
        assert template_from_sql(planned.template.sql, [TABLE]) == planned.template


def test_a_text_like_a_mark_is_no_hole() -> None:
    sql = "SELECT x.id FROM t AS x JOIN t AS y ON y.id = x.id WHERE x.i > '\ue000p1' AND x.s = 'a' AND x.r < 2"
    planned = plan(sql, [TABLE])
    assert template_from_sql(planned.template.sql, [TABLE]) == planned.template


HAVING = [("agg1.max", "="), ("agg2.count", "<"), ("t.i", ">")]


@pytest.mark.parametrize(
    ("sql", "lifted"),
    [
        ("SELECT i, count(*) AS n FROM t WHERE i > 3 GROUP BY i", [("t.i", ">")]),
        ("SELECT i, count(*) AS n FROM t GROUP BY i HAVING i IN (1, 2)", [("t.i", "in")]),
        ("SELECT count(*) AS n FROM t WHERE i > 3 GROUP BY s", []),
        ("SELECT count(*) AS n FROM t WHERE i > 3", []),
        ("SELECT i, count(*) AS n FROM t GROUP BY i HAVING count(*) > 3", [("agg1.count", ">")]),
        ("SELECT i FROM t GROUP BY i HAVING max(r) = 3.0 AND i > 2 AND 4 > count(*)", HAVING),
        ("SELECT i FROM (SELECT i FROM t GROUP BY i HAVING count(*) > 3)", []),
        ("SELECT DISTINCT i FROM t WHERE i > 3", [("t.i", ">")]),
        ("SELECT DISTINCT i FROM t WHERE r > 3", []),
        ("SELECT i FROM t WHERE i < 3 UNION SELECT i FROM t WHERE i > 7", []),
        ("SELECT id FROM t WHERE id IN (SELECT i FROM t WHERE i > 3)", []),
    ],
)
def test_beneath_groups_and_sets_only_what_leaves_them_whole_is_lifted(sql: str, lifted: list[tuple[str, str]]) -> None:
    assert list(plan(sql, [TABLE]).template.lifted) == lifted


@pytest.mark.parametrize(
    "where",
    [
        "i = 1 OR s = 'x'",
        "NOT i = 1",
        "i = NULL",
        "i IS 1",
        "c = 'x' COLLATE BINARY",
        "s COLLATE NOCASE = 'x'",
        "+i = 1",
        "i + 0 = 1",
        "i = r",
        "i = 'abc'",
        "i = 1.5",
        "s = x'61'",
        "r = 9007199254740993",
        "i NOT IN (1, 2)",
        "i IN (1, 'abc')",
        "i IN (NULL)",
        "i IN (1, r)",
        "i < NULL",
        "i > 1.5",
        "i BETWEEN 1 AND 1.5",
        "i NOT BETWEEN 1 AND 2",
        "+i < 1",
        "s COLLATE NOCASE < 'x'",
        "s > x'61'",
        "r <= 9007199254740993",
        "i > r",
        "CAST(s AS INT) = 1",
    ],
)
def test_everything_else_stays(where: str) -> None:
    planned = plan(f"SELECT id FROM t WHERE {where}", [TABLE])
    assert planned.template.keys == () == planned.instance.values
    assert planned.template.where is not None


def test_a_nocase_column_is_lifted_by_its_own_collation() -> None:
    planned = plan("SELECT id FROM t WHERE c = 'X'", [TABLE])
    assert (planned.template.keys, planned.instance.values) == (("c",), ("X",))


@pytest.mark.parametrize(
    ("value", "type", "held"),
    [
        (1.0, Type.INTEGER, 1),
        (1.5, Type.INTEGER, None),
        (9.3e18, Type.INTEGER, None),
        (1, Type.REAL, 1.0),
        ((1 << 53) + 1, Type.REAL, None),
        ((1 << 63) - 1, Type.REAL, None),
        (float("inf"), Type.REAL, float("inf")),
        ("1", Type.INTEGER, None),
        (b"1", Type.TEXT, None),
        (1.0, Type.ANY, 1),
        ("a", Type.ANY, "a"),
    ],
)
def test_a_lifted_value_is_one_its_column_could_hold(value: Value, type: Type, held: Value) -> None:
    found = fitted(value, type)
    assert (found, found.__class__) == (held, held.__class__)


_values = st.one_of(
    st.integers(-3, 3), st.sampled_from([0.0, -0.0, 1.0, 1.5]), st.text("ab", max_size=2), st.binary(max_size=2)
)
_rows = st.lists(_values, max_size=3).map(tuple)


@examples(300)
@given(_rows, _rows, st.sampled_from([None, 0, 1]), st.integers(0, 2))
def test_instances_are_one_exactly_when_their_values_are(
    left: tuple[Value, ...], right: tuple[Value, ...], limit: int | None, offset: int
) -> None:
    one, other = instance_id("t", left, limit, offset), instance_id("t", right, limit, offset)
    assert (one == other) == (left == right)
    assert 0 <= one < 1 << 63


def test_limit_and_offset_are_part_of_the_instance() -> None:
    ids = {instance_id("t", (), limit, offset) for limit in (None, 0, 1) for offset in (0, 1)}
    assert len(ids) == 6


def test_names_are_the_same_in_every_process() -> None:
    code = (
        "from headwater.plan.fingerprint import *; print(template_id('t', 'x'), instance_id('t', (1, 'a', None), 5, 0))"
    )
    found = {subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}) for seed in ("1", "2")}
    assert found == {b"69778d70066edaa33bd4afe36b786f44 8525124945719415217\n"}


def test_a_template_is_bound_again_after_a_column_was_added() -> None:
    template = plan("SELECT * FROM t WHERE i = 1 ORDER BY r LIMIT 3", [TABLE]).template
    wider = replace(TABLE, columns=(*TABLE.columns, Column("late", Type.TEXT, "TEXT")), schema_id=1)
    assert template_from_sql(template.sql, wider) == template


def test_an_alias_does_not_capture_a_column_in_the_effective_order() -> None:
    planned = plan("SELECT r AS i, id FROM t ORDER BY t.i LIMIT 1", [TABLE])
    assert effective_sql(planned.template, planned.instance).endswith('ORDER BY "t"."i", "t"."id" LIMIT 1 OFFSET 0')
