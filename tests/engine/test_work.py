"""Law 10, counted: a change costs what it affects, not what is subscribed to and not what the table holds."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.rows.work import Work
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import plan
from tests.engine.world import batch_of, delta_of

T = Table(
    "t",
    (Column("id", Type.INTEGER, "INTEGER"), Column("g", Type.INTEGER, "INTEGER"), Column("v", Type.INTEGER, "INTEGER")),
    ("id",),
)


def rows_of(count: int) -> list[Row]:
    return [(id, id % 1000, id) for id in range(count)]


def opened(sql: str, count: int, instances: int = 1) -> Dataflow:
    flow = Dataflow()
    flow.define(T)
    planned = plan(sql, [T])
    flow.activate(planned.template, {"t": [batch_of(T, rows_of(count))]})
    for n in range(instances):
        values = (n,) if planned.template.keys else planned.instance.values
        flow.subscribe(replace(planned.instance, id=n + 1, values=values), 1)
    flow.take()
    return flow


def worked(flow: Dataflow, changes: int) -> Work:
    """The work of so many transactions, each an update of one row, ten a step."""
    before = replace(flow.counters)
    for start in range(0, changes, 10):
        flow.step({"t": [delta_of(T, [(n + 2, _update(n)) for n in range(start, start + 10)])]})
    after = flow.counters
    counts = [field.name for field in fields(Work) if field.type == "int"]
    return Work(**{name: getattr(after, name) - getattr(before, name) for name in counts})


def _update(n: int) -> Transaction:
    id, before = n % 500, n // 500
    return Transaction(0, (Change("t", (id, id, id - before), (id, id, id - before - 1)),))


@pytest.mark.slow
def test_a_hundred_thousand_subscriptions_cost_a_change_what_a_hundred_do() -> None:
    few, many = (worked(opened("SELECT id, v FROM t WHERE g = 0", 2000, n), 50) for n in (100, 100_000))
    assert many.gathered == few.gathered == 0
    assert many.rewritten == few.rewritten
    assert few.emitted == many.emitted == 50


@pytest.mark.parametrize(
    "sql", ["SELECT id, v FROM t WHERE g = 0", "SELECT id, v FROM t WHERE g = 0 ORDER BY v LIMIT 3"]
)
def test_what_is_saved_are_the_windows_that_changed(tmp_path: Path, sql: str) -> None:
    """However many there are, and a window about log n times in all."""
    counts = []
    for instances in (100, 3000):
        flow = opened(sql, 2000, instances)
        flow.save(tmp_path)
        before = replace(flow.counters)
        assert before.saved == instances
        flow.save(tmp_path)
        for n in range(40):
            flow.step({"t": [delta_of(T, [(n + 2, _update(n))])]})
            flow.take()
            flow.save(tmp_path)
        flow.unsubscribe(50, 50)
        flow.save(tmp_path)
        counts.append((flow.counters.saved - before.saved, flow.counters.rewritten - before.rewritten))
    assert [saved for saved, _ in counts] == [41, 41]
    assert all(rewritten < 41 * 12 for _, rewritten in counts)


SELECTIVE: dict[str, Callable[[int], Row]] = {
    "SELECT id, v FROM t WHERE g IN (0, 1)": lambda n: ((2 * n, 2 * n + 1),),
    "SELECT id, v FROM t WHERE g >= 0 AND g < 1": lambda n: (2 * n, 2 * n + 2),
    "SELECT id, v FROM t WHERE id > 5": lambda n: (20 + n,),
    "SELECT id, v FROM t WHERE v > -100000 AND g = 0 AND id <= 3": lambda n: (n, n, -100000),
    "SELECT id, v FROM t WHERE g < 3 AND v > 4 AND id IN (1, 2)": lambda n: ((2 * n, 2 * n + 1), n + 9, n - 60),
}
BOUNDED = "SELECT id, v FROM t WHERE g >= 0 AND g < 1", "SELECT id, v FROM t WHERE g IN (0, 1)"


@pytest.mark.parametrize(
    ("sql", "most"),
    [*((sql, 3_000) for sql in SELECTIVE), *(pytest.param(sql, 100_000, marks=pytest.mark.slow) for sql in BOUNDED)],
)
def test_a_hundred_thousand_lists_and_bounds_cost_a_change_what_a_hundred_do(sql: str, most: int) -> None:
    """Pairs looked at are work as well: whatever the change affects equally often, it costs the same."""
    few, many = (worked(asked(sql, SELECTIVE[sql], n), 50) for n in (100, most))
    assert few.emitted == many.emitted > 0
    assert many.gathered == few.gathered == 0
    assert many.rewritten == few.rewritten
    assert many.paired <= 1.3 * few.paired


def asked(sql: str, values: Callable[[int], Row], instances: int) -> Dataflow:
    """Over no rows: how a first result is found is not what is counted."""
    flow, planned = Dataflow(), plan(sql, [T])
    flow.define(T)
    flow.activate(planned.template, {"t": [batch_of(T, rows_of(0))]})
    for n in range(instances):
        flow.subscribe(replace(planned.instance, id=n + 1, values=values(n)), 1)
    flow.take()
    return flow


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, v FROM t WHERE v > -100000",
        "SELECT id, v FROM t ORDER BY v",
        "SELECT id, v FROM t ORDER BY v LIMIT 10",
    ],
)
def test_a_change_costs_the_same_in_a_table_of_any_size(sql: str) -> None:
    small, large = (worked(opened(sql, n), 200) for n in (1_000, 30_000))
    assert large.gathered <= small.gathered
    assert large.emitted <= small.emitted


@pytest.mark.parametrize("sql", ["SELECT id, v FROM t", "SELECT id, v FROM t ORDER BY v LIMIT 10"])
def test_merges_rewrite_a_row_about_log_n_times(sql: str) -> None:
    count, changes = 20_000, 6_000
    work = worked(opened(sql, count), changes)
    assert work.rewritten <= 3 * math.log2(count) * changes
    assert work.gathered <= 3 * changes


@pytest.mark.slow
def test_the_engine_runs_where_pyspark_is_not_installed() -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None; sys.modules['py4j'] = None\n"
        "import headwater.engine.dataflow as d; d.Dataflow()\n"
        "assert not [name for name in sys.modules if name.startswith('headwater.pipeline')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
