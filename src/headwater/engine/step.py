"""The step: changes of tables and relations in, emissions out, and the rows into the stores.

Each table's changes are absorbed once, after everything that reads it has seen them; each active template sees only
those that an instance of it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from headwater.engine.dataflow_state import ActiveTemplate, DataflowState
from headwater.engine.operators.derived import Derived
from headwater.engine.operators.failures import FailureChange
from headwater.engine.relation_failures import concerned, fail, recover
from headwater.engine.rows.arrays import Bools, Int64s
from headwater.engine.rows.delta import Delta, merge, since, transactions_in, until
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.table_store import Indexed, TableStore
from headwater.engine.subscriptions import unsubscribe
from headwater.engine.windows.changes import Changes, changes_of
from headwater.engine.windows.empty_groups import padded
from headwater.engine.windows.fan_out import spread
from headwater.engine.windows.instance_index import RowGroups
from headwater.engine.windows.ordered.replay import replay
from headwater.engine.windows.template_program import Projection
from headwater.engine.windows.unordered import linear
from headwater.model.errors import HeadwaterError, OverBudget, Poisoned

_GONE_CAME = np.array([False, True])


def step(state: DataflowState, deltas: Mapping[str, Sequence[Delta]]) -> None:
    """Everything that waits, of any number of transactions, `tx` ascending within a table."""
    for name, parts in deltas.items():
        with Blame(name):
            _step_table(state, name, parts)
    for name, derived in list(state.derived.items()):
        if not derived.base_tables.isdisjoint(deltas):
            with Blame(name), state.meter(name, transactions_in(deltas, derived.base_tables)):
                step_relation(state, name, derived, derived.step(deltas))


@dataclass(frozen=True, slots=True)
class Blame:
    """A bug of ours, or too much work, is raised with the name of what was being stepped; the innermost name counts."""

    name: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OverBudget) or (isinstance(error, Exception) and not isinstance(error, HeadwaterError)):
            raise Poisoned(self.name, error) from error


def step_relation(state: DataflowState, name: str, derived: Derived, delta: Delta | None) -> None:
    """What a relation's own step brought: changed rows, and rows that fail."""
    for change in derived.failures:
        delta = _step_failures(state, name, delta, change)
    if delta is not None:
        _step_table(state, name, [delta])


def _step_failures(state: DataflowState, name: str, delta: Delta | None, change: FailureChange) -> Delta | None:
    """Steps what was before a change of failures, and the transaction itself: after the failures that came with it, and
    before those that left. The rest is returned."""
    over = state.over(name)
    came, gone = concerned(over, change.came), concerned(over, change.gone)
    if came:
        delta = _step_until(state, name, delta, change.tx)
    fail(state, over, came, change)
    if gone:
        delta = _step_until(state, name, delta, change.tx + 1)
    recover(state, over, gone, change)
    return delta


def _step_until(state: DataflowState, name: str, delta: Delta | None, tx: int) -> Delta | None:
    """Steps what was before `tx`; the rest is returned."""
    if delta is None:
        return None
    _step_table(state, name, [until(delta, tx)])
    return since(delta, tx)


def _step_table(state: DataflowState, name: str, parts: Sequence[Delta]) -> None:
    arrangements = list(state.arranged(name))
    if arrangements and parts:
        changes = changes_of(state.schemas[name], merge(parts), state.multisets.get(name))
        indexed: dict[IndexKey, Indexed] = {}
        for arrangement in arrangements:
            entries = _step_arrangement(state, arrangement, changes)
            if arrangement.index is not None:
                indexed[arrangement.index.key] = entries
        _absorb(state.stores[name], changes, indexed)


def _step_arrangement(state: DataflowState, arrangement: Arrangement, changes: Changes) -> Indexed:
    """Steps its templates. The rows, as its index will find them."""
    encoded = arrangement.encode(changes.rows)
    hash = arrangement.hashes(encoded, changes.rows)
    mine = state.mine(arrangement, changes.rows, hash)
    for active in state.served.get((arrangement.table.name, arrangement.keys), ()):
        if active.instances.ranges is None:
            joined = active.instances.join(encoded, hash, mine)
        else:
            joined = active.instances.select(changes.rows, arrangement.table, encoded, mine)
        if joined is not None:
            with Blame(active.template.id):
                _step_template(state, active, arrangement, changes, joined)
    return Indexed(hash, mine)


def _step_template(
    state: DataflowState, active: ActiveTemplate, arrangement: Arrangement, changes: Changes, joined: RowGroups
) -> None:
    program, outbox = active.program, state.outbox
    if active.template.empty is not None:
        changes, source = padded(changes, active.template, arrangement.table)
        joined = RowGroups(joined.number[source], active.instances)
    seen = program.see(changes.rows, changes.id, joined.looked())
    if joined.rows is not None:
        changes, seen = spread(changes, seen, joined.rows, joined.number)
    before = outbox.added
    by_turns = program.ordered or program.veiled or _troubled(state, joined, seen, len(changes))
    if by_turns or not linear(program, changes, joined, seen, outbox):
        closed = replay(program, arrangement, changes, joined, seen, outbox, state.limits)
        for group in () if program.ordered else joined.asked():
            group.note()
        for window in closed:
            unsubscribe(state, window.instance.id)
    state.counters.emitted += outbox.added - before


def _troubled(state: DataflowState, joined: RowGroups, seen: Projection, count: int) -> bool:
    """Whether a window is in error or may become so, may outgrow its limit within this step, or has names."""
    return bool(seen.failed) or joined.troubled(state.limits.result_rows_max - count)


def _absorb(store: TableStore, changes: Changes, indexed: Mapping[IndexKey, Indexed]) -> None:
    """The step's rows into the store, in time order: what left a transaction before what came."""
    order, live = _sides(changes) if len(changes) == 1 else _in_time(changes)
    store.absorb(changes.id[order], live, changes.rows, indexed, order)


def _sides(changes: Changes) -> tuple[Int64s, Bools]:
    """Of one change."""
    old, new = int(changes.old[0]), int(changes.new[0])
    if old >= 0 and new >= 0:
        return np.array((old, new), np.int64), _GONE_CAME
    return np.array((max(old, new),), np.int64), _GONE_CAME[1:] if new >= 0 else _GONE_CAME[:1]


def _in_time(changes: Changes) -> tuple[Int64s, Bools]:
    order = np.concatenate((changes.old, changes.new))
    live = np.repeat(_GONE_CAME, len(changes))
    time = np.lexsort((live, np.concatenate((changes.tx, changes.tx))))
    time = time[order[time] >= 0]
    return order[time], live[time]
