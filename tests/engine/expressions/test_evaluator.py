"""Expressions against SQLite: every form, every type, exact to the type of the value; kernels alone as well."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from headwater.dialects.sqlite.kernels.arrow import compile_kernel
from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.expressions.filter import RowFilter
from headwater.model.errors import SqlError
from headwater.model.value import Row, Type, Value, from_array, to_array
from headwater.plan.planner import plan
from headwater.sql.ir.expr import Expr
from tests.engine.world import FUZZ, batch_of
from tests.sql.written import TABLE, expressions, filled, rows

COLUMNS = len(TABLE.columns)


def bound(text: str) -> Expr:
    try:
        return plan(f"SELECT {text} AS v FROM t", [TABLE]).template.outputs[0].expr
    except SqlError:
        assume(False)
        raise


def stored(given_rows: list[Row]) -> tuple[sqlite3.Connection, pa.RecordBatch]:
    """The rows as the origin holds them, affinity applied."""
    memory = filled(given_rows)
    return memory, batch_of(TABLE, memory.execute("SELECT * FROM t ORDER BY id").fetchall())


def asked(memory: sqlite3.Connection, text: str, id: int) -> tuple[Value, bool]:
    """SQLite's own answer for one row, and whether it raised instead."""
    try:
        return memory.execute(f"SELECT {text} FROM t WHERE id = ?", (id,)).fetchone()[0], False
    except sqlite3.Error:
        return None, True


def same(a: Value, b: Value) -> bool:
    return repr(a) == repr(b)


def compare(text: str, given_rows: list[Row]) -> None:
    expressions = Expressions([bound(text)], TABLE)
    memory, batch = stored(given_rows)
    with closing(memory):
        evaluated = expressions.evaluate(batch)
        values = from_array(evaluated.columns[0], expressions.types[0])
        for place, value in enumerate(values):
            wanted, raised = asked(memory, text, place + 1)
            fits = wanted is None or expressions.types[0] in (Type.ANY, type_of_exactly(wanted))
            assert (place in evaluated.failed) == (raised or not fits), (text, wanted)
            assert place in evaluated.failed or same(value, wanted), text


def type_of_exactly(value: Value) -> Type:
    return {int: Type.INTEGER, float: Type.REAL, str: Type.TEXT, bytes: Type.BLOB}[type(value)]


