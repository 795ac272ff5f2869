"""Random queries: the effective query returns what the user's does, and a template's text is the whole template."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.model.errors import SqlError
from headwater.model.schema import Table
from headwater.model.value import Row, Type
from headwater.plan.planner import Planned, effective_sql, plan, template_from_sql
from tests.sql.written import KEYLESS, TABLE, examples, expressions, filled, literals, rows

_directions = st.sampled_from(["", " ASC", " DESC", " DESC NULLS FIRST", " NULLS LAST", " COLLATE NOCASE DESC"])
_equalities = st.tuples(
    st.sampled_from(["id", "i", "r", "n", "s", "c", "b", "x"]), st.sampled_from(["=", "=="]), literals
)
_conjuncts = st.one_of(
    _equalities.map(" ".join), _equalities.map(lambda e: f"{e[2]} {e[1]} {e[0]}"), expressions.map("({})".format)
)
_where = st.lists(_conjuncts, max_size=3).map(lambda some: f" WHERE {' AND '.join(some)}" if some else "")
_key = st.tuples(st.one_of(expressions, st.sampled_from(["1", "2", "alias"])), _directions).map("".join)
_order = st.lists(_key, max_size=2).map(lambda some: f" ORDER BY {', '.join(some)}" if some else "")
_frame = st.sampled_from(
    ["", "", " LIMIT 2", " LIMIT 1 OFFSET 1", " LIMIT 1, 2", " LIMIT -1", " LIMIT 0", " LIMIT 1+1 OFFSET -3"]
)


@st.composite
def queries(draw: st.DrawFn, frame: st.SearchStrategy[str] = _frame) -> str:
    outputs = f"{draw(expressions)} AS alias, {draw(st.sampled_from(['i', 'r', 's', 'x, b', 't.c']))}, id"
    return f"SELECT {outputs} FROM t{draw(_where)}{draw(_order)}{draw(frame)}"


def _planned(sql: str, table: Table = TABLE) -> Planned:
    try:
        return plan(sql, [table])
    except SqlError:
        assume(False)
        raise


def _run(memory: sqlite3.Connection, sql: str) -> list[Row]:
    memory.text_factory = bytes
    try:
        return memory.execute(sql).fetchall()
    except sqlite3.Error:
        assume(False)
        raise


@pytest.mark.slow
@examples(300)
@given(queries(frame=st.just("")), rows(0, 6))
def test_the_effective_query_returns_the_users_rows(sql: str, some: list[Row]) -> None:
    planned, memory = _planned(sql), filled(some)
    effective = _run(memory, effective_sql(planned.template, planned.instance))
    assert Counter(map(repr, effective)) == Counter(map(repr, _run(memory, sql)))


@pytest.mark.slow
@examples(300)
@given(queries(), rows(0, 6))
def test_the_effective_query_breaks_ties_by_the_key(sql: str, some: list[Row]) -> None:
    """The user's own query with the key appended says the same, list for list."""
    planned, memory = _planned(sql), filled(some)
    head, _, frame = sql.partition(" LIMIT ")
    framed = f" LIMIT {frame}" if frame else ""
    total = f"{head}{', t.id' if ' ORDER BY ' in head else ' ORDER BY t.id'}{framed}"
    effective = _run(memory, effective_sql(planned.template, planned.instance))
    expected = _run(memory, total)
    if planned.template.ordered:
        assert list(map(repr, effective)) == list(map(repr, expected))
    else:
        assert Counter(map(repr, effective)) == Counter(map(repr, expected))


@pytest.mark.slow
@examples(150)
@given(queries(frame=st.just(" LIMIT 3")), rows(2, 6), st.randoms(use_true_random=False))
def test_without_a_key_the_order_is_total_all_the_same(sql: str, some: list[Row], random: Random) -> None:
    planned = _planned(sql, KEYLESS)
    effective = effective_sql(planned.template, planned.instance)
    doubled = [replace_id(row) for row in some for _ in range(2)]
    first = _run(_keyless(doubled), effective)
    random.shuffle(doubled)
    assert list(map(repr, _run(_keyless(doubled), effective))) == list(map(repr, first))


def replace_id(row: Row) -> Row:
    return (1, *row[1:])


def _keyless(some: list[Row]) -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:")
    memory.execute(
        "CREATE TABLE t (id INTEGER, i INT, r REAL, n NUMERIC, s TEXT, c VARCHAR(9) COLLATE NOCASE, b BLOB, x)"
    )
    memory.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", some)
    return memory


@pytest.mark.slow
@examples(300)
@given(queries())
def test_a_templates_text_is_the_whole_template(sql: str) -> None:
    template = _planned(sql).template
    assert template_from_sql(template.sql, TABLE) == template


@examples(150)
@given(queries())
def test_a_template_survives_a_column_that_turns_mixed(sql: str) -> None:
    template = _planned(sql).template
    mixed = replace(TABLE, columns=tuple(replace(column, type=Type.ANY) for column in TABLE.columns), schema_id=1)
    again = template_from_sql(template.sql, mixed)
    assert (again.id, again.sql, again.keys, again.framed) == (
        template.id,
        template.sql,
        template.keys,
        template.framed,
    )
