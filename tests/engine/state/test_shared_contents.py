"""Relations that hold the same rows of a table without a key by the same columns hold them once, and never notice."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.state.bag import Bag
from headwater.model.limits import Limits
from headwater.plan.planner import plan
from tests.engine.state.test_spill import TABLES as KEYED
from tests.engine.state.test_spill import Rows, deltas, first_rows, transaction
from tests.engine.world import batch_of

SMALL = Limits(run_rows_min=8)
TABLES = [replace(table, key=()) for table in KEYED]  # of tables with a key, joins hold no rows themselves
SQLS = (
    "SELECT o.id, o.customer, c.name FROM orders o JOIN customers c ON c.id = o.customer",
    "SELECT x.id, x.customer, y.name FROM orders x LEFT JOIN customers y ON y.id = x.customer",
    "SELECT c.name, o.id, o.customer FROM customers c JOIN orders o ON c.id = o.customer WHERE c.name > 'a'",
    "SELECT id, customer FROM orders q WHERE EXISTS (SELECT 1 FROM customers z WHERE z.id = customer AND name = 'b')",
    "SELECT a.id AS a, a.customer AS k, b.id AS b FROM orders a JOIN orders b ON a.customer = b.customer",
)


def start(flow: Dataflow, number: int, sql: str, rows: Rows, tx: int) -> None:
    planned = plan(sql, TABLES)
    whole = {table.name: [batch_of(table, list(rows[table.name].values()))] for table in TABLES}
    flow.activate(planned.template, whole if flow.needs_rows(planned.template) else None)
    flow.subscribe(replace(planned.instance, id=number), tx)


def defined() -> Dataflow:
    flow = Dataflow(limits=SMALL)
    for table in TABLES:
        flow.define(table)
    return flow


def held(flow: Dataflow) -> tuple[int, int, int]:
    """The bytes of rows that the sides of joins hold: each for all who hold it; each once; and of one side of those
    that hold the same."""
    bags = [bag for derived in flow._state.derived.values() for bag in derived.bags() if bag.contents is not None]
    buffers = [buffer for bag in bags for buffer in _buffers(bag)]
    apart = [buffer for bag in {bag.contents: bag for bag in bags}.values() for buffer in _buffers(bag)]
    return sum(size for _, size in buffers), sum(dict(buffers).values()), sum(dict(apart).values())


def _buffers(bag: Bag) -> list[tuple[int, int]]:
    arrays = [column for run in bag.runs for column in run.rows.columns]
    return [(buffer.address, buffer.size) for array in arrays for buffer in array.buffers() if buffer is not None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_relations_that_share_rows_go_on_as_if_each_had_its_own(seed: int, tmp_path: Path) -> None:
    """Beside each relation in a dataflow of its own, through steps, saves and restores."""
    rng = random.Random(seed)
    rows = first_rows(rng, 60)
    flow, alone = defined(), [defined() for _ in SQLS]
    for tx in range(10, 70):
        if tx % 8 == 2 and (number := tx // 8 - 1) < len(SQLS):
            start(flow, number, SQLS[number], rows, tx)
            start(alone[number], number, SQLS[number], rows, tx)
        step = deltas(1000 + tx, transaction(rows, rng))
        for each in (flow, *alone):
            each.step(step)
        told, apart = flow.take(), [each.take() for each in alone]
        assert sorted(told.index) == sorted(entry for one in apart for entry in one.index)
        for one in apart:
            assert all(repr(told.edits[name].to_pylist()) == repr(each.to_pylist()) for name, each in one.edits.items())
        if rng.random() < 0.15:
            saved = flow.save(tmp_path)
            flow = Dataflow.load(tmp_path, saved.document, limits=SMALL) if rng.random() < 0.5 else flow


@pytest.mark.slow
def test_rows_are_held_once(tmp_path: Path) -> None:
    rng = random.Random(7)
    rows, flow = first_rows(rng, 2000), defined()
    for number, sql in enumerate(SQLS):
        start(flow, number, sql, rows, 1)
        for tx in range(10 * number + 10, 10 * number + 20):
            flow.step(deltas(tx, transaction(rows, rng)))
        flow.take()
    total, once, needed = held(flow)
    assert total > 2.5 * needed
    assert once < 1.2 * needed, "found when they were filled: only what came since is held by each"
    for tx in range(1000, 1200):
        flow.step(deltas(tx, transaction(rows, rng)))
        flow.take()
        if tx % 50 == 0:
            flow.save(tmp_path)
    flow.save(tmp_path)
    total, once, needed = held(flow)
    assert total > 2.5 * needed
    assert once == needed, "found again after each had merged its own"


def test_what_was_built_elsewhere_shares_what_is_here(tmp_path: Path) -> None:
    """A relation that another dataflow made of the same rows, put on disk, loaded and taken along, is adopted."""
    rng = random.Random(3)
    rows, flow, alone = first_rows(rng, 500), defined(), defined()
    start(flow, 0, SQLS[0], rows, 1)
    planned, other = plan(SQLS[1], TABLES), defined()
    start(alone, 1, SQLS[1], rows, 1)
    other.activate(
        planned.template, {table.name: [batch_of(table, list(rows[table.name].values()))] for table in TABLES}
    )
    loaded = Dataflow.load(tmp_path, other.save(tmp_path).document, limits=SMALL, counters=flow.counters)
    for tx in range(10, 20):
        step = deltas(tx, transaction(rows, rng))
        for each in (flow, alone, loaded):
            each.step(step)
    flow.adopt(planned.template, loaded)
    total, once, needed = held(flow)
    assert total > 1.9 * needed and once == needed
    alone.take(), flow.take()
    flow.subscribe(replace(planned.instance, id=1), 30)
    alone.unsubscribe(1, 30)
    alone.subscribe(replace(planned.instance, id=1), 30)
    for tx in range(40, 60):
        assert repr(_edits(flow, planned.template.id)) == repr(_edits(alone, planned.template.id))
        step = deltas(tx, transaction(rows, rng))
        for each in (flow, alone):
            each.step(step)


def _edits(flow: Dataflow, template: str) -> list[object]:
    edits = flow.take().edits.get(template)
    return [] if edits is None else edits.to_pylist()
