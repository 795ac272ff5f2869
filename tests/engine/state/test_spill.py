"""A cell may keep less of its state in memory than there is of it: nobody sees which part (law 11, law 9)."""

from __future__ import annotations

import gc
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import encode
from headwater.engine.operators.group import accumulators
from headwater.engine.rows.delta import Delta
from headwater.model.change import Change, Transaction
from headwater.model.limits import Limits
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import plan
from tests.engine.world import batch_of, delta_of

ORDERS = Table("orders", tuple(Column(name, Type.INTEGER, "INTEGER") for name in ("id", "customer", "total")), ("id",))
CUSTOMERS = Table("customers", (Column("id", Type.INTEGER, "INTEGER"), Column("name", Type.TEXT, "TEXT")), ("id",))
TABLES = (ORDERS, CUSTOMERS)
SQLS = (
    "SELECT id, total FROM orders WHERE customer = 3",
    "SELECT id, total FROM orders ORDER BY total DESC LIMIT 5",
    "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer",
    "SELECT c.id, c.name, o.id AS o FROM customers c LEFT JOIN orders o ON c.id = o.customer AND o.total > 5",
    "SELECT id, name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
    "SELECT customer, count(*) AS n, sum(total) AS s, max(total) AS m FROM orders GROUP BY customer",
    "SELECT DISTINCT total FROM orders UNION SELECT id FROM customers",
    "SELECT customer, group_concat(total) AS totals, count(DISTINCT total) AS n FROM orders GROUP BY customer",
    "SELECT name, min(id) AS first, avg(id * 0.5) AS mean FROM customers GROUP BY name",
    "SELECT max(total) AS m FROM orders",
    "SELECT total FROM orders UNION ALL SELECT id FROM customers",
    "SELECT z.id, c.name FROM (SELECT id, customer FROM orders ORDER BY total LIMIT 7) AS z JOIN customers c"
    " ON c.id = z.customer",
    "SELECT c.id, (SELECT o.total FROM orders o WHERE o.customer = c.id ORDER BY o.total DESC LIMIT 1) AS m"
    " FROM customers c",
)
Rows = dict[str, dict[int, Row]]


def opened(limits: Limits, rows: Rows) -> Dataflow:
    """All queries, subscribed to."""
    flow = Dataflow(limits=limits)
    for table in TABLES:
        flow.define(table)
    for number, sql in enumerate(SQLS, 1):
        planned = plan(sql, TABLES)
        whole = {table.name: [batch_of(table, list(rows[table.name].values()))] for table in TABLES}
        flow.activate(planned.template, whole if flow.needs_rows(planned.template) else None)
        flow.subscribe(replace(planned.instance, id=number), 1)
    return flow


def random_row(table: str, id: int, rng: random.Random) -> Row:
    return (id, rng.randrange(30), rng.randrange(40)) if table == "orders" else (id, rng.choice(("a", "b", None)))


def transaction(rows: Rows, rng: random.Random) -> Transaction:
    """Each row at most once."""
    changes: list[Change] = []
    for table, id in sorted({(rng.choice(("orders", "customers")), rng.randrange(120)) for _ in range(6)}):
        old = rows[table].pop(id, None)
        new = None if old is not None and rng.random() < 0.4 else random_row(table, id, rng)
        if new is not None:
            rows[table][id] = new
        if old != new:
            changes.append(Change(table, old, new))
    return Transaction(0, tuple(changes))


def deltas(tx: int, one: Transaction) -> dict[str, list[Delta]]:
    parts = {t.name: (t, tuple(c for c in one.changes if c.table == t.name)) for t in TABLES}
    return {name: [delta_of(t, [(tx, Transaction(0, mine))])] for name, (t, mine) in parts.items() if mine}


def first_rows(rng: random.Random, count: int) -> Rows:
    return {t.name: {id: random_row(t.name, id, rng) for id in range(count)} for t in TABLES}


