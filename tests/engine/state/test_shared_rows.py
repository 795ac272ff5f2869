"""The rows of a relation are kept once: a template that comes later is hydrated from what is here already."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import plan
from tests.engine.world import batch_of, delta_of

T = Table("t", (Column("id", Type.INTEGER, "INTEGER"), Column("uid", Type.INTEGER, "INTEGER")), ("id",))
U = Table("u", (Column("id", Type.INTEGER, "INTEGER"), Column("w", Type.TEXT, "TEXT")), ("id",))
JOIN = "SELECT t.id, u.w FROM t LEFT JOIN u ON u.id = t.uid"
SQLS = {
    JOIN: [(1, "b"), (2, "b"), (3, None), (5, None)],
    f"{JOIN} WHERE u.w = 'b'": [(1, "b"), (2, "b")],
    f"{JOIN} WHERE u.w IN ('b', 'c')": [(1, "b"), (2, "b")],
}
BEFORE = {
    "t": batch_of(T, [(1, 1), (2, 2), (3, None), (4, 2), (5, 9)]),
    "u": batch_of(U, [(1, "a"), (2, "b"), (3, None)]),
}
MOVED = Transaction(7, (Change("t", (1, 1), (1, 2)), Change("t", (4, 2), None)))


def first_result(flow: Dataflow, sql: str, number: int) -> list[Row]:
    """Activates a template, with rows only where they are asked for, and subscribes."""
    planned = plan(sql, [T, U])
    needed = flow.needs_rows(planned.template)
    flow.activate(planned.template, {name: [rows] for name, rows in BEFORE.items()} if needed else None)
    flow.subscribe(replace(planned.instance, id=number), 1 + number)
    edits = flow.take().edits[planned.template.id]
    shown = [column for column, name in zip(edits.columns, edits.schema.names, strict=True) if name.startswith("new.")]
    return sorted(zip(*(column.to_pylist() for column in shown), strict=True), key=lambda row: row[0])


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("order", list(permutations(SQLS)))
def test_later_templates_see_every_row_of_the_relation(order: tuple[str, ...], saved: bool, tmp_path: Path) -> None:
    flow = Dataflow()
    flow.define(T)
    flow.define(U)
    first_result(flow, order[0], 1)
    flow.step({"t": [delta_of(T, [(10, MOVED)])]})
    flow.take()
    for number, sql in enumerate(order, 2):
        if saved:
            flow = Dataflow.load(tmp_path, flow.save(tmp_path).document)
        assert first_result(flow, sql, number) == SQLS[sql]
