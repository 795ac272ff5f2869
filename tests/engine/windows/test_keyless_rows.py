"""Tables without a key: a row is what it shows. Nothing is told of changes beneath that, and no name is used twice."""

from __future__ import annotations

import random

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.windows.shown_hashes import ShownHashes
from headwater.engine.windows.visibility import before
from headwater.model.change import Change, Transaction
from headwater.model.emission import Diff
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import plan
from tests.engine.world import Subscriber, batch_of, deliver, delta_of

T = Table("t", (Column("seen", Type.INTEGER), Column("hidden", Type.INTEGER)), ())
Pair = tuple[Row | None, Row | None]


def emissions(sql: str, rows: list[Row], *transactions: list[Pair]) -> list[list[object]]:
    flow = Dataflow()
    flow.define(T)
    planned = plan(sql, [T])
    flow.activate(planned.template, {"t": [batch_of(T, rows)]})
    flow.subscribe(planned.instance, 1)
    subscriber = Subscriber(planned)
    deliver(flow.take(), [subscriber])
    out: list[list[object]] = []
    for tx, pairs in enumerate(transactions, 2):
        one = Transaction(0, tuple(Change("t", old, new) for old, new in pairs))
        flow.step({"t": [delta_of(T, [(tx, one)])]})
        emitted = flow.take()
        deliver(emitted, [subscriber])
        found = read_emissions(emitted.index, emitted.edits.get(planned.template.id), subscriber.names, lambda at: at)
        out.append([(c.type, c.old, c.new) for each in found if isinstance(each, Diff) for c in each.changes])
    return out


@pytest.mark.parametrize("tail", ["", " ORDER BY seen", " ORDER BY hidden LIMIT 2", " LIMIT 1 OFFSET 1"])
def test_a_change_beneath_what_is_shown_is_not_told(tail: str) -> None:
    change: list[Pair] = [((1, 10), (1, 11))]
    assert emissions(f"SELECT seen FROM t{tail}", [(1, 10), (1, 9)], change, [((1, 11), (1, 12))]) == [[], []]


def test_a_row_that_goes_while_one_like_it_comes_stays() -> None:
    exchange: list[Pair] = [((1, 10), None), (None, (1, 11))]
    crossed: list[Pair] = [((1, 11), (2, 5)), ((2, 7), (1, 8))]
    assert emissions("SELECT seen FROM t", [(1, 10), (2, 7)], exchange, crossed) == [[], []]


def test_a_row_that_enters_the_frame_for_one_that_looks_like_it_is_not_told() -> None:
    rows: list[Row] = [(1, 1), (1, 2), (1, 3)]
    assert emissions("SELECT seen FROM t ORDER BY seen LIMIT 2", rows, [((1, 1), None)]) == [[]]


@pytest.mark.parametrize("shown", ["seen", "seen, hidden"])
def test_equal_rows_that_cross_the_edge_of_a_frame_are_not_told(shown: str) -> None:
    rows: list[Row] = [(1, 1)] * 5
    gone: list[Pair] = [((1, 1), None)]
    assert emissions(f"SELECT {shown} FROM t ORDER BY seen LIMIT 2", rows, gone, gone, gone) == [[], [], []]


def test_what_changes_besides_is_told_alone() -> None:
    both: list[Pair] = [((1, 10), (1, 11)), ((2, 7), (3, 7))]
    assert emissions("SELECT seen FROM t", [(1, 10), (2, 7)], both) == [[("update", {"seen": 2}, {"seen": 3})]]


def test_a_name_is_kept_and_never_given_twice() -> None:
    names, rng, now = ShownHashes(), random.Random(7), {id: id for id in range(20)}
    for _ in range(500):
        old = rng.sample(sorted(now), 6)
        free = [id for id in range(40) if id not in now or id in old]
        stayed = list(zip(old[:3], rng.sample(free, 3), strict=True))
        came = rng.sample([id for id in free if id not in {new for _, new in stayed}], 3)
        before = names.turn(stayed, old[3:], came)
        assert before == {id: now[id] for id in old}
        shown = {**{id: name for id, name in now.items() if id not in old}, **{new: now[one] for one, new in stayed}}
        assert {id: names.of(id) for id in shown} == shown
        now = {**shown, **{id: names.of(id) for id in came}}
        assert len(set(now.values())) == len(now)


def test_a_list_is_as_it_was_before_its_edits() -> None:
    # p a b q c  became  a b X c Y
    assert "".join(row for _, row in before({0: "p", 3: "q"}, {2, 4}, "abXcY".__getitem__)) == "pabqc"
