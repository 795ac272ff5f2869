"""Steps large enough that windows, keys and emissions are handled in columns give what small ones give."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import decode, encode
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import plan
from tests.engine.world import FUZZ, batch_of, delta_of

T = Table(
    "t",
    (Column("id", Type.INTEGER, "INTEGER"), Column("g", Type.TEXT, "TEXT"), Column("v", Type.INTEGER, "INTEGER")),
    ("id",),
)
SQL = "SELECT id, v FROM t WHERE g = 'x'"
ORDERED = (
    "SELECT id, v FROM t ORDER BY id LIMIT 2",
    "SELECT id, v FROM t ORDER BY id LIMIT 3 OFFSET 4",
    "SELECT id FROM t ORDER BY v DESC, id LIMIT 5",
    "SELECT id, g FROM t WHERE v < 2 ORDER BY g LIMIT 6",
    "SELECT id, g FROM t ORDER BY g DESC LIMIT 1000",
)


def names(rng: random.Random) -> str:
    return rng.choice("ab") * rng.randrange(50)


def history(rng: random.Random, rows: dict[int, Row], count: int) -> list[tuple[int, Transaction]]:
    return [(tx, Transaction(tx, tuple(changes(rng, rows)))) for tx in range(2, 2 + count)]


def changes(rng: random.Random, rows: dict[int, Row]) -> list[Change]:
    out = []
    for id in {rng.randrange(300) for _ in range(rng.randrange(1, 4))}:
        new: Row | None = (id, names(rng), rng.randrange(3)) if rng.random() < 0.8 else None
        old = rows.pop(id, None)
        if new is not None:
            rows[id] = new
        if old != new:
            out.append(Change("t", old, new))
    return out


def by_name(first: list[Row]) -> Dataflow:
    """A hundred windows for a hundred names, some of them twice."""
    flow, planned = Dataflow(), plan(SQL, [T])
    flow.define(T)
    flow.activate(planned.template, {"t": [batch_of(T, first)]})
    for id in range(1, 130):
        values = ("ab"[id % 2] * (id // 2 % 50),)
        flow.subscribe(replace(planned.instance, id=id, values=values), 1)
        if id % 5 == 0:
            flow.unsubscribe(id - 3, 1)
    return flow


def framed(first: list[Row]) -> Dataflow:
    """Frames of three orders: by numbers, by texts with long common beginnings, and with more rows than there are."""
    flow = Dataflow()
    flow.define(T)
    for id, sql in enumerate(ORDERED, 1):
        planned = plan(sql, [T])
        flow.activate(planned.template, {"t": [batch_of(T, first)]} if flow.needs_rows(planned.template) else None)
        flow.subscribe(replace(planned.instance, id=id), 1)
    return flow


def emitted(flow: Dataflow, txs: list[tuple[int, Transaction]], cut: int) -> bytes:
    for at in range(0, len(txs), cut):
        flow.step({"t": [delta_of(T, txs[at : at + cut])]})
    return encode(flow.take())


@pytest.mark.parametrize("opened", [by_name, framed])
@pytest.mark.parametrize("seed", range(2 * FUZZ))
def test_steps_of_any_size_give_the_same_emissions(seed: int, opened: Callable[[list[Row]], Dataflow]) -> None:
    rng = random.Random(seed)
    rows: dict[int, Row] = {id: (id, names(rng), 0) for id in range(200)}
    first = list(rows.values())
    txs = [each for each in history(rng, rows, 300) if each[1].changes]
    whole = emitted(opened(first), txs, len(txs))
    assert whole == emitted(opened(first), txs, 137) == emitted(opened(first), txs, 1)
    assert len(decode(whole).index) > 100
