"""Thousands of rows at once take the engine's other paths: hashes of whole columns, runs that lie as they came, numbers
held once. What comes out is what comes of the same rows in small steps, and of a state that was saved between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import encode
from headwater.engine.rows.delta import Delta
from headwater.plan.planner import plan
from tests.engine.test_work_relations import QUERIES, T, U, rows

COUNT, PARTS = 9000, 60


def opened(sql: str, given: dict[str, pa.RecordBatch]) -> Dataflow:
    flow = Dataflow()
    flow.define(T)
    flow.define(U)
    planned = plan(sql, [T, U])
    flow.activate(planned.template, {name: [batch] for name, batch in given.items()})
    flow.subscribe(planned.instance, 1)
    flow.take()
    return flow


def delta(batch: pa.RecordBatch, tx: int, diff: int) -> Delta:
    marks = [pa.array(np.full(batch.num_rows, tx)), pa.array(np.full(batch.num_rows, diff, np.int8))]
    schema = pa.schema([*batch.schema, pa.field("tx", pa.int64()), pa.field("diff", pa.int8())])
    return Delta(pa.RecordBatch.from_arrays([*batch.columns, *marks], schema=schema))


def shown(flow: Dataflow, sql: str) -> list[tuple[object, ...]]:
    planned = plan(sql, [T, U])
    flow.snapshot(planned.instance.id)
    edits = flow.take().edits[planned.template.id]
    wanted = [name for name in edits.schema.names if name.startswith("new") or name == "index"]
    return list(zip(*(edits.column(name).to_pylist() for name in wanted), strict=True))


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
def test_all_at_once_is_what_small_steps_come_to(sql: str) -> None:
    whole = rows(COUNT)
    flow = opened(sql, {name: batch.slice(0, 0) for name, batch in whole.items()})
    cuts = [(name, start) for name, batch in whole.items() for start in range(0, batch.num_rows, COUNT // PARTS)]
    for tx, (name, start) in enumerate(cuts, 10):
        flow.step({name: [delta(whole[name].slice(start, COUNT // PARTS), tx, 1)]})
    flow.take()
    assert shown(flow, sql) == shown(opened(sql, whole), sql)


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
def test_a_saved_state_of_many_rows_goes_on_as_if_it_had_not_been(sql: str, tmp_path: Path) -> None:
    flow = opened(sql, rows(COUNT))
    other = Dataflow.load(tmp_path, flow.save(tmp_path).document)
    for n, batch in enumerate((rows(COUNT)["t"].slice(7, 5000), rows(COUNT)["t"].slice(6000, 3))):
        for each in (flow, other):
            each.step({"t": [delta(batch, 10 + n, -1)]})
        assert encode(flow.take()) == encode(other.take())
    assert shown(flow, sql) == shown(other, sql)
