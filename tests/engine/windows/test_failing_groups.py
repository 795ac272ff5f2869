"""A relation with a row the origin would raise for is in error until that row leaves, and right again from there on."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import encode
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import Planned, plan
from tests.engine.world import batch_of, delta_of

T = Table("t", (Column("id", Type.INTEGER), Column("n", Type.INTEGER)), ("id",))
LEAST = -(2**63)
QUERIES = (
    "SELECT a.id, abs(b.n) AS n FROM t a JOIN t b ON b.id = a.id AND abs(b.n) > 0",
    "SELECT a.id, b.n FROM t a JOIN t b ON b.id = a.id AND abs(b.n) > 0 ORDER BY a.id LIMIT 2",
    "SELECT sum(n) AS s FROM t WHERE abs(n) > 0",
)
STEPS: tuple[tuple[Row | None, Row | None], ...] = (
    (None, (1, 5)),
    (None, (2, LEAST)),
    (None, (3, 7)),
    ((2, LEAST), (2, 9)),
    ((3, 7), None),
    ((1, 5), (1, LEAST)),
    (None, (4, LEAST)),
    ((1, LEAST), None),
    ((4, LEAST), None),
)


def started(planned: Planned) -> Dataflow:
    flow = Dataflow()
    flow.define(T)
    flow.activate(planned.template, {"t": [batch_of(T, [])]})
    flow.subscribe(planned.instance, 1)
    flow.take()
    return flow


def transactions() -> list[tuple[int, Transaction]]:
    return [(tx, Transaction(0, (Change("t", old, new),))) for tx, (old, new) in enumerate(STEPS, 2)]


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("saved", [False, True])
def test_it_is_in_error_exactly_while_the_row_is_there(sql: str, saved: bool, tmp_path: Path) -> None:
    planned = plan(sql, [T])
    flow, kinds = started(planned), []
    for tx, one in transactions():
        flow.step({"t": [delta_of(T, [(tx, one)])]})
        kinds += [(entry.tx, entry.kind) for entry in flow.take().index]
        if saved:
            flow = Dataflow.load(tmp_path, flow.save(tmp_path).document)
    told = dict(kinds)
    assert [tx for tx, kind in kinds if kind == "error"] == [3, 7]
    assert [tx for tx, kind in kinds if kind == "result"] == [5, 10]
    assert not {4, 8, 9} & set(told), "told something while it was in error"


@pytest.mark.parametrize("sql", QUERIES)
def test_the_cut_does_not_matter(sql: str) -> None:
    planned = plan(sql, [T])
    singly, at_once = started(planned), started(planned)
    for tx, one in transactions():
        singly.step({"t": [delta_of(T, [(tx, one)])]})
    at_once.step({"t": [delta_of(T, transactions())]})
    first, second = singly.take(), at_once.take()
    assert list(first.index) == list(second.index)
    assert encode(first) == encode(second)


def test_who_comes_while_it_is_in_error_is_told_so_and_gets_the_result_later() -> None:
    planned = plan(QUERIES[0], [T])
    flow = Dataflow()
    flow.define(T)
    flow.activate(planned.template, {"t": [batch_of(T, [(1, LEAST)])]})
    flow.subscribe(planned.instance, 1)
    assert [entry.kind for entry in flow.take().index] == ["error"]
    flow.step({"t": [delta_of(T, [(2, Transaction(0, (Change("t", (1, LEAST), (1, 3)),)))])]})
    [entry] = flow.take().index
    assert (entry.kind, entry.tx, entry.prev) == ("result", 2, 1)
