"""A table is held once, whatever reads it: templates over one table, joins and demands by whatever keys are indexes.

Rows and bytes are counted. Then queries come and go at random between random steps, saves and restores: what each is
told is the same however the transactions are cut into steps, and SQLite says what it should see.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.rows.delta import Delta
from headwater.model.change import Change, Transaction
from headwater.model.limits import Limits
from headwater.plan.planner import Planned, plan
from tests.engine.test_demand import (
    QUERIES,
    TABLES,
    A,
    Rows,
    answer,
    defined,
    first_rows,
    oracle,
    plans_of,
    transaction,
    whole,
)
from tests.engine.world import FUZZ, Subscriber, batch_of, deliver, delta_of, exact

pytestmark = pytest.mark.slow

ONE_TABLE = (
    "SELECT id, g, v FROM a WHERE g = {}",
    "SELECT id, s FROM a WHERE v = {} ORDER BY s, id LIMIT 3",
    "SELECT id, aid FROM b WHERE g = {}",
    "SELECT id, w FROM c WHERE w >= {}",
)
JOINS = (
    "SELECT a.id, b.id AS bid FROM a JOIN b ON b.s = a.s",
    "SELECT a.id, c.w FROM a JOIN c ON c.w = a.v",
    "SELECT a.id, b.g FROM a LEFT JOIN b ON b.aid = a.id",
    "SELECT x.id, y.id AS other FROM a AS x JOIN a AS y ON y.g = x.v",
    "SELECT id, s FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.id > a.v)",
    "SELECT b.id FROM b WHERE b.g NOT IN (SELECT c.w FROM c)",
    "SELECT a.id, a.v IN (SELECT b.g FROM b) AS m FROM a",
    "SELECT a.id, b.id AS bid FROM a JOIN b ON b.g IS a.g",
    "SELECT b.s FROM a JOIN b ON b.aid = a.id",
)
FIVE_JOINS = (
    "SELECT a.id, a.g, a.s, a.v, c.w FROM a JOIN c ON c.id = a.id",
    "SELECT a.id, a.g, a.s, a.v, c.w FROM a JOIN c ON c.id = a.g",
    "SELECT a.id, a.g, a.s, a.v, c.w FROM a JOIN c ON c.id = a.v",
    "SELECT a.id, a.g, a.s, a.v, c.w FROM a JOIN c ON c.id = a.v AND c.g = a.g",
    "SELECT a.id, a.g, a.s, a.v FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.w = a.id AND c.g = a.v)",
)
MANY = 5000


def many_rows() -> Rows:
    return {
        "a": {n: (n, n % 50, str(n), n % 70) for n in range(MANY)},
        "b": {n: (n, n, n % 50, str(n)) for n in range(MANY)},
        "c": {n: (n, n, n) for n in range(20)},
    }


def begin(flow: Dataflow, sql: str, number: int, rows: Rows) -> Planned:
    planned = plan(sql, list(TABLES))
    planned = replace(planned, instance=replace(planned.instance, id=number))
    flow.activate(planned.template, whole(rows) if flow.needs_rows(planned.template) else None)
    flow.subscribe(planned.instance, number)
    return planned


def bags(flow: Dataflow) -> int:
    """Rows that operators hold themselves."""
    return sum(len(bag) for derived in flow._state.derived.values() for bag in derived.bags())


def index_bytes(flow: Dataflow, table: str) -> int:
    store = flow._state.stores[table]
    store.settle()
    return sum(run.bytes for index in store.indexes.values() for run in index.places.runs)


def heap_bytes(flow: Dataflow, table: str) -> int:
    store = flow._state.stores[table]
    store.settle()
    return sum(chunk.bytes for chunk in store.heap.chunks)


def test_five_joins_of_a_table_by_different_keys_hold_it_once() -> None:
    flow, alone, rows = defined(Limits()), defined(Limits()), many_rows()
    begin(alone, FIVE_JOINS[0], 1, rows)
    for number, sql in enumerate(FIVE_JOINS, 1):
        begin(flow, sql, number, rows)
    assert bags(flow) == 0, "operators hold no row"
    assert heap_bytes(flow, "a") == heap_bytes(alone, "a"), "beyond one copy there are indexes"
    assert index_bytes(flow, "a") == 5 * 12 * MANY
    flow.step({"a": [delta_of(A, [(9, Transaction(0, (Change("a", rows["a"][3], (3, 1, "x", 2)),)))])]})
    assert len(flow._state.stores["a"]) == MANY and bags(flow) == 0


def test_a_table_under_a_join_and_by_itself_is_held_once_and_read_once() -> None:
    flow, rows = defined(Limits()), many_rows()
    begin(flow, "SELECT id, g, s, v FROM a WHERE g = 3", 1, rows)
    before = heap_bytes(flow, "a")
    begin(flow, FIVE_JOINS[0], 2, rows)
    assert heap_bytes(flow, "a") == before and bags(flow) == 0
    assert not flow.needs_rows(plan(FIVE_JOINS[1], list(TABLES)).template)
    begin(flow, FIVE_JOINS[1], 3, rows)
    assert heap_bytes(flow, "a") == before and bags(flow) == 0


def test_a_template_over_a_table_that_a_join_holds_whole_needs_no_rows() -> None:
    flow, rows = defined(Limits()), many_rows()
    begin(flow, FIVE_JOINS[0], 1, rows)
    assert not flow.needs_rows(plan("SELECT id, g FROM a WHERE g = 3", list(TABLES)).template)
    begin(flow, "SELECT id, g FROM a WHERE g = 3", 2, rows)
    assert len(flow.take().index) == 2
    assert len(flow._state.stores["a"]) == MANY and bags(flow) == 0


def test_columns_that_no_query_reads_are_not_held_and_one_more_is_read_again() -> None:
    flow, rows = defined(Limits()), many_rows()
    begin(flow, "SELECT a.id, c.w FROM a JOIN c ON c.id = a.g", 1, rows)
    assert columns_held(flow) == ["id", "g"]
    further = plan("SELECT a.id, a.s, c.w FROM a JOIN c ON c.id = a.g", list(TABLES))
    assert flow.needs_rows(further.template)
    begin(flow, further.template.sql, 2, rows)
    assert columns_held(flow) == ["id", "g", "s"]
    flow.release(further.template.id, 5)
    assert columns_held(flow) == ["id", "g"]


def columns_held(flow: Dataflow) -> list[str]:
    return list(flow._state.stores["a"].table.names)


def test_with_the_last_template_goes_the_table() -> None:
    flow, rows = defined(Limits()), many_rows()
    plans = [begin(flow, sql, number, rows) for number, sql in enumerate((*FIVE_JOINS[:2], "SELECT id FROM a"), 1)]
    for tx, planned in enumerate(plans, 10):
        assert "a" in flow._state.stores
        flow.release(planned.template.id, tx)
    assert not flow._state.stores


def test_what_a_hundred_ask_a_join_for_is_all_that_is_held_beyond_the_tables() -> None:
    flow, rows = defined(Limits()), many_rows()
    planned = begin(flow, "SELECT a.id, b.id AS bid FROM a JOIN b ON b.aid = a.id WHERE a.g = 0", 1, rows)
    for number in range(1, 25):
        flow.subscribe(replace(planned.instance, id=number + 1, values=(number,)), number + 1)
    asked = sum(batch.num_rows for batch in flow.take().edits.values())
    assert asked == MANY // 2
    assert bags(flow) == 0, "the rows of `a` that are asked for are places in its store"
    [index] = [index for key, index in flow._state.stores["a"].indexes.items() if key.asked]
    assert len(index.places.living(flow._state.stores["a"].heap.live)) == asked
    assert sorted(flow._state.stores) == sorted(["a", "b", planned.template.table])
    assert len(flow._state.stores["a"]) == len(flow._state.stores["b"]) == MANY


def pool(rng: random.Random) -> Iterator[Planned]:
    """Queries that read the same tables in many ways."""
    numbers = count(1)
    for sql in rng.sample(ONE_TABLE, 2):
        for value in rng.sample(range(4), 2):
            yield _numbered(sql.format(value), next(numbers))
    for sql in rng.sample(JOINS, 3):
        yield _numbered(sql, next(numbers))
    for sql in rng.sample(list(QUERIES), 2):
        for planned in rng.sample(list(plans_of(sql)), 2):
            yield replace(planned, instance=replace(planned.instance, id=next(numbers)))


def _numbered(sql: str, number: int) -> Planned:
    planned = plan(sql, list(TABLES))
    return replace(planned, instance=replace(planned.instance, id=number))


def deltas(changes: list[tuple[int, Transaction]]) -> dict[str, list[Delta]]:
    found: dict[str, list[Delta]] = {}
    for table in TABLES:
        mine = [(tx, Transaction(0, tuple(c for c in one.changes if c.table == table.name))) for tx, one in changes]
        if mine := [(tx, one) for tx, one in mine if one.changes]:
            found[table.name] = [delta_of(table, mine)]
    return found


class Two:
    """The same queries and changes, taken a transaction at a time and several at once: what is told is the same."""

    def __init__(self, limits: Limits, directory: Path) -> None:
        self.limits, self.directory = limits, directory
        self.flows = [defined(limits), defined(limits)]

    def begin(self, planned: Planned, rows: Rows, tx: int) -> None:
        for flow in self.flows:
            if not flow.knows(planned.template.id):
                flow.activate(planned.template, whole(rows) if flow.needs_rows(planned.template) else None)
            flow.subscribe(planned.instance, tx)

    def step(self, changes: list[tuple[int, Transaction]], living: list[Subscriber]) -> None:
        one, other = self.flows
        other.step(deltas(changes))
        for each in changes:
            one.step(deltas([each]))
        told, at_once = one.take(), other.take()
        assert sorted(told.index) == sorted(at_once.index)
        assert {name: sorted(map(repr, batch.to_pylist())) for name, batch in told.edits.items()} == {
            name: sorted(map(repr, batch.to_pylist())) for name, batch in at_once.edits.items()
        }
        deliver(told, living)

    def restart(self, living: list[Subscriber]) -> None:
        told, _ = (flow.take() for flow in self.flows)
        deliver(told, living)
        saved = [flow.save(self.directory).document for flow in self.flows]
        self.flows = [Dataflow.load(self.directory, each, limits=self.limits) for each in saved]


@pytest.mark.parametrize("seed", range(24 * FUZZ))
def test_tables_that_are_shared_give_every_query_its_rows(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"one copy {seed}")
    if seed % 2:  # joins take a step in halves: the second sees what the first absorbed
        monkeypatch.setattr("headwater.engine.operators.join.hot_keys.PAIRS_MAX", 1)
    rows, two = first_rows(rng), Two(Limits(run_rows_min=rng.choice((1, 4, 1024))), tmp_path)
    waiting, living, tx = list(pool(rng)), list[Subscriber](), 0
    with closing(oracle()) as memory:
        for _ in range(25):
            tx += 10
            if waiting and rng.random() < 0.7:
                living.append(Subscriber(waiting.pop(rng.randrange(len(waiting)))))
                two.begin(living[-1].planned, rows, tx)
            if living and rng.random() < 0.3:
                gone = living.pop(rng.randrange(len(living))).planned
                waiting.append(gone)
                _leave(two, gone, [one.planned for one in living], tx + 1)
            if rng.random() < 0.15:
                two.restart(living)
            two.step([(tx + 2 + n, transaction(rows, rng)) for n in range(rng.choice((1, 1, 4)))], living)
            for one in living:
                ordered = one.planned.template.ordered
                assert exact(one.rows, ordered) == exact(answer(memory, rows, one.planned), ordered), one.planned
            _check_stores(two, rows)


def _leave(two: Two, gone: Planned, others: list[Planned], tx: int) -> None:
    """The last of a template takes it along."""
    for flow in two.flows:
        flow.unsubscribe(gone.instance.id, tx)
        if all(other.template.id != gone.template.id for other in others):
            flow.release(gone.template.id, tx)


def _check_stores(two: Two, rows: Rows) -> None:
    for flow in two.flows:
        for table in TABLES:
            store = flow._state.stores.get(table.name)
            assert store is None or len(store) == len(rows[table.name])


def test_what_was_built_elsewhere_reads_the_tables_that_are_here(tmp_path: Path) -> None:
    """Joins made in a dataflow of their own, saved, loaded and taken along, hold nothing twice when they are adopted:
    where the table is here, where it is here without some columns, and where it is not."""
    rng, limits = random.Random(5), Limits(run_rows_min=4)
    rows, flow, alone = first_rows(rng), defined(limits), defined(limits)
    begin(flow, "SELECT a.id, c.w FROM a JOIN c ON c.id = a.g", 1, rows)
    flow.take()
    for number, sql in enumerate((JOINS[0], JOINS[1], "SELECT id, s FROM a WHERE v = 2", JOINS[3]), 2):
        planned, other = _numbered(sql, number), defined(limits)
        other.activate(planned.template, whole(rows))
        loaded = Dataflow.load(tmp_path, other.save(tmp_path).document, limits=limits, counters=flow.counters)
        step = deltas([(10 * number, transaction(rows, rng))])
        for each in (flow, alone, loaded):
            each.step(step)
        if flow.needs_rows(planned.template):
            flow.adopt(planned.template, loaded)
        else:
            flow.activate(planned.template, None)
        begin(alone, sql, number, rows)
        flow.subscribe(planned.instance, number)
        assert bags(flow) == 0
        for tx in range(10 * number + 1, 10 * number + 6):
            step = deltas([(tx, transaction(rows, rng))])
            for each in (flow, alone):
                each.step(step)
            mine = {id: repr(batch.to_pylist()) for id, batch in flow.take().edits.items() if id in _known(alone)}
            assert mine == {id: repr(batch.to_pylist()) for id, batch in alone.take().edits.items()}


def _known(flow: Dataflow) -> set[str]:
    return set(flow._state.active)


def test_a_table_without_a_key_is_held_by_its_joins_as_before() -> None:
    keyless = [replace(table, key=()) for table in TABLES]
    flow = Dataflow()
    for table in keyless:
        flow.define(table)
    planned = plan("SELECT a.id, c.w FROM a JOIN c ON c.id = a.g", keyless)
    flow.activate(planned.template, {table.name: [batch_of(table, [])] for table in keyless})
    assert list(flow._state.stores) == [planned.template.table]
