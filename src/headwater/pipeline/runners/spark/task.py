"""The code of a Spark task: it runs its cell until the epoch is over or an end record is read.

A worker keeps its cell between epochs; if another attempt took the cell over meanwhile, the cell is loaded again.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from headwater.fs.permissions import open_to_write
from headwater.model.errors import Fenced, Poisoned
from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.cell.expulsion import count
from headwater.pipeline.runners.runner import Job

SCHEMA = "cell bigint, epoch bigint, applied bigint"
_ARROW = pa.schema([("cell", pa.int64()), ("epoch", pa.int64()), ("applied", pa.int64())])
_WAIT_S = 0.25
_HANG_S = 300.0
_PR_SET_PDEATHSIG = 1
_kept: dict[tuple[Path, int, int], Cell] = {}


def run_cells(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each value of the epoch clock is a cell's turn: value mod cells is the cell, value div cells the epoch."""
    _die_with_parent()
    for batch in batches:
        for value in batch.column(0).to_pylist():
            epoch, number = divmod(value, job.grid.cells)
            applied = _run(job, number, epoch)
            yield pa.RecordBatch.from_arrays([[number], [epoch], [applied]], schema=_ARROW)


def bound(job: Job) -> partial[Iterator[pa.RecordBatch]]:
    return partial(run_cells, job)


def _run(job: Job, number: int, epoch: int) -> int:
    try:
        cell = _cell(job, number, epoch)
        seconds = epoch_seconds(job)
        if seconds > 0:
            cell.report()
        _loop(cell, seconds, job.layout.failure(number))
        cell.save()
        job.layout.failure(number).unlink(missing_ok=True)
        return cell.applied
    except Fenced:
        return _dropped(job, number)
    except BaseException as error:
        with (
            contextlib.suppress(OSError),
            open_to_write(job.layout.failure(number)) as file,
        ):  # a full disk is the reason
            file.write(traceback.format_exc().encode(errors="replace"))
        if isinstance(error, Poisoned):
            count(job.layout, number, error)
        _dropped(job, number)
        raise
    finally:
        faulthandler.cancel_dump_traceback_later()


def _dropped(job: Job, number: int) -> int:
    """Whoever runs the cell next makes it anew from its manifest."""
    cell = _kept.pop((job.layout.root, number, job.boot), None)
    if cell is None:
        return 0
    cell.close()
    return cell.applied


def _cell(job: Job, number: int, epoch: int) -> Cell:
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    key = (job.layout.root, number, job.boot)
    for other in [other for other in _kept if other != key or not _kept[other].current]:
        _kept.pop(other).close()
    if key not in _kept:
        _kept[key] = Cell(
            CellConfig(job.layout, job.grid, number, job.boot, epoch, attempt, job.limits), saves_beside=True
        )
    _kept[key].config = replace(_kept[key].config, epoch=epoch, attempt=attempt)
    return _kept[key]


def _loop(cell: Cell, seconds: float, failure: Path) -> None:
    """Goes on while the epoch lasts. An epoch of no length takes once what is there: an ordinary micro-batch.

    The failure of an earlier attempt is over once this one has got on."""
    parent, deadline = os.getppid(), time.monotonic() + seconds
    failed = failure.exists()
    while not cell.ended and os.getppid() == parent:
        faulthandler.dump_traceback_later(_HANG_S, exit=True)
        left = deadline - time.monotonic()
        cell.turn(min(max(left, 0.0), _WAIT_S))
        if failed:
            cell.save()  # that may have been what failed
            failure.unlink(missing_ok=True)
            failed = False
        if left <= 0:
            return


def epoch_seconds(job: Job) -> float:
    """Epochs have no length until the driver has declared the job warm."""
    return job.epoch_s if (job.layout.spark / f"warm-{job.boot}").exists() else 0.0


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
