"""EXPLAIN ANALYZE: each operator of a relation run once over all rows, with its output, its state and its work.

It runs apart from a cell's dataflow and shares nothing with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.operators.compile import DemandNode, Node, StepInput, Updates, compiled, passes
from headwater.engine.operators.demand import DemandChange
from headwater.engine.operators.failures import Failures
from headwater.engine.operators.group.group import FIRST_TX
from headwater.engine.rows.batch import Batch
from headwater.engine.rows.conform import conform
from headwater.engine.rows.work import Work
from headwater.engine.state.object_cache import ObjectCache
from headwater.engine.state.ordered_keys import OrderedKeys
from headwater.engine.state.persistence import State
from headwater.model.budget import Budget
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.sql.ir.relation import Relation, Top, inputs_of


@dataclass(frozen=True, slots=True)
class Actual:
    """`rows` came out, `kept` are remembered for later changes; `gathered` and `rewritten` as `Work` counts them;
    `pairs` of rows were looked at by a join."""

    rows: int
    kept: int = 0
    gathered: int = 0
    rewritten: int = 0
    pairs: int = 0


Rows = Mapping[str, Iterable[pa.RecordBatch]]


def measured(
    relation: Relation, tables: Mapping[str, Table], rows: Rows, budget: Budget, values: Row = ()
) -> list[Actual]:
    """Of every operator, in the order of its line in the tree: each before its inputs; for a subscriber with these
    values. `budget` is for all of them."""
    updates = {name: _all(tables[name], batches) for name, batches in rows.items()}
    given = StepInput(updates, (DemandChange(values, FIRST_TX, 1),), first=True)
    _, actuals = _measure(relation, tables, given, budget)
    return actuals


def _measure(
    relation: Relation, tables: Mapping[str, Table], given: StepInput, budget: Budget
) -> tuple[Batch, list[Actual]]:
    below = [_measure(each, tables, given, budget) for each in inputs_of(relation)]
    batch, actual = _own(relation, tables, given, [batch for batch, _ in below], Work(budget=budget))
    return batch, [actual, *(one for _, actuals in below for one in actuals)]


def _own(
    relation: Relation, tables: Mapping[str, Table], given: StepInput, inputs: list[Batch], work: Work
) -> tuple[Batch, Actual]:
    """One operator over inputs that were stepped before."""
    if isinstance(relation, Top) and passes(relation):
        return inputs[0], Actual(_count(inputs[0]))
    tree = compiled(relation, tables, work, Failures())
    if not isinstance(tree, Node | DemandNode):
        batch = tree.step(given)
        return batch, Actual(_count(batch))
    before = work.budget.pairs
    batch = tree.operator.step(inputs).consolidated()
    if isinstance(tree, DemandNode):
        batch = tree.operator.demanded(given.demand)
    kept = sum(_rows(state) for state in tree.operator.state())
    return batch, Actual(_count(batch), kept, work.gathered, work.rewritten, before - work.budget.pairs)


def _count(batch: Batch) -> int:
    return int(batch.diff.sum())


def _rows(state: State) -> int:
    """The rows whose sort keys are in `OrderedKeys` are counted elsewhere."""
    if isinstance(state, OrderedKeys):
        return 0
    return len(state) if isinstance(state, ObjectCache) else sum(len(run) for run in state.runs)


def _all(table: Table, batches: Iterable[pa.RecordBatch]) -> Updates:
    empty = pa.RecordBatch.from_pylist([], schema=table.arrow)
    rows = pa.concat_batches([empty, *(conform(batch, table) for batch in batches)])
    return Updates(rows, np.full(rows.num_rows, FIRST_TX, np.int64), np.ones(rows.num_rows, np.int64))
