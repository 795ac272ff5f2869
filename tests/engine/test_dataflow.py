"""The whole dataflow against its oracle: maintained == the effective query, at every transaction (laws 1 to 5)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import decode, encode
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.model.change import Transaction
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.plan.planner import Planned
from tests.engine.world import FUZZ, KEYS, Oracle, Origin, Subscriber, deliver, delta_of, exact, random_plan, table_of

SEEDS = [(key, seed) for key in KEYS for seed in range(5 * FUZZ)]
SMALL = Limits(run_rows_min=8)


@contextmanager
def oracle_of(table: Table) -> Iterator[Oracle]:
    oracle = Oracle(table)
    try:
        yield oracle
    finally:
        oracle.close()


def start(flow: Dataflow, origin: Origin, planned: Planned, tx: int) -> bool:
    if not flow.knows(planned.template.id):
        rows = {planned.template.table: [origin.batch()]} if flow.needs_rows(planned.template) else None
        flow.activate(planned.template, rows)
    return flow.subscribe(planned.instance, tx)


def check(oracle: Oracle, origin: Origin, subscribers: list[Subscriber]) -> None:
    oracle.fill(list(origin.rows.values()))
    for subscriber in subscribers:
        ordered = subscriber.planned.template.ordered
        wanted = exact(oracle.answer(subscriber.planned), ordered)
        assert exact(subscriber.rows, ordered) == wanted, subscriber.planned.template.sql


@pytest.mark.parametrize(("key", "seed"), SEEDS)
def test_a_maintained_result_equals_the_effective_query_at_every_transaction(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(f"{key}{seed}")
    table = table_of(key)
    origin, flow, subscribers = Origin(table, rng), Dataflow(limits=SMALL), list[Subscriber]()
    flow.define(table)
    with oracle_of(table) as oracle:
        for tx in range(1, 60):
            if rng.random() < 0.2:
                subscriber = Subscriber(random_plan(table, rng))
                if all(one.planned.instance != subscriber.planned.instance for one in subscribers):
                    subscribers.append(subscriber)
                    assert start(flow, origin, subscriber.planned, 2 * tx)
            flow.step({table.name: [delta_of(table, [(2 * tx + 1, origin.transaction())])]})
            emitted = flow.take()
            deliver(decode(encode(emitted)), subscribers)
            check(oracle, origin, subscribers)
    assert subscribers


def history(table: Table, rng: random.Random, count: int) -> tuple[Origin, list[Transaction]]:
    """An origin as it was at first, and what then happened to it."""
    origin = Origin(table, rng)
    for _ in range(4):
        origin.transaction()
    first = Origin(table, rng, dict(origin.rows))
    return first, [origin.transaction() for _ in range(count)]


def run_in_steps(table: Table, first: Origin, txs: list[Transaction], plans: list[Planned], cut: int) -> EmissionBatch:
    flow = Dataflow(limits=SMALL)
    flow.define(table)
    for planned in plans:
        start(flow, first, planned, 1)
    numbered = list(enumerate(txs, 10))
    for at in range(0, len(numbered), cut):
        part = numbered[at : at + cut]
        flow.step({table.name: [delta_of(table, [one]) for one in part]})
    return flow.take()


@pytest.mark.parametrize(("key", "seed"), SEEDS[::2])
def test_fifty_transactions_in_one_step_give_the_emissions_of_fifty_steps(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(f"cut {key}{seed}")
    table = table_of(key)
    first, txs = history(table, rng, 50)
    plans = [random_plan(table, rng) for _ in range(6)]
    whole = [encode(run_in_steps(table, first, txs, plans, cut)) for cut in (50, 7, 1)]
    assert whole[0] == whole[1] == whole[2]
    assert len(decode(whole[0]).index) > 6


@pytest.mark.parametrize(("key", "seed"), SEEDS[::2])
def test_a_state_saved_and_loaded_goes_on_as_if_nothing_happened(
    key: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    rng = random.Random(f"save {key}{seed}")
    table = table_of(key)
    first, txs = history(table, rng, 30)
    plans = [random_plan(table, rng) for _ in range(6)]
    flow = Dataflow(limits=SMALL)
    flow.define(table)
    for planned in plans:
        start(flow, first, planned, 1)
    for tx, one in enumerate(txs, 10):
        if rng.random() < 0.3:
            flow.take()
            saved = flow.save(tmp_path)
            assert {path.name for path in tmp_path.iterdir()} >= set(saved.files)
            loaded = Dataflow.load(tmp_path, saved.document, limits=SMALL)
            assert not loaded.take().index
            step_both(flow, loaded, table, tx, one)
            flow = loaded
        else:
            flow.step({table.name: [delta_of(table, [(tx, one)])]})


def step_both(flow: Dataflow, loaded: Dataflow, table: Table, tx: int, one: Transaction) -> None:
    for each in (flow, loaded):
        each.step({table.name: [delta_of(table, [(tx, one)])]})
    assert encode(flow.take()) == encode(loaded.take())