@pytest.mark.slow
@pytest.mark.parametrize("bytes_max", [0, 4096])
@pytest.mark.parametrize("restored", [False, True])
def test_what_is_emitted_does_not_depend_on_what_is_in_memory(
    bytes_max: int, restored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(bytes_max)
    rows = first_rows(rng, 60)
    monkeypatch.setattr(accumulators, "VALUES_MAX", 3)
    monkeypatch.setattr(accumulators, "PIECES_MAX", 3)
    few = bytes_max // 256
    tight = Limits(run_rows_min=8, state_bytes_max=bytes_max, head_rows_max=few, open_groups_max=few)
    ample, small = opened(Limits(run_rows_min=8), rows), opened(tight, rows)
    emitted = 0
    for tx in range(10, 90):
        step = deltas(tx, transaction(rows, rng))
        ample.step(step)
        small.step(step)
        told = encode(ample.take())
        assert encode(small.take()) == told
        emitted += len(told)
        if tx % 4 == 0:
            saved = small.save(tmp_path)
            assert sum(run.bytes for run in small.inside(tmp_path)) <= bytes_max
            small = Dataflow.load(tmp_path, saved.document, limits=tight) if restored else small
    assert emitted


def test_saved_state_leaves_memory_over_the_limit(tmp_path: Path) -> None:
    """Counted by Arrow, which holds the rows, and by the runs themselves, which hold what finds them."""
    count, limit = 40_000, 256 << 10
    ids = np.arange(count)
    before = pa.total_allocated_bytes()
    flow = Dataflow(limits=Limits(state_bytes_max=limit))
    flow.define(ORDERS)
    flow.define(CUSTOMERS)
    orders = pa.RecordBatch.from_arrays([pa.array(ids), pa.array(ids % 1000), pa.array(ids)], schema=ORDERS.arrow)
    names = pa.array([f"customer {n}" for n in range(1000)])
    customers = pa.RecordBatch.from_arrays([pa.array(ids[:1000]), names], schema=CUSTOMERS.arrow)
    flow.activate(plan(SQLS[3], TABLES).template, {"orders": [orders], "customers": [customers]})
    held = sum(run.bytes for run in flow.inside(tmp_path))
    del orders, customers, names
    flow.save(tmp_path)
    gc.collect()
    assert held > 10 * limit
    assert sum(run.bytes for run in flow.inside(tmp_path)) <= limit
    assert pa.total_allocated_bytes() - before <= limit


def test_groups_that_nobody_touches_leave_memory(tmp_path: Path) -> None:
    """Counted by Python, which holds them."""
    count = 5000
    rows = [(n, n, n) for n in range(count)]
    flow = Dataflow(limits=Limits(state_bytes_max=0))
    flow.define(ORDERS)
    gc.collect()
    tracemalloc.start()
    flow.activate(plan("SELECT customer, max(total) AS m FROM orders GROUP BY customer", TABLES).template,
                  {"orders": [batch_of(ORDERS, rows)]})  # fmt: skip
    held = tracemalloc.get_traced_memory()[0]
    for _ in range(2):
        flow.save(tmp_path)
    gc.collect()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held > 800 * count
    assert left < held / 10


def test_the_order_beneath_a_limit_inside_leaves_memory(tmp_path: Path) -> None:
    """Counted by Python, which holds the heads, and by the runs, which hold the rest."""
    count = 20_000
    sql = "SELECT customer, count(*) AS n FROM (SELECT id, customer FROM orders ORDER BY total LIMIT 9) AS z GROUP BY 1"
    flow = Dataflow(limits=Limits(state_bytes_max=0))
    flow.define(ORDERS)
    rows = batch_of(ORDERS, [(n, n % 7, n * 7919 % count) for n in range(count)])
    gc.collect()
    tracemalloc.start()
    flow.activate(plan(sql, TABLES).template, {"orders": [rows]})
    flow.save(tmp_path)
    gc.collect()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert not sum(run.bytes for run in flow.inside(tmp_path))
    assert left < 10 * count
