"""Numbers of any size: the smallest cases that once went wrong."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pytest

import headwater
from headwater.dialects.bind import bind
from headwater.engine.operators.group.accumulators import Extreme
from headwater.engine.rows.work import Work
from headwater.engine.state.ordered_keys import OrderedKeys, OrderedKeysPart
from headwater.engine.windows.template_program import Program
from headwater.model.encoding.keys import encode_value
from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Type, to_array
from headwater.plan.planner import plan
from tests.support.postgres import VERSIONS, Servers


def test_numbers_below_every_double_have_keys_in_their_order() -> None:
    """They had none at all: the distance to the double beneath them, minus infinity, is no number."""
    numbers = [Decimal(text) for text in ("-Infinity", "-21E+400", "-2E+401", "-2E+400", "-1E+400", "-1E+308", "0")]
    keys = [encode_value(number) for number in numbers]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


def test_the_largest_of_numbers_that_are_one_double_is_the_largest() -> None:
    """It was the shortest: what comes behind a key was taken for its end."""
    numbers = [Decimal("1.00000000000000000001"), Decimal(1), Decimal("1.00000000000000000002"), Decimal("1.0")]
    for falling in (False, True):
        made = Extreme(OrderedKeysPart(OrderedKeys(Work()), b""), "BINARY", descending=falling)
        for number in numbers:
            made.add(number, 1)
        assert made.result() == (max if falling else min)(numbers)


def test_rows_that_are_ordered_by_one_double_are_in_order_whatever_their_identity() -> None:
    """The rest of a number stood where the identity of a row stands that has none."""
    table = Table("t", (Column("n", Type.NUMERIC, "numeric"),), ("n",), dialect="postgres")
    rows = [Decimal("1.00000000000000000001"), Decimal(1), Decimal("1.00000000000000000002")]
    batch = pa.RecordBatch.from_arrays([to_array(rows, Type.NUMERIC)], schema=table.arrow)
    for word, order in (("ASC", [1, 0, 2]), ("DESC", [2, 0, 1])):
        program = Program(plan(f"SELECT n FROM t ORDER BY n {word}", [table]).template, table)
        for id in (0, 2**64 - 1):
            keys = program.see(batch, np.full(len(rows), id, np.uint64)).keys
            assert sorted(range(3), key=keys.__getitem__) == order


@pytest.mark.slow
def test_a_value_that_only_looks_different_is_told(servers: Servers, tmp_path: Path) -> None:
    """1.0 became 1.00 and 0 became -0: nobody was told by a group that shows them, nor asked the origin again."""
    server = servers[VERSIONS[0]]
    with server.database() as database, psycopg.connect(server.url(database), autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric, f float8)")
        db.execute("INSERT INTO t VALUES (1, 1.0, 0)")
        with headwater.connect(server.url(database), runner="inline", data_dir=tmp_path) as opened:
            lives = [opened.query(sql, live=True) for sql in _LOOKING]
            db.execute("UPDATE t SET n = 1.00, f = '-0'")
            for live in lives:
                assert live.wait(opened.position())
                assert [repr(row) for row in live.rows] == ["{'n': Decimal('1.00'), 'f': -0.0}"], live.strategy
    assert [live.strategy for live in lives] == ["incremental", "incremental", "requery"]


_LOOKING = (
    "SELECT t.n, t.f FROM t GROUP BY t.id HAVING count(*) > 0",
    "SELECT t.n, t.f FROM t GROUP BY t.id HAVING max(t.id) > 0",
    "SELECT DISTINCT n, f FROM t",
)


def test_a_set_of_numbers_of_several_scales_is_left_to_the_origin() -> None:
    """Which of 1.50 and 1.500 it shows is open."""
    columns = (Column("id", Type.INTEGER, "integer"), Column("a", Type.NUMERIC, "numeric(9,2)"))
    table = Table("t", (*columns, Column("b", Type.NUMERIC, "numeric(9,3)")), ("id",), dialect="postgres")
    for word in ("UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"):
        with pytest.raises(UnsupportedQuery, match="look different"):
            bind(f"SELECT a FROM t {word} SELECT b FROM t", [table])
    bind("SELECT a FROM t UNION ALL SELECT b FROM t", [table])
