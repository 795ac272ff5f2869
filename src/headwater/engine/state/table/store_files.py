"""A table store on disk: its chunks, the places of rows that are gone, and the runs of its indexes, each a file that is
written once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from headwater.engine.rows.work import Work
from headwater.engine.state import run_file
from headwater.engine.state.spill import Inside, inside
from headwater.engine.state.table.heap import DeathRun, HeapChunk
from headwater.engine.state.table.key_index import IndexKey, IndexKind, KeyIndex
from headwater.engine.state.table.place_index import PlaceIndex, PlaceRun
from headwater.engine.state.table.table_store import TableStore, narrowed
from headwater.fs.sync import sync
from headwater.model.schema import Table

_Run = HeapChunk | DeathRun | PlaceRun
_Index = tuple[tuple[str, ...], tuple[str, ...], IndexKind, tuple[bool, ...], list[str]]  # of its key, then files


class StoreFiles(msgspec.Struct, array_like=True):
    """The names of a store's files, oldest first. `columns` are those of the table that it holds."""

    whole: bool
    shown: bool
    columns: tuple[str, ...]
    chunks: list[str]
    deaths: list[str]
    identity: list[str]
    indexes: list[_Index]

    @property
    def names(self) -> list[str]:
        return [*self.chunks, *self.deaths, *self.identity, *(name for *_, names in self.indexes for name in names)]


def save(store: TableStore, directory: Path) -> StoreFiles:
    """Each file is durable."""
    store.settle()
    heap, unsaved = store.heap, [run for run in _runs(store) if run.file is None]
    write = run_file.write if store.whole else run_file.write_compressed  # of a table held by key there are few rows
    for run in unsaved:
        run.file = write(_batch_of(run), directory)
    if unsaved:
        sync(directory)
    indexes = [
        (key.columns, key.collations, key.kind, key.null_safe, _names(index.places.runs))
        for key, index in _saved(store).items()
    ]
    rows = _names(heap.chunks), _names(heap.deaths)
    return StoreFiles(store.whole, store.shown, store.table.names, *rows, _names(store.identity.runs), indexes)


def _saved(store: TableStore) -> dict[IndexKey, KeyIndex]:
    """All indexes but those of rows that are asked for: these are made anew with their subscribers."""
    return {key: index for key, index in store.indexes.items() if not key.asked}


def _runs(store: TableStore) -> list[_Run]:
    indexed = [run for index in _saved(store).values() for run in index.places.runs]
    return [*store.heap.chunks, *store.heap.deaths, *store.identity.runs, *indexed]


def _names(runs: Sequence[_Run]) -> list[str]:
    return [run.file for run in runs if run.file is not None]


def _batch_of(run: _Run) -> pa.RecordBatch:
    match run:
        case HeapChunk(id=id, rows=rows):
            columns = rows.columns  # by number: the same rows under other names are the same file
            return pa.RecordBatch.from_arrays([pa.array(id), *columns], names=["#id", *map(str, range(len(columns)))])
        case DeathRun(place=place):
            return pa.RecordBatch.from_arrays([pa.array(place)], names=["#place"])
        case PlaceRun(hash=hash, place=place):
            return pa.RecordBatch.from_arrays([pa.array(hash), pa.array(place)], names=["#hash", "#place"])


def load(directory: Path, files: StoreFiles, table: Table, work: Work, run_rows_min: int) -> TableStore:
    """`table` as it is; the store has those of its columns that were held."""
    table = narrowed(table, files.columns)
    store = TableStore(table, work, run_rows_min, files.whole, files.shown)
    chunks = [_chunk(directory, name, table) for name in files.chunks]
    store.heap.restore(chunks, [_deaths(directory, name) for name in files.deaths])
    store.identity.runs = [_place_run(directory, name) for name in files.identity]
    for columns, collations, kind, null_safe, names in files.indexes:
        key = IndexKey(columns, collations, kind, null_safe)
        places = PlaceIndex(work, run_rows_min, [_place_run(directory, name) for name in names])
        store.indexes[key] = KeyIndex(key, table, places)
    return store


def runs_inside(store: TableStore, directory: Path) -> Iterator[Inside]:
    """Those that are in memory. All of them must have been saved."""
    yield from inside(store.heap.chunks, lambda name: _chunk(directory, name, store.table))
    yield from inside(store.heap.deaths, lambda name: _deaths(directory, name))
    for index in [store.identity, *(each.places for each in _saved(store).values())]:
        yield from inside(index.runs, lambda name: _place_run(directory, name))


def _chunk(directory: Path, name: str, table: Table) -> HeapChunk:
    id, *columns = run_file.read(directory / name).columns
    return HeapChunk(np.asarray(id), pa.RecordBatch.from_arrays(columns, schema=table.arrow), name, mapped=True)


def _deaths(directory: Path, name: str) -> DeathRun:
    (place,) = run_file.read(directory / name).columns
    return DeathRun(np.asarray(place), name, mapped=True)


def _place_run(directory: Path, name: str) -> PlaceRun:
    hash, place = run_file.read(directory / name).columns
    return PlaceRun(np.asarray(hash), np.asarray(place), name, mapped=True)
