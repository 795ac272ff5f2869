"""The checkpoint: the state of a dataflow saved to files, and loaded again.

Runs are files, each written once; one small document names them and holds the rest. What was emitted is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.engine.activation import activate, define, narrow, new_derived
from headwater.engine.checkpoint_document import (
    SavedState,
    SavedWindow,
    pack_window,
    read_document,
    saved_state,
    unpack_window,
)
from headwater.engine.dataflow_state import DataflowState
from headwater.engine.demand import recall
from headwater.engine.operators.derived import saved_order
from headwater.engine.scanned_tables import attach_restored
from headwater.engine.state import persistence
from headwater.engine.state.shared_contents import share_files
from headwater.engine.state.spill import Inside, spill
from headwater.engine.state.table import store_files
from headwater.engine.subscriptions import hydrate, open_window
from headwater.engine.windows.shown_hashes import NO_NAMES, ShownHashes
from headwater.fs.sync import sync
from headwater.plan.planner import logged_template
from headwater.plan.template import Template


def save(state: DataflowState, directory: Path) -> SavedState:
    """Writes the runs not yet written, and drops runs from memory until the rest is within the limit."""
    stores = {name: store_files.save(each, directory) for name, each in state.stores.items()}
    derived = {name: each.save(directory) for name, each in state.derived.items()}
    counts = _save_counts(state, directory)
    windows, answers = _save_windows(state, directory), state.answers.save(directory)
    share_files(bag for each in state.derived.values() for bag in each.bags())
    spill(runs_inside(state, directory), state.limits.state_bytes_max)
    return saved_state(state.tables, stores, derived, counts, (windows, answers), state.active.values(), state.by_key)


def _save_windows(state: DataflowState, directory: Path) -> list[str]:
    """Writes only the windows that opened, ended or changed since the last time."""

    def packed(instance_id: int) -> bytes | None:
        window = state.windows.get(instance_id)
        return None if window is None else pack_window(window)

    for active in state.active.values():
        state.saved_windows.note(*active.instances.take_unsaved())
    return state.saved_windows.save(packed, directory)


def _save_counts(state: DataflowState, directory: Path) -> dict[str, list[str]]:
    """The files that count the rows of tables without a key."""
    unsaved = any(run.file is None for each in state.multisets.values() for run in each.tally.runs)
    counts = {name: persistence.save(each.tally, directory) for name, each in state.multisets.items()}
    if unsaved:
        sync(directory)
    return counts


def runs_inside(state: DataflowState, directory: Path) -> Iterator[Inside]:
    """The runs that were saved and are still in memory."""
    for store in state.stores.values():
        yield from store_files.runs_inside(store, directory)
    for derived in state.derived.values():
        yield from derived.inside(directory)
    for multiset in state.multisets.values():
        yield from persistence.runs_inside(multiset.tally, directory)


def load(state: DataflowState, directory: Path, document: bytes) -> None:
    """Into a state that is still empty. Windows are read from the stores; nothing is emitted."""
    saved = read_document(document)
    for table in saved.tables:
        define(state, table)
    for name, files in saved.stores.items():
        table, limits = state.schemas[name].table, state.limits
        state.stores[name] = store_files.load(directory, files, table, state.counters, limits.run_rows_min)
    state.by_key = {(table, columns): set(keys) for table, columns, keys in saved.by_key}
    for name, counts in saved.counts.items():
        multiset = state.multisets[name] = state.new_multiset()
        persistence.restore(multiset.tally, directory, counts)
    for id, sql, widths in saved.templates:
        bound_to = {name: narrow(table, widths) for name, table in state.tables.items()}
        _reactivate(state, logged_template(id, sql, bound_to), widths, directory, saved.derived)
    for _, packed in state.saved_windows.load(directory, saved.windows):
        _reopen(state, unpack_window(packed))
    _hydrate_unordered(state)
    state.answers.load(directory, saved.answers)


def _reactivate(
    state: DataflowState,
    template: Template,
    widths: Mapping[str, int],
    directory: Path,
    derived: Mapping[str, bytes],
) -> None:
    """A template that is bound to its tables as they were: without a key, all columns of a row are its identity."""
    if template.table in derived and template.table not in state.derived:
        document = derived[template.table]
        state.derived[template.table] = restored = new_derived(state, template, saved_order(document))
        restored.restore(directory, document)
        attach_restored(state, restored)
    activate(state, template, None, widths)


def _reopen(state: DataflowState, saved: SavedWindow) -> None:
    recall(state, saved.instance)
    window = open_window(state, state.active[saved.instance.template], saved.instance, saved.seq, saved.prev)
    window.names = ShownHashes(saved.names) if saved.names else NO_NAMES
    window.group.note()
    window.slots.records["unsaved"][window.slot] = False


def _hydrate_unordered(state: DataflowState) -> None:
    for active in state.active.values():
        for group in active.instances.groups.values():
            if group.ranked is None:
                hydrate(state, active, group)
