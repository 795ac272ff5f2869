"""Rows of a relation whose evaluation fails: the windows that ask for one are in error until it has left.

Meanwhile the rows are followed without emissions. When the last failing row of a group has left, its windows get a
whole result. A group that does not ask for the row goes on, as in the source.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.engine.dataflow_state import ActiveTemplate, DataflowState
from headwater.engine.emissions.index import Entry
from headwater.engine.operators.failures import Failure, FailureChange
from headwater.engine.subscriptions import emit_result
from headwater.engine.windows.shown_hashes import NO_NAMES
from headwater.engine.windows.window import BY_RELATION, WindowGroup

Concerned = list[tuple[ActiveTemplate, WindowGroup]]


def concerned(over: Sequence[ActiveTemplate], failures: Sequence[Failure]) -> Concerned:
    """The groups that ask for rows that fail, each once."""
    found = (
        (active, group)
        for active in over
        for one in failures
        for group in active.affected.groups(one, active.instances)
    )
    return list({(active.template.id, group.key): (active, group) for active, group in found}.values())


def fail(state: DataflowState, over: Sequence[ActiveTemplate], groups: Concerned, change: FailureChange) -> None:
    """Notes the failures that came with a transaction; the windows that ask for them are in error."""
    for active in over:
        for failure in change.came:
            active.affected.add(failure)
    for active, group in groups:
        failing = bool(group.failed)
        _note(active, group)
        for window in group.windows if not failing else ():
            window.prev, window.seq = window.seq, change.tx
            entry = Entry(window.instance.id, change.tx, window.prev, "error", active.template.id, group.error)
            state.outbox.index.append(entry)


def recover(state: DataflowState, over: Sequence[ActiveTemplate], groups: Concerned, change: FailureChange) -> None:
    """Notes the failures that left with a transaction; windows that ask for no other get a whole result."""
    for active in over:
        for failure in change.gone:
            active.affected.remove(failure)
    for active, group in groups:
        _note(active, group)
        for window in list(group.windows) if not group.failed else ():
            window.prev, window.seq, window.names = window.seq, change.tx, NO_NAMES
            emit_result(state, active, window)


def _note(active: ActiveTemplate, group: WindowGroup) -> None:
    reason = active.affected.reason(group)
    if reason is None:
        group.failed.pop(BY_RELATION, None)
    else:
        group.failed[BY_RELATION] = reason
    group.note()
