"""A template that nobody needs goes, with what was kept for it alone; whoever asks again finds it as if it were new."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.index import Entry
from headwater.model.limits import Limits
from headwater.plan.planner import Planned, plan
from tests.engine.state.test_spill import SQLS, TABLES, Rows, deltas, first_rows, transaction
from tests.engine.world import batch_of

SMALL = Limits(run_rows_min=8)
JOIN = "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer"
ALIKE = (JOIN, f"{JOIN} WHERE c.name = 'a'", f"{JOIN} WHERE o.id = 3")  # templates over one relation
PLANS = {sql: plan(sql, TABLES) for sql in (*SQLS, *ALIKE)}
Told = tuple[list[Entry], dict[str, str]]
STAYS = "SELECT id, name FROM customers WHERE name = 'a'"


def empty(partition: tuple[int, int] = (0, 1)) -> Dataflow:
    flow = Dataflow(partition=partition, limits=SMALL)
    for table in TABLES:
        flow.define(table)
    return flow


def begin(flow: Dataflow, planned: Planned, rows: Rows, tx: int) -> Told:
    """Activates and subscribes: the first result."""
    needed = flow.needs_rows(planned.template)
    whole = {table.name: [batch_of(table, list(rows[table.name].values()))] for table in TABLES}
    flow.activate(planned.template, whole if needed else None)
    flow.subscribe(planned.instance, tx)
    return told(flow)


def told(flow: Dataflow) -> Told:
    """All that was emitted, to the last value; but not which of Arrow's ways to say it was taken."""
    emitted = flow.take()
    return list(emitted.index), {name: repr(edits.to_pylist()) for name, edits in emitted.edits.items()}


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("partition", [(0, 1), (0, 2), (1, 2)])
def test_what_was_kept_for_one_template_goes_with_it(
    partition: tuple[int, int], restored: bool, tmp_path: Path
) -> None:
    rng = random.Random(repr(partition))
    rows, flow = first_rows(rng, 40), empty(partition)
    begin(flow, plan(STAYS, TABLES), rows, 1)
    for tx, planned in enumerate([*PLANS.values()] * 2, 10):
        before = flow.save(tmp_path)
        first = begin(flow, planned, rows, tx)
        assert first == begin(empty(partition), planned, rows, tx), "as if it were new"
        flow.unsubscribe(planned.instance.id, tx)
        assert flow.release(planned.template.id, tx) == []
        assert not flow.knows(planned.template.id)
        after = flow.save(tmp_path)
        assert after == before
        if restored:
            flow = Dataflow.load(tmp_path, after.document, partition=partition, limits=SMALL)
        flow.step(deltas(tx, transaction(rows, rng)))
        flow.take()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_others_never_notice(seed: int, tmp_path: Path) -> None:
    """Templates come and go at random; each tells what it tells in a dataflow in which nothing is ever let go of."""
    rng = random.Random(seed)
    rows, flow, ample = first_rows(rng, 40), empty(), empty()
    living: set[str] = set()
    for tx in range(10, 110):
        sql = rng.choice(list(PLANS))
        planned = PLANS[sql]
        if sql in living:
            for each in (flow, ample):
                each.unsubscribe(planned.instance.id, tx)
            living.discard(sql)
            if all(PLANS[other].template.id != planned.template.id for other in living):
                flow.release(planned.template.id, tx)
        else:
            living.add(sql)
            assert begin(flow, planned, rows, tx) == begin(ample, planned, rows, tx)
        if rng.random() < 0.2:
            flow = Dataflow.load(tmp_path, flow.save(tmp_path).document, limits=SMALL)
        step = deltas(tx, transaction(rows, rng))
        for each in (flow, ample):
            each.step(step)
        assert told(flow) == told(ample)


FIVE = (
    "SELECT id, total FROM orders WHERE customer = 3",
    "SELECT id, customer FROM orders WHERE total = 7",
    "SELECT id, customer, total FROM orders WHERE id = 5",
    "SELECT id FROM orders WHERE customer = 3 AND total = 7",
    "SELECT id, customer, total FROM orders ORDER BY total LIMIT 4",
)


def test_five_keys_of_a_table_are_one_copy_of_its_rows(tmp_path: Path) -> None:
    """Only the first is given rows. Each tells what it tells alone, also after a restart, while rows change."""
    rng = random.Random(3)
    rows, flow = first_rows(rng, 40), empty()
    plans = [plan(sql, TABLES) for sql in FIVE]
    alone = [empty() for _ in FIVE]
    assert [flow.needs_rows(planned.template) for planned in plans] == [True] * 5
    for n, (planned, one) in enumerate(zip(plans, alone, strict=True)):
        assert flow.needs_rows(planned.template) == (n == 0)
        assert begin(flow, planned, rows, 10 + n) == begin(one, planned, rows, 10 + n)
        step = deltas(20 + n, transaction(rows, rng))
        for each in (flow, *alone[: n + 1]):
            each.step(step)
        for each in (flow, *alone):
            told(each)
    for tx in range(30, 60):
        if tx == 45:
            flow = Dataflow.load(tmp_path, flow.save(tmp_path).document, limits=SMALL)
        step = deltas(tx, transaction(rows, rng))
        for each in (flow, *alone):
            each.step(step)
        apart = [told(each) for each in alone]
        together = told(flow)
        assert sorted(together[0]) == sorted(entry for entries, _ in apart for entry in entries)
        assert together[1] == {template: edits for _, each in apart for template, edits in each.items()}
    assert list(flow._state.stores) == ["orders"]
    assert len(flow._state.stores["orders"]) == len(rows["orders"]), "one copy"
    assert len(flow._state.stores["orders"].indexes) == 4


def test_instances_left_end_without_a_word() -> None:
    flow, rows = empty(), first_rows(random.Random(1), 10)
    planned = PLANS[JOIN]
    begin(flow, planned, rows, 1)
    assert flow.release(planned.template.id, 2) == [planned.instance.id]
    assert flow.release(planned.template.id, 2) == []
    flow.step(deltas(2, transaction(rows, random.Random(2))))
    assert not flow.take().index
