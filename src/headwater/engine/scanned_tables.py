"""Scanned tables: those that relations scan by keys are held once, in the stores that templates over one table read.

A store holds the columns that some active template reads, and has an index for each key that an operator looks rows up
by. It never reads a source: what a new relation needs is here already, or comes with its activation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from headwater.engine.dataflow_state import DataflowState, Rows
from headwater.engine.held_rows import rows_read
from headwater.engine.operators.derived import Derived
from headwater.engine.rows.hashes import key_hash
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.scan_index import columns_read
from headwater.engine.state.table.table_store import TableStore, narrowed
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.sql.ir.relation import Relation


def is_held(state: DataflowState, table: str, columns: Iterable[str]) -> bool:
    """Whether every row of the table is here, with these columns."""
    store = state.stores.get(table)
    return store is not None and store.whole and set(columns) <= set(store.table.names)


def rows_of_tables(state: DataflowState, relation: Relation, given: Rows | None) -> dict[str, Iterable[pa.RecordBatch]]:
    """The rows of each table that a relation reads: as they are here, or else as they were given."""
    found: dict[str, Iterable[pa.RecordBatch]] = {}
    for name, columns in columns_read(relation).items():
        if is_held(state, name, columns):
            found[name] = [_padded(state.stores[name].heap.all()[1], state.schemas[name].table)]
        elif given is not None and name in given:
            found[name] = list(given[name])
        else:
            raise ValueError(f"activating a relation needs the rows of {name}")
    return found


def _padded(rows: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    """With NULLs in place of columns that are not held: nobody reads these."""
    have = dict(zip(rows.schema.names, rows.columns, strict=True))
    nothing = {c.name: pa.nulls(rows.num_rows, c.type.arrow) for c in table.columns if c.name not in have}
    return pa.RecordBatch.from_arrays([{**have, **nothing}[name] for name in table.names], schema=table.arrow)


def hold_scanned(state: DataflowState, derived: Derived, rows: Mapping[str, Iterable[pa.RecordBatch]]) -> None:
    """The rows that a relation was made of are in stores from now on, by its keys."""
    for name, columns in _wanted([derived]).items():
        if not is_held(state, name, columns):
            store = _store_of(state, name, columns, rows[name])
            _index_alike(store, derived)
            _take(state, name, store)
    _attach(state, derived)


def _index_alike(store: TableStore, derived: Derived) -> None:
    """By the hashes that the operators computed of the same rows, where these are in the same order: each once."""
    if len(store.heap.chunks) != 1 or store.heap.gone:
        return
    for scan in derived.scans():
        known = scan.hashes(len(store)) if scan.source == store.table.name else None
        if known is not None and scan.key not in store.indexes:
            store.build_sorted(scan.key, *known)


def take_over_scanned(state: DataflowState, derived: Derived, stores: Mapping[str, TableStore]) -> None:
    """The same, for a relation that was made elsewhere, with stores of its own."""
    for name, columns in _wanted([derived]).items():
        if not is_held(state, name, columns):
            _take(state, name, stores[name])
    _attach(state, derived)


def _wanted(relations: Iterable[Derived]) -> dict[str, set[str]]:
    """The columns that operators look up in stores."""
    found: dict[str, set[str]] = defaultdict(set)
    for derived in relations:
        for name, columns in derived.scanned.items():
            found[name].update(columns)
        for scan in derived.scans():
            found[scan.source].update(scan.names)
    return found


def _store_of(state: DataflowState, name: str, columns: set[str], rows: Iterable[pa.RecordBatch]) -> TableStore:
    table = state.schemas[name].table
    store = TableStore(narrowed(table, columns), state.counters, state.limits.run_rows_min, shown=False)
    places = [n for n, column in enumerate(table.columns) if column.name in columns]
    read = (rows_read(table, each) for each in rows)
    parts = [(scan_identity(table, batch), live, batch.select(places)) for live, batch in read]
    if len(parts) == 1:
        store.absorb(*parts[0], {})
    elif parts:
        id, live = (np.concatenate([part[n] for part in parts]) for n in range(2))
        store.absorb(id, live, pa.concat_batches([part[2] for part in parts]), {})
    return store


def scan_identity(table: Table, rows: pa.RecordBatch) -> Uint64s:
    """By the key. No client sees it, so it is the hash that is computed fastest."""
    columns = [table.column(name) for name in table.key]
    arrays = [rows.column(table.index(name)) for name in table.key]
    return key_hash(arrays, [c.type for c in columns], [c.collation for c in columns], rows.num_rows)


def _take(state: DataflowState, name: str, store: TableStore) -> None:
    """A store of columns that are not here, or not all of them."""
    known = state.stores.get(name)
    if known is None:
        state.stores[name] = store
    else:
        known.widen(narrowed(state.schemas[name].table, {*known.table.names, *store.table.names}), store)


def _attach(state: DataflowState, derived: Derived) -> None:
    for scan in derived.scans():
        store = state.stores[scan.source]
        if scan.key not in store.indexes:
            store.build(scan.key)
    derived.attach(state.stores)


def attach_restored(state: DataflowState, derived: Derived) -> None:
    """A relation whose stores were restored with it."""
    _attach(state, derived)


def sweep(state: DataflowState) -> None:
    """Lets go of stores, indexes and columns of tables that no template reads any more."""
    wanted, keys = _wanted(state.derived.values()), _keys(state)
    for name in [each for each in state.stores if each not in state.derived]:
        store = state.stores[name]
        over = any(state.arranged(name))
        if not over and name not in wanted:
            del state.stores[name]
            state.multisets.pop(name, None)
            continue
        store.indexes = {key: index for key, index in store.indexes.items() if key in keys[name]}
        if not store.shown and wanted[name] < set(store.table.names):
            store.define(narrowed(state.schemas[name].table, wanted[name]))


def _keys(state: DataflowState) -> dict[str, set[IndexKey]]:
    """By which rows are looked up, per table."""
    found: dict[str, set[IndexKey]] = defaultdict(set)
    for arrangement in state.arrangements.values():
        if arrangement.index is not None:
            found[arrangement.table.name].add(arrangement.index.key)
    for scan in (scan for derived in state.derived.values() for scan in derived.scans()):
        found[scan.source].add(scan.key)
    return found
