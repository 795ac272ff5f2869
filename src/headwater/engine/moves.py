"""Windows that move to another strategy, as the log says: the source answers them from there on, or they are followed
change by change again.

A window keeps its instance and its rows; what it shows is emitted whole, because its rows get other hashes. It never
decides to move.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.engine import activation, demand, subscriptions
from headwater.engine.dataflow_state import ActiveTemplate, DataflowState
from headwater.engine.windows.window import Window
from headwater.model.value import Row, from_array
from headwater.plan.template import Instance


def ask(state: DataflowState, template: str, tx: int, position: int) -> None:
    """The source answers all windows of a template from here on; what was held for it alone goes. `position` is the
    source's, which its rows are right for."""
    active = state.active.get(template)
    if active is None:
        return
    for window in list(active.instances.windows()):
        _ask(state, active, window, tx, position)
    activation.release(state, template)
    demand.depart(state, tx)


def ask_one(state: DataflowState, instance: int, tx: int, position: int) -> None:
    """As `ask`, of one window; none where there is none. The template stays."""
    window = state.windows.get(instance)
    if window is not None:
        _ask(state, state.active_of(window), window, tx, position)
        demand.depart(state, tx)


def follow(state: DataflowState, template: str, tx: int) -> list[Instance]:
    """The windows of a template that the source answered until now are followed change by change: those of this
    partition, which are returned. The template is active."""
    moved = state.answers.origins(template)
    for instance in moved:
        state.answers.unsubscribe(instance.id)
        demand.arrive(state, instance, tx)
        subscriptions.subscribe(state, instance, tx)
    demand.depart(state, tx)
    return moved


def _ask(state: DataflowState, active: ActiveTemplate, window: Window, tx: int, position: int) -> None:
    rows = None if window.group.failed else _rows(state, active, window)
    seqs = tx, window.seq
    subscriptions.unsubscribe(state, window.instance.id)
    state.answers.take_over(window.instance, active.template.ordered, rows, seqs, position)


def _rows(state: DataflowState, active: ActiveTemplate, window: Window) -> list[Row]:
    """As they are shown, in their order."""
    _, places, pool = subscriptions.shown(state, active, window)
    columns = [
        from_array(column.take(pa.array(places)), type)
        for column, type in zip(pool.columns, active.program.types, strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * len(places)
