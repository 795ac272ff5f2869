"""Demand as the dataflow moves it: a relation's rows come before the first subscriber that asks for them, and go after
the last.

No other window changes by it: the rows that it asks for were all there. Rows that come with a window are shown as they
came, and not read again. A window that ended within a step has its demand taken back at the end of the step.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.engine.dataflow_state import ActiveTemplate, DataflowState
from headwater.engine.operators.demand import DemandChange
from headwater.engine.rows.delta import Delta
from headwater.engine.state.sort_hashes import rising
from headwater.engine.state.table.arrangement import Arrangement, Gathered
from headwater.engine.step import Blame, step_relation
from headwater.engine.windows.instance_index import encode_instance
from headwater.engine.windows.row_identity import key_hashes
from headwater.plan.template import Instance


def arrive(state: DataflowState, instance: Instance, tx: int) -> Gathered | None:
    """Before the window of an instance is opened. The rows of its bucket, where all of them came with it."""
    active = state.active[instance.template]
    if instance.id in state.windows or not state.belongs(active.template, instance):
        return None
    key = _empty_bucket(state, active, instance)
    delta = _change(state, active.template.table, DemandChange(instance.values, tx, 1))
    return None if key is None or delta is None else _of_bucket(state.arrangement(active.template), key, delta)


def _empty_bucket(state: DataflowState, active: ActiveTemplate, instance: Instance) -> bytes | None:
    """The key under which an instance asks, where no row has it yet."""
    table, arrangement = state.schemas[active.template.table].table, state.arrangement(active.template)
    if not table.key or arrangement.index is None:
        return None
    key = encode_instance(active.template, instance, table)
    places = arrangement.index.places.places(arrangement.hash(key))
    return None if arrangement.store.heap.live[places].any() else key


def _of_bucket(arrangement: Arrangement, key: bytes, delta: Delta) -> Gathered | None:
    """Of rows that came, those under a key under which there was nothing."""
    batch = delta.batch
    if not (np.asarray(batch.column(batch.num_columns - 1)) > 0).all():
        return None
    rows = batch.select(range(batch.num_columns - 2))
    mine = np.array([each == key for each in arrangement.encode(rows) or ()], np.bool_)
    if (keyed := arrangement.keyed(rows)) is not None:
        mine &= keyed
    rows = rows if mine.all() else rows.filter(pa.array(mine))
    id = key_hashes(arrangement.table, rows)
    order = rising(id)
    return Gathered(id[order], rows.take(pa.array(order)))


def recall(state: DataflowState, instance: Instance) -> None:
    """An instance whose rows were restored."""
    derived = state.derived.get(state.active[instance.template].template.table)
    if derived is not None:
        derived.recall(DemandChange(instance.values, 0, 1))


def depart(state: DataflowState, tx: int) -> None:
    """After windows have ended."""
    departed, state.departed = state.departed, []
    for relation, values in departed:
        _change(state, relation, DemandChange(values, tx, -1))


def _change(state: DataflowState, relation: str, change: DemandChange) -> Delta | None:
    """The rows that came or went."""
    derived = state.derived.get(relation)
    if derived is None or not derived.on_demand:
        return None
    with Blame(relation):
        delta = derived.demand(change)
        step_relation(state, relation, derived, delta)
        return delta
