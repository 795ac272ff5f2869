"""Held rows: those of a table or relation go into its store, once, and are arranged there by the keys of templates.

It never reads a source: what a new key needs is here already, unless this cell holds only a part of the table.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from headwater.engine.dataflow_state import DataflowState
from headwater.engine.rows.arrays import Bools
from headwater.engine.rows.conform import conform
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.table_store import Indexed, TableStore
from headwater.engine.windows.row_identity import Multiset, key_hashes, row_hashes
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.plan.template import Template, key_columns

Entries = tuple[Uint64s, Bools, pa.RecordBatch]  # identity, whether it comes or goes, and row


def index_key(table: Table, template: Template) -> IndexKey:
    """Of the index by which a template reads its table; without columns it needs none."""
    return IndexKey.of(table, template.keys)


def hold(state: DataflowState, template: Template, rows: Iterable[pa.RecordBatch]) -> None:
    """Rows as they were read. A batch with a further column, `diff`, adds and removes rows."""
    table = state.schemas[template.table].table
    multiset = None if table.key else state.new_multiset()
    parts = [_entries(table, multiset, batch) for batch in rows]
    if multiset is not None:
        state.multisets[table.name] = multiset
    scanned = _put_aside(state, table.name)
    _absorb_all(state, _opened(state, template, table), parts)
    _look_up(state, table.name, scanned)


def _put_aside(state: DataflowState, name: str) -> TableStore | None:
    """The store of a table that only operators read, to be replaced by one that templates can read too."""
    store = state.stores.get(name)
    return None if store is None or store.shown else state.stores.pop(name)


def _look_up(state: DataflowState, name: str, scanned: TableStore | None) -> None:
    """Operators find in the new store what they found in the old one."""
    for key in () if scanned is None else scanned.indexes:
        state.stores[name].build(key)


def show(state: DataflowState, template: Template) -> None:
    """A table that only operators read is here with all its columns; templates can read it from now on."""
    scanned = _put_aside(state, template.table)
    if scanned is not None:
        table, rows = scanned.table, scanned.heap.all()[1]
        _absorb(state, _opened(state, template, table), _entries(table, None, rows))
        _look_up(state, template.table, scanned)


def _absorb_all(state: DataflowState, store: TableStore, parts: list[Entries]) -> None:
    if len(parts) == 1:
        _absorb(state, store, parts[0])
    elif parts:
        id, live = (np.concatenate([part[n] for part in parts]) for n in range(2))
        _absorb(state, store, (id, live, pa.concat_batches([part[2] for part in parts])))


def hold_by_key(state: DataflowState, template: Template) -> None:
    """No rows yet: those of a key come with `fetch`."""
    table, columns = state.schemas[template.table].table, key_columns(template)
    state.by_key.setdefault((template.table, columns), set())
    store = _opened(state, template, table)
    if (key := IndexKey.of(table, columns)) not in store.indexes:
        store.indexes[key] = store.new_index(key)


def fetch(
    state: DataflowState, table: str, columns: tuple[str, ...], keys: Iterable[bytes], rows: Iterable[pa.RecordBatch]
) -> None:
    """The rows of some keys, as they are now, of a table that is held by key. Batches as for `hold`, of any rows of the
    table: the others stay, or stay away. Nothing where nobody reads the table by these columns any more."""
    held = state.by_key.get((table, columns))
    if held is not None:
        held.update(keys)
        store = state.stores[table]
        for batch in rows:
            _absorb(state, store, _entries(store.table, None, batch))


def let_go(state: DataflowState, table: str, columns: tuple[str, ...], keys: Iterable[bytes]) -> None:
    """The rows of some keys go, but for those that are held by other columns, too."""
    held = state.by_key.get((table, columns))
    if held is not None:
        arrangement = state.arrangements[table, columns]
        for key in held.intersection(keys):
            gathered = arrangement.bucket(key)
            held.discard(key)
            _absorb(state, arrangement.store, (gathered.id, np.ones(len(gathered.id), np.bool_), gathered.rows))


def take_over(state: DataflowState, template: Template, theirs: TableStore) -> None:
    """The rows of a store that was made elsewhere."""
    scanned = _put_aside(state, template.table)
    store = state.stores.get(template.table)
    if store is None:
        store = state.stores[template.table] = theirs
        _look_up(state, template.table, scanned)
    else:
        id, rows = theirs.heap.all()
        _absorb(state, _opened(state, template, theirs.table), (id, np.ones(len(id), np.bool_), rows))
    if not store.table.key:
        multiset = state.multisets.setdefault(store.table.name, state.new_multiset())
        multiset.recount(row_hashes(store.table, store.heap.all()[1]).exact)


def arrange(state: DataflowState, template: Template) -> None:
    """By the template's keys; the index is built of the rows that are here, where it is not here itself."""
    store = state.stores[template.table]
    if template.keys and index_key(store.table, template) not in store.indexes:
        _build(state, store, template.keys)
    state.arrangements[template.table, template.keys] = Arrangement.of(store, template.keys)
    if state.is_by_key(template):
        columns = key_columns(template)
        state.arrangements[template.table, columns] = Arrangement.of(store, columns)


def _build(state: DataflowState, store: TableStore, keys: tuple[str, ...]) -> None:
    rows = store.heap.all()[1]
    key = IndexKey.of(store.table, keys)
    store.indexes[key] = store.new_index(key)
    arrangement = Arrangement.of(store, keys)
    hash = arrangement.hash_rows(rows)
    store.fill(key, Indexed(hash, state.mine(arrangement, rows, hash)))


def _opened(state: DataflowState, template: Template, table: Table) -> TableStore:
    """The store that takes the rows of a template: it has the index that decides which of them are taken."""
    store = state.stores.get(table.name)
    if store is None:
        store = TableStore(table, state.counters, state.limits.run_rows_min, whole=False)
        state.stores[table.name] = store
    store.whole = store.whole or state.holds_all(template)
    key = index_key(table, template)
    if template.keys and key not in store.indexes:
        store.indexes[key] = store.new_index(key)
    return store


def rows_read(table: Table, batch: pa.RecordBatch) -> tuple[Bools, pa.RecordBatch]:
    """Whether each row comes or goes, and the rows themselves."""
    if batch.num_columns == len(table.columns):
        return np.ones(batch.num_rows, np.bool_), conform(batch, table)
    live = np.asarray(batch.column(batch.num_columns - 1)) > 0
    return live, conform(batch.select(range(batch.num_columns - 1)), table)


def _entries(table: Table, multiset: Multiset | None, batch: pa.RecordBatch) -> Entries:
    live, rows = rows_read(table, batch)
    id = key_hashes(table, rows) if multiset is None else multiset.follow(row_hashes(table, rows).exact, live)
    return id, live, rows


def _absorb(state: DataflowState, store: TableStore, entries: Entries) -> None:
    id, live, rows = entries
    indexed: dict[IndexKey, Indexed] = {}
    for key, index in store.indexes.items():
        hash = index.hash_rows(rows)
        mine = state.mine(Arrangement.of(store, key.columns), rows, hash) if key.kind == "values" else index.keyed(rows)
        indexed[key] = Indexed(hash, mine)
    store.absorb(id, live, rows, indexed)
