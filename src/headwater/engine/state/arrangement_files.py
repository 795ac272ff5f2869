"""The runs of an arrangement as files, each written once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.engine.state import run_file
from headwater.engine.state.arrangement import Arrangement, ArrangementRun, compact
from headwater.engine.state.spill import Inside, inside
from headwater.fs.sync import sync
from headwater.model.schema import Table

_OURS = ("#hash", "#id", "#live")


def save(arrangement: Arrangement, directory: Path) -> list[str]:
    """The names of an arrangement's runs, oldest first, each durable."""
    arrangement.settle()
    unsaved = [run for run in arrangement.runs if run.file is None]
    for run in unsaved:
        run.file = run_file.write(_batch_of(run), directory)
    if unsaved:
        sync(directory)
    return [run.file for run in arrangement.runs if run.file is not None]


def _batch_of(run: ArrangementRun) -> pa.RecordBatch:
    """`live` is written in whole bytes, so that it need not be copied when it is read."""
    ours = [pa.array(run.hash), pa.array(run.id), pa.array(run.live.view(np.uint8))]
    names = pa.schema([pa.field(name, array.type) for name, array in zip(_OURS, ours, strict=True)])
    return pa.RecordBatch.from_arrays([*ours, *run.rows.columns], schema=pa.schema([*names, *run.rows.schema]))


def load(directory: Path, files: Iterable[str], table: Table) -> list[ArrangementRun]:
    return [_read(directory / name, table) for name in files]


def runs_inside(arrangement: Arrangement, directory: Path) -> Iterator[Inside]:
    """Those that are in memory. All of them must have been saved."""
    return inside(arrangement.runs, lambda name: _read(directory / name, arrangement.table))


def _read(path: Path, table: Table) -> ArrangementRun:
    batch = run_file.read(path)
    hash, id, live = (np.asarray(batch.column(n)) for n in range(len(_OURS)))
    rows = pa.RecordBatch.from_arrays(batch.columns[len(_OURS) :], schema=table.arrow)
    return ArrangementRun(compact(hash), id, live.view(np.bool_), rows, path.name, mapped=True)
