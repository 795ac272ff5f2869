"""Demand as the dataflow moves it: a relation's rows come before the first subscriber that asks for them, and go after
the last.

No other window changes by it: the rows that it asks for were all there. A window that ended within a step has its
demand taken back at the end of the step.
"""

from __future__ import annotations

from headwater.engine.dataflow_state import DataflowState
from headwater.engine.operators.demand import DemandChange
from headwater.engine.step import Blame, step_relation
from headwater.plan.template import Instance


def arrive(state: DataflowState, instance: Instance, tx: int) -> None:
    """Before the window of an instance is opened."""
    active = state.active[instance.template]
    if instance.id not in state.windows and state.belongs(active.template, instance):
        _change(state, active.template.table, DemandChange(instance.values, tx, 1))


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


def _change(state: DataflowState, relation: str, change: DemandChange) -> None:
    derived = state.derived.get(relation)
    if derived is not None and derived.on_demand:
        with Blame(relation):
            step_relation(state, relation, derived, derived.demand(change))
