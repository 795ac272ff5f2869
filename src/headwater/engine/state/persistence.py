"""The state of operators on disk: runs, each written to a file once. It never deletes a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import same
from headwater.engine.state import run_file
from headwater.engine.state.bag import Bag, BagRun
from headwater.engine.state.object_cache import ObjectCache, ObjectRun
from headwater.engine.state.ordered_keys import OrderedKeys, OrderedKeysRun
from headwater.engine.state.spill import Inside, inside
from headwater.engine.state.tally import Tally, TallyRun

State = Bag | Tally | OrderedKeys | ObjectCache[Any]


def save(state: State, directory: Path) -> list[str]:
    """The names of its files, oldest first, each durable once the directory is synced."""
    match state:
        case Bag() | Tally() | OrderedKeys():
            if isinstance(state, OrderedKeys):
                state.settle()
            for run in state.runs:
                run.file = run.file or run_file.write(_batch_of(run), directory)
            return [run.file for run in state.runs if run.file is not None]
        case ObjectCache():
            state.settle()
            state.runs, names = save_filed(state.runs, directory)
            return names


def restore(state: State, directory: Path, files: list[str]) -> None:
    match state:
        case Bag(table=table):
            state.runs = [_bag_run(directory, name, table.arrow) for name in files]
        case Tally():
            state.runs = [_tally_run(directory, name) for name in files]
        case OrderedKeys():
            state.runs = [_placed_run(directory, name) for name in files]
        case ObjectCache():
            state.restore(filed_runs(directory, files))


def runs_inside(state: State, directory: Path) -> Iterator[Inside]:
    """Those in memory. All of them must have been saved."""
    match state:
        case Bag(runs=runs):
            return inside(runs, lambda name: _bag_run(directory, name, state.schema))
        case Tally(runs=counted):
            return inside(counted, lambda name: _tally_run(directory, name))
        case OrderedKeys(runs=placed):
            return inside(placed, lambda name: _placed_run(directory, name))
        case ObjectCache():
            return state.inside()


def _batch_of(run: BagRun | TallyRun | OrderedKeysRun) -> pa.RecordBatch:
    if isinstance(run, OrderedKeysRun):
        return pa.RecordBatch.from_arrays([run.keys, pa.array(run.weight)], names=["#key", "#weight"])
    if isinstance(run, TallyRun):
        values = pa.FixedSizeListArray.from_arrays(pa.array(run.values.reshape(-1)), run.values.shape[1])
        return pa.RecordBatch.from_arrays([pa.array(run.key), values], names=["#key", "#values"])
    ours = [pa.array(run.hash), pa.array(run.id), pa.array(run.weight)]
    columns = run.sorted_rows().columns  # by number: the same rows under other names are the same file
    names = ["#hash", "#id", "#weight", *(str(n) for n in range(len(columns)))]
    return pa.RecordBatch.from_arrays([*ours, *columns], names=names)


def save_filed(runs: Iterable[ObjectRun], directory: Path) -> tuple[list[ObjectRun], list[str]]:
    """The runs as they are on disk, and the names of their files."""
    saved = [run if run.file else _filed(run, directory) for run in runs]
    return saved, [run.file for run in saved if run.file is not None]


def filed_runs(directory: Path, files: Iterable[str]) -> list[ObjectRun]:
    return [_filed_run(directory, name) for name in files]


def _filed(run: ObjectRun, directory: Path) -> ObjectRun:
    """As it is on disk."""
    batch = pa.RecordBatch.from_arrays([pa.array(run.key), run.packed], names=["#key", "#piece"])
    return _filed_run(directory, run_file.write(batch, directory))


def _bag_run(directory: Path, name: str, schema: pa.Schema) -> BagRun:
    batch = run_file.read(directory / name)
    hash, id, weight = (np.asarray(batch.column(n)) for n in range(3))
    rows = pa.RecordBatch.from_arrays(batch.columns[3:], schema=schema)
    return BagRun(hash, id, weight, same(0, len(hash)), rows, name, mapped=True)


def _tally_run(directory: Path, name: str) -> TallyRun:
    key, values = run_file.read(directory / name).columns
    return TallyRun(np.asarray(key), np.asarray(values.flatten()).reshape(len(key), -1), name, mapped=True)


def _placed_run(directory: Path, name: str) -> OrderedKeysRun:
    keys, weight = run_file.read(directory / name).columns
    return OrderedKeysRun(keys, np.asarray(weight), name, mapped=True)


def _filed_run(directory: Path, name: str) -> ObjectRun:
    key, packed = run_file.read(directory / name).columns
    return ObjectRun(np.asarray(key), packed, name)
