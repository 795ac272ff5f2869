"""Many subscriptions to aggregates: one relation for all; of a scalar one a row for each, also over nothing."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import effective_sql, plan
from tests.engine.world import Subscriber, batch_of, deliver, delta_of

pytestmark = pytest.mark.slow

T = Table(
    "t",
    (Column("id", Type.INTEGER), Column("who", Type.INTEGER), Column("n", Type.INTEGER), Column("s", Type.TEXT)),
    ("id",),
)
QUERIES = (
    "SELECT count(*) AS c, sum(n) AS s, total(n) AS t, max(s) AS m FROM t WHERE who = {who}",
    "SELECT count(n) + 1 AS c, coalesce(min(n), -1) AS low FROM t WHERE who = {who} AND n > 2",
    "SELECT s, count(*) AS c FROM t WHERE who = {who} GROUP BY s ORDER BY c DESC LIMIT 2",
    "SELECT DISTINCT s FROM t WHERE who = {who}",
    "SELECT who, s, count(*) AS c FROM t WHERE who = {who} GROUP BY s HAVING count(*) > 1",
    "SELECT s, count(*) AS c FROM t GROUP BY s HAVING count(*) > {who}",
    "SELECT who, sum(n) AS x FROM t GROUP BY who HAVING x BETWEEN {who} AND 6 ORDER BY x DESC LIMIT 2",
    "SELECT who, count(*) AS c FROM t GROUP BY who, s HAVING max(n) = {who} AND avg(n) > 1 AND 'a' <= s",
)


def change(rng: random.Random, rows: dict[int, Row]) -> Transaction:
    changes: list[Change] = []
    for id in rng.sample(range(12), rng.randint(1, 4)):
        old = rows.pop(id, None)
        new = None if rng.random() < 0.4 else (id, rng.randrange(4), rng.choice((None, 1, 2, 3, 4)), rng.choice("ab"))
        if new is not None:
            rows[id] = new
        if old != new:
            changes.append(Change("t", old, new))
    return Transaction(0, tuple(changes))


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("cut", [1, 7])
def test_every_subscription_has_the_rows_of_its_own_query(sql: str, cut: int, tmp_path: Path) -> None:
    rng, rows, flow = random.Random(3), dict[int, Row](), Dataflow()
    flow.define(T)
    subscribers = [Subscriber(plan(sql.format(who=who), [T])) for who in range(5)]
    assert len({one.planned.template.table for one in subscribers}) == 1
    for one in subscribers:
        if not flow.knows(one.planned.template.id):
            flow.activate(one.planned.template, {"t": [batch_of(T, [])]})
        flow.subscribe(one.planned.instance, 1)
    deliver(flow.take(), subscribers)
    for step in range(40):
        transactions = [(2 + step * cut + n, change(rng, rows)) for n in range(cut)]
        flow.step({"t": [delta_of(T, transactions)]})
        deliver(flow.take(), subscribers)
        for one in subscribers:
            assert sorted(map(repr, one.rows)) == sorted(map(repr, from_scratch(one, rows))), (
                step,
                one.planned.instance,
            )
        if step == 20:
            flow = Dataflow.load(tmp_path, flow.save(tmp_path).document)


def from_scratch(one: Subscriber, rows: dict[int, Row]) -> list[Row]:
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, who INTEGER, n INTEGER, s TEXT)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows.values())
        found: list[Row] = db.execute(effective_sql(one.planned.template, one.planned.instance)).fetchall()
    db.close()
    return found


def test_a_hundred_subscriptions_cost_a_change_what_one_does() -> None:
    work = [_work_of_one_change(subscriptions) for subscriptions in (1, 100)]
    assert work[0] == work[1]


def _work_of_one_change(subscriptions: int) -> int:
    flow = Dataflow()
    flow.define(T)
    rows: list[Row] = [(id, id % 200, 1, "a") for id in range(1000)]
    for who in range(subscriptions):
        planned = plan(QUERIES[0].format(who=who), [T])
        if not flow.knows(planned.template.id):
            flow.activate(planned.template, {"t": [batch_of(T, rows)]})
        flow.subscribe(planned.instance, 1)
    flow.take()
    before = flow.counters.gathered + flow.counters.emitted
    flow.step({"t": [delta_of(T, [(2, Transaction(0, (Change("t", rows[0], (0, 0, 2, "a")),)))])]})
    assert len(flow.take().index) == 1
    return flow.counters.gathered + flow.counters.emitted - before
