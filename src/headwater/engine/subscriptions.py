"""Subscriptions: windows opened, hydrated from the arrangement, shown in full, and closed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.engine.dataflow_state import ActiveTemplate, DataflowState
from headwater.engine.emissions.block import Block, result_block
from headwater.engine.emissions.index import Ending, Entry
from headwater.engine.ranges.ranges import wanted
from headwater.engine.ranking.rank import LimitRange, Ranked
from headwater.engine.ranking.sort_keys import PackedSortKeys
from headwater.engine.rows.arrays import Int64s
from headwater.engine.state.table.arrangement import Gathered
from headwater.engine.windows.empty_groups import bucket
from headwater.engine.windows.instance_index import encode_instance
from headwater.engine.windows.shown_hashes import ShownHashes
from headwater.engine.windows.size_limits import outgrown
from headwater.engine.windows.template_program import Projection, identity_of
from headwater.engine.windows.window import BY_RELATION, Window, WindowGroup
from headwater.model.encoding.keys import Uint64s
from headwater.model.size import SMALL
from headwater.plan.template import Instance

Listed = tuple[Uint64s, Int64s, pa.RecordBatch]  # the rows of a result: identity, and place in a pool


def subscribe(state: DataflowState, instance: Instance, tx: int, came: Gathered | None = None) -> bool:
    """Hydrates from the arrangement, or of the rows that `came` with it; the result is in the next take. False: it
    belongs to another partition."""
    active = state.active[instance.template]
    if instance.id in state.windows:
        snapshot(state, instance.id)
        return True
    if not state.belongs(active.template, instance):
        return False
    emit_result(state, active, open_window(state, active, instance, tx, came=came), came)
    return True


def open_window(
    state: DataflowState,
    active: ActiveTemplate,
    instance: Instance,
    seq: int,
    prev: int = 0,
    came: Gathered | None = None,
) -> Window:
    template, table = active.template, state.schemas[active.template.table].table
    more = wanted(template, instance, table) if template.selectors else None
    group = active.instances.group(template.id, encode_instance(template, instance, table), more)
    if active.program.ordered and group.ranked is None:
        hydrate(state, active, group, came)
    end = (1 << 62) if instance.limit is None else instance.offset + instance.limit
    window = active.instances.open(instance, group, LimitRange(instance.offset, end), seq, prev)
    state.windows[instance.id] = window
    return window


def hydrate(
    state: DataflowState, active: ActiveTemplate, group: WindowGroup, came: Gathered | None = None
) -> tuple[Uint64s, Projection]:
    """Reads a group's rows, unless all of them came just now; sets what the group remembers of them."""
    gathered = bucket(state.arrangement(active.template), active.template, group, came)
    ranks = active.program.ordered and group.ranked is None
    see = active.program.see
    seen = see(gathered.rows, gathered.id, to_sort=ranks) if len(gathered.id) else active.program.nothing
    group.failed = {int(gathered.id[row]): why for row, why in seen.failed.items()}
    if (reason := active.affected.reason(group)) is not None:
        group.failed[BY_RELATION] = reason
    group.note()
    group.size = int((seen.place >= 0).sum())
    if ranks:
        group.ranked = ranked_of(seen)
    return gathered.id, seen


def unsubscribe(state: DataflowState, instance_id: int) -> None:
    window = state.windows.pop(instance_id, None)
    if window is not None:
        state.saved_windows.note(instance_id)
        active = state.active_of(window)
        active.instances.close(window)
        if active.template.relation is not None:
            state.departed.append((active.template.table, window.instance.values))
        if not state.windows:
            state.windows.clear()  # which frees the memory for those that were there


def end(state: DataflowState, window: Window, tx: int, reason: str, how: Ending = "closed") -> None:
    """Closes a window; its subscribers are told why."""
    entry = Entry(window.instance.id, tx, window.seq, how, window.group.template, reason)
    state.outbox.index.append(entry)
    unsubscribe(state, window.instance.id)


def snapshot(state: DataflowState, instance_id: int) -> None:
    """The full result again, under the seq and prev of the last emission."""
    window = state.windows.get(instance_id)
    if window is not None:
        emit_result(state, state.active_of(window), window)


def emit_result(state: DataflowState, active: ActiveTemplate, window: Window, came: Gathered | None = None) -> None:
    """A result; or an error or a close, where the window has no result."""
    outbox = state.outbox
    entry = Entry(window.instance.id, window.seq, window.prev, "result", active.template.id)
    if (entry.instance, entry.tx) in outbox.whole:
        return
    outbox.whole.add((entry.instance, entry.tx))
    hydrated = None if active.program.ordered else hydrate(state, active, window.group, came)
    if window.group.failed:
        outbox.index.append(entry._replace(kind="error", reason=window.group.error))
    elif (excess := outgrown(window, state.limits)) is not None:
        outbox.index.append(entry._replace(kind="closed", reason=excess))
        unsubscribe(state, window.instance.id)
    else:
        outbox.index.append(entry)
        listed = _listed(*hydrated) if hydrated else _framed(state, active, window)
        block = _block(active, window, *listed)
        outbox.add(active.template.id, block)
        state.counters.emitted += len(block)


def shown(state: DataflowState, active: ActiveTemplate, window: Window) -> Listed:
    """The rows of a window that has a result."""
    return _framed(state, active, window) if active.program.ordered else _listed(*hydrate(state, active, window.group))


def _block(active: ActiveTemplate, window: Window, id: Uint64s, places: Int64s, pool: pa.RecordBatch) -> Block:
    hashes = _named(window.names, id)
    return result_block(window.instance.id, window.seq, hashes, places, pool, active.program.types)


def _named(names: ShownHashes, id: Uint64s) -> Uint64s:
    return np.array([names.of(each) for each in id.tolist()], np.uint64) if names.kept else id


def _listed(id: Uint64s, seen: Projection) -> Listed:
    """The rows of an unordered window."""
    inside = seen.place >= 0
    return (id, seen.place, seen.pool) if inside.all() else (id[inside], seen.place[inside], seen.pool)


def _framed(state: DataflowState, active: ActiveTemplate, window: Window) -> Listed:
    """The rows of an ordered window."""
    assert window.group.ranked is not None
    keys = window.group.ranked.slice(window.frame.start, window.frame.end)
    ids = np.array([identity_of(key) for key in keys], np.uint64)
    arrangement = state.arrangement(active.template)
    if len(keys) <= SMALL.fetched_rows:
        hash = arrangement.hash(window.group.bucket)
        rows = arrangement.find([(hash, id) for id in ids.tolist()])
    else:
        gathered = arrangement.bucket(window.group.bucket)
        rows = gathered.rows.take(pa.array(np.searchsorted(gathered.id, ids)))
    return ids, np.arange(len(ids)), active.program.project(rows)


def ranked_of(seen: Projection) -> Ranked:
    if isinstance(seen.keys, PackedSortKeys):
        return Ranked.packed(seen.keys.in_order(seen.place[seen.place >= 0]))
    return Ranked(seen.keys[place] for place in seen.place.tolist() if place >= 0)
