"""The step: changes of tables and relations in, emissions out, and the rows into the stores.

Each table's changes are absorbed once, after everything that reads it has seen them: templates, and the operators of
relations. Each active template sees only those that an instance of it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType

import numpy as np
import pyarrow as pa

from headwater.engine.dataflow_state import ActiveTemplate, DataflowState
from headwater.engine.operators.derived import Derived
from headwater.engine.operators.failures import FailureChange
from headwater.engine.relation_failures import concerned, fail, recover
from headwater.engine.rows.arrays import Bools, Int64s
from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.delta import Delta, merge, since, transactions_in, until
from headwater.engine.scanned_tables import scan_identity
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.scan_index import ScanIndex
from headwater.engine.state.table.table_store import Indexed, TableStore
from headwater.engine.subscriptions import unsubscribe
from headwater.engine.windows.changes import Changes, changes_of
from headwater.engine.windows.empty_groups import padded
from headwater.engine.windows.fan_out import spread
from headwater.engine.windows.instance_index import RowGroups
from headwater.engine.windows.ordered.replay import replay
from headwater.engine.windows.row_identity import key_hashes
from headwater.engine.windows.template_program import Projection
from headwater.engine.windows.unordered import linear
from headwater.model.errors import HeadwaterError, OverBudget, Poisoned

Absorb = Callable[[Sequence[ScanIndex]], None]  # given those that were stepped, and read the table
_GONE_CAME = np.array([False, True])


def step(state: DataflowState, deltas: Mapping[str, Sequence[Delta]]) -> None:
    """Everything that waits, of any number of transactions, `tx` ascending within a table."""
    stepped: dict[str, Absorb] = {}
    for name, parts in deltas.items():
        with Blame(name):
            if (absorb := _stepped(state, name, parts)) is not None:
                stepped[name] = absorb
    relations = {name: each for name, each in state.derived.items() if not each.base_tables.isdisjoint(deltas)}
    for name, derived in relations.items():
        with Blame(name), state.meter(name, transactions_in(deltas, derived.base_tables)):
            step_relation(state, name, derived, derived.step(deltas))
    for name, absorb in stepped.items():  # relations look up what was there before
        with Blame(name):
            absorb([scan for each in relations.values() for scan in each.scans() if scan.source == name])
    for derived in relations.values():
        derived.settle()


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
    absorb = _stepped(state, name, parts)
    if absorb is not None:
        absorb(())


def _stepped(state: DataflowState, name: str, parts: Sequence[Delta]) -> Absorb | None:
    """Steps the templates over a table or relation. What then takes the rows into its store, if it has one."""
    arrangements, store = list(state.arranged(name)), state.stores.get(name)
    if store is None or not parts:
        return None
    if not arrangements:
        return partial(_absorb_scanned, state.schemas[name], store, parts)
    changes = changes_of(state.schemas[name], merge(parts), state.multisets.get(name))
    indexed: dict[IndexKey, Indexed] = {}
    for arrangement in arrangements:
        entries = _step_arrangement(state, arrangement, changes)
        if arrangement.index is not None:
            indexed[arrangement.index.key] = entries
    return partial(_absorb, store, changes, indexed)


def _absorb_scanned(shape: TableSchema, store: TableStore, parts: Sequence[Delta], scans: Sequence[ScanIndex]) -> None:
    """A table that only relations read, by keys of theirs. It has a key itself: what came last under it is there."""
    batch = merge(parts).batch
    rows = shape.rows_of(batch)
    tx, diff = (batch.column(batch.num_columns - n).to_numpy() for n in (2, 1))
    id, live = (key_hashes if store.shown else scan_identity)(shape.table, rows), diff > 0
    place = np.lexsort((live, tx))
    rows = rows if rows.num_columns == len(store.table.columns) else rows.select(list(store.table.names))
    store.absorb(id[place], live[place], rows, _looked_up(store, rows, scans), place)


def _looked_up(store: TableStore, rows: pa.RecordBatch, scans: Sequence[ScanIndex]) -> dict[IndexKey, Indexed]:
    """Rows, as the indexes that relations read will find them: by the hashes that operators computed of them in this
    step, where there are some."""
    known = {scan.key: found for scan in scans if (found := scan.hashes(rows.num_rows)) is not None}
    indexed: dict[IndexKey, Indexed] = {}
    for key, index in store.indexes.items():
        if key in known:
            indexed[key] = Indexed(known[key][0], None)
        elif key.kind != "values":
            indexed[key] = Indexed(index.hash_rows(rows), index.keyed(rows))
    return indexed


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


def _absorb(
    store: TableStore, changes: Changes, indexed: Mapping[IndexKey, Indexed], scans: Sequence[ScanIndex]
) -> None:
    """The step's rows into the store, in time order: what left a transaction before what came."""
    order, live = _sides(changes) if len(changes) == 1 else _in_time(changes)
    joins = _looked_up(store, changes.rows, scans)
    store.absorb(changes.id[order], live, changes.rows, {**indexed, **joins} if joins else indexed, order)


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
