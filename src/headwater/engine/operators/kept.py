"""What operators remember, and how it is put on disk.

Bags and tallies write a run once. A memo (groups) is written whole whenever it is saved. It never deletes a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from headwater.engine import runfile
from headwater.engine.operators.bag import Bag, Run
from headwater.engine.operators.batch import same
from headwater.engine.operators.tally import Counted, Tally
from headwater.engine.spill import Inside, inside


@runtime_checkable
class Memo(Protocol):
    """State in Python's own structures, as one batch of rows."""

    def dump(self) -> pa.RecordBatch: ...

    def load(self, rows: pa.RecordBatch) -> None: ...


State = Bag | Tally | Memo


def save(state: State, directory: Path) -> list[str]:
    """The names of its files, oldest first, each durable once the directory is synced."""
    match state:
        case Bag(runs=runs) | Tally(runs=runs):
            for run in runs:
                run.file = run.file or runfile.write(_batch_of(run), directory)
            return [run.file for run in runs if run.file is not None]
        case Memo():
            return [runfile.write(state.dump(), directory)]


def restore(state: State, directory: Path, files: list[str]) -> None:
    match state:
        case Bag(table=table):
            state.runs = [_bag_run(directory, name, table.arrow) for name in files]
        case Tally():
            state.runs = [_tally_run(directory, name) for name in files]
        case Memo():
            state.load(runfile.read(directory / files[0]))


def runs_inside(state: State, directory: Path) -> Iterator[Inside]:
    """Those in memory. All of them must have been saved. A memo has none: it is in use as it is."""
    match state:
        case Bag(runs=runs):
            return inside(runs, lambda name: _bag_run(directory, name, state.schema))
        case Tally(runs=counted):
            return inside(counted, lambda name: _tally_run(directory, name))
        case Memo():
            return iter(())


def _batch_of(run: Run | Counted) -> pa.RecordBatch:
    if isinstance(run, Counted):
        values = pa.FixedSizeListArray.from_arrays(pa.array(run.values.reshape(-1)), run.values.shape[1])
        return pa.RecordBatch.from_arrays([pa.array(run.key), values], names=["#key", "#values"])
    ours = [pa.array(run.hash), pa.array(run.id), pa.array(run.weight)]
    columns = run.sorted_rows().columns  # by number: the same rows under other names are the same file
    names = ["#hash", "#id", "#weight", *(str(n) for n in range(len(columns)))]
    return pa.RecordBatch.from_arrays([*ours, *columns], names=names)


def _bag_run(directory: Path, name: str, schema: pa.Schema) -> Run:
    batch = runfile.read(directory / name)
    hash, id, weight = (np.asarray(batch.column(n)) for n in range(3))
    rows = pa.RecordBatch.from_arrays(batch.columns[3:], schema=schema)
    return Run(hash, id, weight, same(0, len(hash)), rows, name, mapped=True)


def _tally_run(directory: Path, name: str) -> Counted:
    key, values = runfile.read(directory / name).columns
    return Counted(np.asarray(key), np.asarray(values.flatten()).reshape(len(key), -1), name, mapped=True)
