"""What operators remember, and how it is put on disk: immutable Arrow files named after their content.

Bags and tallies write a run once. A memo (groups) is written whole whenever it is saved. It never deletes a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import xxhash

from headwater.engine.operators.bag import Bag, Run
from headwater.engine.operators.batch import same
from headwater.engine.operators.tally import Counted, Tally
from headwater.model.errors import Corrupt

_HINT = "start the cell from an older manifest, or with a fresh data directory"


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
                run.file = run.file or _write(_batch_of(run), directory)
            return [run.file for run in runs if run.file is not None]
        case Memo():
            return [_write(state.dump(), directory)]


def restore(state: State, directory: Path, files: list[str]) -> None:
    match state:
        case Bag(table=table):
            state.runs = [_bag_run(_read(directory / name), name, table.arrow) for name in files]
        case Tally():
            state.runs = [_tally_run(_read(directory / name), name) for name in files]
        case Memo():
            state.load(_read(directory / files[0]))


def _batch_of(run: Run | Counted) -> pa.RecordBatch:
    if isinstance(run, Counted):
        arrays = [pa.array(run.key), *(pa.array(np.ascontiguousarray(column)) for column in run.values.T)]
        return pa.RecordBatch.from_arrays(arrays, names=["#key", *(f"#{n}" for n in range(len(arrays) - 1))])
    ours = [pa.array(run.hash), pa.array(run.id), pa.array(run.weight)]
    names = [pa.field(name, array.type) for name, array in zip(("#hash", "#id", "#weight"), ours, strict=True)]
    rows = run.sorted_rows()
    return pa.RecordBatch.from_arrays([*ours, *rows.columns], schema=pa.schema([*names, *rows.schema]))


def _bag_run(batch: pa.RecordBatch, name: str, schema: pa.Schema) -> Run:
    hash, id, weight = (np.asarray(batch.column(n)) for n in range(3))
    rows = pa.RecordBatch.from_arrays(batch.columns[3:], schema=schema)
    return Run(hash, id, weight, same(0, len(hash)), rows, name)


def _tally_run(batch: pa.RecordBatch, name: str) -> Counted:
    key, *values = (np.asarray(column) for column in batch.columns)
    return Counted(key, np.stack(values, axis=1), name)


def _write(batch: pa.RecordBatch, directory: Path) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content = memoryview(sink.getvalue())
    name = f"{xxhash.xxh3_128_hexdigest(content)}.arrow"
    if not (directory / name).exists():
        unfinished = directory / f"{name}.{os.getpid()}"
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(directory / name)
    return name


def _read(path: Path) -> pa.RecordBatch:
    """The name is the digest: a file that is not as it was is refused."""
    try:
        mapped = pa.memory_map(str(path)).read_buffer()
    except OSError as error:
        raise Corrupt(f"the state file {path.name} cannot be read: {error}", hint=_HINT) from None
    if xxhash.xxh3_128_hexdigest(memoryview(mapped)) != path.stem:
        raise Corrupt(f"the state file {path.name} is damaged", hint=_HINT)
    return pa.ipc.open_file(mapped).get_batch(0)
