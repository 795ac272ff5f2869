"""Bugs the engine once had, each in its smallest form."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.expressions.filter import RowFilter
from headwater.engine.windows.template_program import differ
from headwater.model.errors import OverBudget
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.planner import plan
from tests.engine.world import batch_of

T = Table("t", (Column("i", Type.INTEGER, "INTEGER"),), ("i",))


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=T.arrow)


def test_abs_leaves_negative_zero_alone_as_sqlite_does() -> None:
    expressions = Expressions([plan("SELECT abs(-0.0) AS v FROM t", [T]).template.outputs[0].expr], T)
    for count in (1, 100):
        [column] = expressions.evaluate(rows(*range(count))).columns
        assert repr(column.to_pylist()[0]) == "-0.0"


def test_and_in_where_stops_at_what_is_false() -> None:
    """As a value `i > 0 AND abs(i) > 1` raises for the least integer; in a WHERE clause it does not."""
    where = plan("SELECT i FROM t WHERE i > 0 AND abs(i) > 1 OR 0", [T]).template.where
    filtered = RowFilter(where, T).apply(rows(-(2**63), 5))
    assert filtered.failed == {}
    assert filtered.passed is not None
    assert filtered.passed.tolist() == [False, True]


def test_a_cell_that_owns_no_part_of_a_relation_forgets_it_with_its_table(tmp_path: Path) -> None:
    """Its template stayed in the saved state, and loading that asked for a table that was gone."""
    tables = [Table(name, (Column("id", Type.INTEGER), Column("y", Type.INTEGER)), key=("id",)) for name in "ac"]
    planned = plan("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.y = a.id)", tables)
    for q in range(2):
        flow = Dataflow(partition=(q, 2))
        for table in tables:
            flow.define(table)
        flow.activate(planned.template, {"a": [], "c": []})
        flow.drop("c", 1, "gone")
        saved = flow.save(tmp_path)
        assert not Dataflow.load(tmp_path, saved.document, partition=(q, 2)).knows(planned.template.id)


def test_a_derived_table_beside_a_query_on_the_table_itself_is_loaded_again(tmp_path: Path) -> None:
    """The relation of one is the bare table; the text of the other was taken for one over that relation, and the cell
    could not be loaded, ever."""
    asked = [plan(sql, [T]) for sql in ("SELECT i FROM t WHERE i > 1", "SELECT x.i FROM (SELECT i FROM t) x")]
    flow = Dataflow()
    flow.define(T)
    for number, planned in enumerate(asked, 1):
        flow.activate(planned.template, {"t": [rows(1, 2, 3)]})
        flow.subscribe(planned.instance, number)
    loaded = Dataflow.load(tmp_path, flow.save(tmp_path).document)
    assert all(loaded.knows(planned.template.id) for planned in asked)


@pytest.mark.parametrize("sql", ["i IN ({})", "NOT i IN ({})"])
def test_a_list_may_be_long(sql: str) -> None:
    """Each value was a call deeper: from about 1,000 on the query was ended as a bug of ours."""
    where = plan(f"SELECT i FROM t WHERE {sql.format(', '.join(map(str, range(3000))))} OR 0", [T]).template.where
    passed = RowFilter(where, T).apply(rows(*range(2990, 3010))).passed
    assert passed is not None
    assert passed.tolist() == [(i < 3000) != sql.startswith("NOT") for i in range(2990, 3010)]


def test_values_too_long_to_be_made_are_not_tried_for_every_row() -> None:
    """Each try takes a tenth of a second: with 200 rows nobody else was told anything for half a minute."""
    table = Table("t", (Column("i", Type.INTEGER, "INTEGER"), Column("x", Type.TEXT, "TEXT")), ("i",))
    sql = f"SELECT replace(x, 'a', '{'b' * 250}') AS v FROM t"
    long = Expressions([plan(sql, [table]).template.outputs[0].expr], table)
    texts = batch_of(table, [(i, "a" * 300_000) for i in range(200)])
    assert [*long.evaluate(texts[:2]).failed.values()] == ["string or blob too big"] * 2
    with pytest.raises(OverBudget, match="bytes of values at once"):
        long.evaluate(texts)


@pytest.mark.parametrize("pattern", ["%a%a%a%a%a%a%a%a%a%a%a%a%c", "%a_%a_%a_%a_%a_%a_%a_%a_%a_%b_"])
def test_a_pattern_of_many_wildcards_takes_no_longer_than_its_text(pattern: str) -> None:
    """PostgreSQL: each % tried every place for all those behind it, and a cell never came back."""
    table = Table("t", (Column("id", Type.INTEGER, "integer"), Column("x", Type.TEXT, "text")), ("id",), 0, "postgres")
    where = plan(f"SELECT id FROM t WHERE x LIKE '{pattern}'", [table]).template.where
    texts = ["a" * 200, "a" * 200 + "c", "a" * 200 + "bc", "c"]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(texts)), pa.int64()), pa.array(texts, pa.large_string())], schema=table.arrow
    )
    passed = RowFilter(where, table).apply(batch).passed
    assert passed is not None
    assert passed.tolist() == [False, pattern[-1] == "c", True, False]


@pytest.mark.parametrize("more", [0, 40])
def test_a_zero_that_changes_its_sign_is_a_change(more: int) -> None:
    """Found on PostgreSQL, which keeps -0: an update from it to 0 was told to nobody. NaN to NaN is no change."""
    values = [0.0, -0.0, math.nan, math.nan, *[1.0] * more]
    pool = pa.RecordBatch.from_arrays([pa.array(values)], names=["f"])
    assert differ(pool, np.array([0, 2, 0]), np.array([1, 3, 0])).tolist() == [True, False, False]


def test_a_row_that_fails_is_no_error_of_those_who_do_not_ask_for_it() -> None:
    """Everyone who shared the join was in error, here by the least integer, which the query for 2 never sees."""
    flow, asked = Dataflow(), []
    flow.define(T)
    for value in (-(2**63), 2):
        planned = plan(f"SELECT a.i FROM t a JOIN t b ON b.i = a.i AND abs(b.i) > 0 WHERE a.i = {value}", [T])
        whole = {"t": [rows(-(2**63), 2)]}
        flow.activate(planned.template, whole if flow.needs_rows(planned.template) else None)
        flow.subscribe(planned.instance, 1)
        asked.append(planned.instance.id)
    told = {entry.instance: entry.kind for entry in flow.take().index}
    assert [told[instance] for instance in asked] == ["error", "result"]
