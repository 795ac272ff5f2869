"""Bugs the engine once had, each in its smallest form."""

from __future__ import annotations

import pyarrow as pa

from headwater.engine.expression import Expressions
from headwater.engine.filter import Filter
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.sql.bind import bind

T = Table("t", (Column("i", Type.INTEGER, "INTEGER"),), ("i",))


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=T.arrow)


def test_abs_leaves_negative_zero_alone_as_sqlite_does() -> None:
    expressions = Expressions([bind("SELECT abs(-0.0) AS v FROM t", [T]).outputs[0].expr], T)
    for count in (1, 100):
        [column] = expressions.evaluate(rows(*range(count))).columns
        assert repr(column.to_pylist()[0]) == "-0.0"


def test_and_in_where_stops_at_what_is_false() -> None:
    """As a value `i > 0 AND abs(i) > 1` raises for the least integer; in a WHERE clause it does not."""
    [where] = bind("SELECT i FROM t WHERE i > 0 AND abs(i) > 1 OR 0", [T]).where
    filtered = Filter(where, T).apply(rows(-(2**63), 5))
    assert filtered.failed == {}
    assert filtered.passed is not None
    assert filtered.passed.tolist() == [False, True]
