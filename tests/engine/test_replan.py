"""Joins count their rows beside what was expected of them, and run in another order from any moment on, unseen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.operators.join.estimated_joins import Misestimate
from headwater.model.change import Change, Transaction
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.join_order.order import JOIN, ClusterOrder, JoinOrder
from headwater.plan.planner import Planned, plan
from tests.engine.world import batch_of, delta_of

WRITTEN = JoinOrder((ClusterOrder((0, 1, JOIN, 2, JOIN), (4, 4)),))  # with what is expected of each join
TURNED = JoinOrder((ClusterOrder((1, 2, JOIN, 0, JOIN), (4, 4)),))
CHAIN = "SELECT a.id AS x, b.id AS y, c.id AS z FROM a JOIN b ON b.g = a.g JOIN c ON c.h = b.h"


def _table(name: str, *names: str) -> Table:
    return Table(name, tuple(Column(each, Type.INTEGER, "INTEGER") for each in names), ("id",))


TABLES = {"a": _table("a", "id", "g"), "b": _table("b", "id", "g", "h"), "c": _table("c", "id", "h")}
ROWS: dict[str, list[Row]] = {
    "a": [(n, n) for n in range(4)],
    "b": [(n, n, n) for n in range(4)],
    "c": [(n, n) for n in range(4)],
}


def begun(sql: str = CHAIN, limits: Limits = DEFAULT) -> tuple[Dataflow, Planned]:
    flow, planned = Dataflow(limits=limits), plan(sql, TABLES)
    for table in TABLES.values():
        flow.define(table)
    flow.activate(planned.template, whole(), order=WRITTEN)
    flow.subscribe(planned.instance, 1)
    flow.take()
    return flow, planned


def whole() -> dict[str, list[pa.RecordBatch]]:
    return {name: [batch_of(TABLES[name], rows)] for name, rows in ROWS.items()}


def inserted(flow: Dataflow, name: str, tx: int, *rows: Row) -> int:
    """How many rows of the result came of it."""
    changes = tuple(Change(name, None, row) for row in rows)
    flow.step({name: [delta_of(TABLES[name], [(tx, Transaction(0, changes))])]})
    return sum(edits.num_rows for edits in flow.take().edits.values())


def misestimate(flow: Dataflow, planned: Planned) -> Misestimate | None:
    return flow.misestimate(planned.template.table)


def test_a_join_that_grows_is_told_with_what_was_expected_of_it(tmp_path: Path) -> None:
    flow, planned = begun()
    assert misestimate(flow, planned) == Misestimate(4, 4)
    assert inserted(flow, "a", 2, *((n, 0) for n in range(100, 160))) == 60
    assert misestimate(flow, planned) == Misestimate(4, 64)
    flow = Dataflow.load(tmp_path, flow.save(tmp_path).document)
    assert misestimate(flow, planned) == Misestimate(4, 64), "counts are part of the state"


def test_estimates_are_for_one_subscriber() -> None:
    flow, planned = begun(f"{CHAIN} WHERE a.g = 0")
    inserted(flow, "a", 2, *((n, 0) for n in range(100, 199)))
    assert misestimate(flow, planned) == Misestimate(4, 100)
    for number in (1, 2):
        other = plan(f"{CHAIN} WHERE a.g = {number}", TABLES)
        flow.subscribe(other.instance, 2 + number)
    assert misestimate(flow, planned) == Misestimate(12, 102), "three may ask for three times as much"


@pytest.mark.parametrize(
    ("expected", "counted", "wrong"), [(10, 100, True), (10, 99, False), (100, 9, True), (0, 9, False)]
)
def test_an_estimate_is_wrong_by_ten_times_whichever_way_and_of_many_rows(
    expected: int, counted: int, wrong: bool
) -> None:
    assert Misestimate(expected, counted).is_wrong(10, 50) is wrong
    assert not Misestimate(expected, counted).is_wrong(10, 1000)


def test_from_the_new_order_on_the_work_is_less_and_the_rows_are_the_same() -> None:
    """Rows of `a` that find no `c` are joined no more before that shows."""
    flow, planned = begun()
    turned, _ = begun()
    turned.replan(planned.template, TURNED, None)
    assert turned.take().edits == {}, "nothing is emitted"
    counts = []
    for each in (flow, turned):
        inserted(each, "c", 2, (9, 9))
        before = each.counters.gathered
        assert inserted(each, "b", 3, *((n, 0, 77) for n in range(100, 150))) == 0
        counts.append(each.counters.gathered - before)
    assert counts[1] < counts[0]
    assert inserted(flow, "c", 4, (10, 77)) == inserted(turned, "c", 4, (10, 77)) == 50


def test_where_the_new_order_is_too_much_work_the_old_one_stays() -> None:
    flow, planned = begun(limits=replace(DEFAULT, work_pairs_max=40))
    product = JoinOrder((ClusterOrder((0, 2, JOIN, 1, JOIN), (16, 4)),))
    for turn in range(3):
        inserted(flow, "a", 2 + turn, *((100 * turn + n, 50) for n in range(10, 40)))
    flow.replan(planned.template, product, None)
    assert misestimate(flow, planned) == Misestimate(4, 4)
    assert inserted(flow, "b", 9, (50, 0, 1)) == 1, "it goes on"