@settings(max_examples=200 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(expressions, rows())
def test_a_few_rows_evaluate_as_in_sqlite(text: str, given_rows: list[Row]) -> None:
    compare(text, given_rows)


@settings(max_examples=120 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(expressions, rows(20, 24))
@example("abs(i)", [(n, -(2**63) if n == 3 else n, None, None, None, None, None, None) for n in range(1, 30)])
@example("i * i", [(n, 2**40 * n, None, None, None, None, None, None) for n in range(1, 30)])
def test_many_rows_evaluate_as_in_sqlite(text: str, given_rows: list[Row]) -> None:
    compare(text, given_rows)


# Kernels: typed columns only, so that most expressions have one.

INTEGERS = st.sampled_from([-(2**63), 2**63 - 1, 2**53, 2**53 + 1, -7, -1, 0, 1, 2, 3, 10])
REALS = st.sampled_from([float("inf"), float("-inf"), 0.0, 0.1, -2.5, 1e308, -1e308, 2.0**53, 3.0, 5e-324])
TEXTS = st.sampled_from(["", "a", "A", "aB", "é", "É", "a\x00b", "a\nb", "10", " a", "ab%", "a_b", "\U0001f40d", "ZZ"])
TYPED = st.tuples(
    st.none() | INTEGERS,
    st.none() | REALS,
    st.none(),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.none() | st.binary(max_size=2),
    st.none(),
)


def many(least: int, most: int) -> st.SearchStrategy[list[Row]]:
    return st.lists(TYPED, min_size=least, max_size=most).map(
        lambda some: [(at, *row) for at, row in enumerate(some, 1)]
    )


integers = st.recursive(
    st.sampled_from(["i", "id", "0", "1", "-1", "3", "9007199254740993"]),
    lambda e: st.one_of(
        st.tuples(e, st.sampled_from("+-*/%"), e).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        e.map(lambda x: f"abs({x})"),
        e.map(lambda x: f"(-{x})"),
        st.tuples(e, e).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        st.sampled_from(["length(s)", "length(c)"]),
    ),
    max_leaves=4,
)
reals = st.recursive(
    st.sampled_from(["r", "0.0", "1.5", "1e308", "CAST(i AS REAL)"]),
    lambda e: st.one_of(
        st.tuples(e, st.sampled_from("+-*/"), e | integers).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        e.map(lambda x: f"abs({x})"),
        e.map(lambda x: f"(-{x})"),
    ),
    max_leaves=4,
)
texts = st.recursive(
    st.sampled_from(["s", "c", "'a'", "'É'", "''"]),
    lambda e: st.one_of(
        st.tuples(e, e).map(lambda t: f"({t[0]} || {t[1]})"),
        st.tuples(st.sampled_from(["lower", "upper"]), e).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(e, e).map(lambda t: f"ifnull({t[0]}, {t[1]})"),
    ),
    max_leaves=3,
)
SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT"])


def comparisons(e: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(e, SIGNS, e).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(e, st.sampled_from(["IN", "NOT IN"]), e, e).map(lambda t: f"({t[0]} {t[1]} ({t[2]}, {t[3]}))"),
        st.tuples(e, st.sampled_from(["", "NOT "]), e, e).map(lambda t: f"({t[0]} {t[1]}BETWEEN {t[2]} AND {t[3]})"),
        e.map(lambda x: f"({x} IS NULL)"),
        e.map(lambda x: f"({x} IS NOT NULL)"),
    )


likes = st.tuples(texts, st.sampled_from(["LIKE", "NOT LIKE"]), st.sampled_from(["a%", "%B", "_", "a_b", "", "é%"]))
truths = st.recursive(
    st.one_of(
        comparisons(integers),
        comparisons(reals),
        comparisons(texts),
        comparisons(st.sampled_from(["b", "x'00'", "x''"])),
        st.tuples(integers, SIGNS, reals).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        likes.map(lambda t: f"({t[0]} {t[1]} '{t[2]}')"),
    ),
    lambda e: st.one_of(
        st.tuples(e, st.sampled_from(["AND", "OR"]), e | integers).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        e.map(lambda x: f"(NOT {x})"),
        st.tuples(e, integers, integers).map(lambda t: f"(CASE WHEN {t[0]} THEN {t[1]} ELSE {t[2]} END)"),
        st.tuples(e, texts).map(lambda t: f"(CASE WHEN {t[0]} THEN {t[1]} END)"),
    ),
    max_leaves=4,
)


@settings(max_examples=250 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(st.one_of(integers, reals, texts, truths, truths), many(1, 12))
def test_a_kernel_is_exact_or_in_doubt(text: str, given_rows: list[Row]) -> None:
    kernel = compile_kernel(bound(text), TABLE)
    assume(kernel is not None)
    assert kernel is not None
    memory, batch = stored(given_rows)
    with closing(memory):
        try:
            values = from_array(kernel.evaluate(batch), kernel.type)
        except pa.ArrowInvalid:
            return
        for place, value in enumerate(values):
            wanted, raised = asked(memory, text, place + 1)
            assert not raised
            assert same(value, wanted), (text, given_rows[place])


@pytest.mark.parametrize(
    "text",
    [
        "i + 1 > 2 AND r < 1.0",
        "s || c",
        "coalesce(i, 0) * 2",
        "i IN (1, 2)",
        "s LIKE 'a%'",
        "CASE WHEN i > 0 THEN s END",
    ],
)
def test_common_expressions_have_a_kernel(text: str) -> None:
    assert compile_kernel(bound(text), TABLE) is not None


@settings(max_examples=100 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(expressions, rows(1, 20))
def test_a_filter_passes_what_where_passes(text: str, given_rows: list[Row]) -> None:
    expr = bound(text)
    memory, batch = stored(given_rows)
    with closing(memory):
        filtered = RowFilter(expr, TABLE).apply(batch)
        passed = [True] * batch.num_rows if filtered.passed is None else filtered.passed.tolist()
        for place in range(batch.num_rows):
            wanted, raised = asked(memory, f"CASE WHEN {text} THEN 1 ELSE 0 END", place + 1)
            assert (place in filtered.failed) == raised
            assert passed[place] == (wanted == 1)


def test_a_row_that_fails_fails_alone() -> None:
    batch = batch_of(TABLE, [(n, -(2**63) if n == 2 else -n, None, None, None, None, None, None) for n in range(1, 5)])
    evaluated = Expressions([bound("abs(i)"), bound("id")], TABLE).evaluate(batch)
    assert evaluated.columns[0].to_pylist() == [1, None, 3, 4]
    assert evaluated.columns[1].to_pylist() == [1, 2, 3, 4]
    assert evaluated.failed == {1: "integer overflow"}


def test_case_and_and_guard_a_failure() -> None:
    batch = batch_of(TABLE, [(1, -(2**63), None, None, None, None, None, None)])
    evaluated = Expressions([bound("CASE WHEN i > 0 THEN abs(i) ELSE 0 END")], TABLE).evaluate(batch)
    assert (evaluated.columns[0].to_pylist(), evaluated.failed) == ([0], {})
    filtered = RowFilter(bound("i > 0 AND abs(i) > 1"), TABLE).apply(batch)
    assert filtered.passed is not None
    assert (filtered.passed.tolist(), filtered.failed) == ([False], {})


def test_an_integer_that_overflows_fails_its_row() -> None:
    batch = batch_of(TABLE, [(1, 2**63 - 1, None, None, None, None, None, None)])
    assert "integer overflow" in Expressions([bound("i + 1")], TABLE).evaluate(batch).failed[0]


def test_values_of_every_type_go_in_and_out_unchanged() -> None:
    values: list[Value] = [None, 1, 1.0, "1", b"1", float("inf"), 2**63 - 1, "a\x00é"]
    batch = batch_of(TABLE, [(n, None, None, None, None, None, None, value) for n, value in enumerate(values)])
    evaluated = Expressions([bound("coalesce(x, NULL)")], TABLE).evaluate(batch)
    assert evaluated.columns[0].equals(to_array(values, Type.ANY))
