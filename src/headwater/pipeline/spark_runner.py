"""The Spark runner: one streaming query whose batches are epochs and whose tasks are the cells.

The driver starts it, warms it up, restarts it with a back-off when Spark gives up, and stops it once the cells ended.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from typing import Any

from headwater.model.errors import Corrupt, HeadwaterError
from headwater.pipeline.manifest import read_manifest
from headwater.pipeline.poison import verdict
from headwater.pipeline.records import Expel
from headwater.pipeline.runner import Job

_WARM_BATCHES = 3
_START_S = 120.0
_STOP_S = 10.0
_BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
_log = logging.getLogger("headwater.spark")


class SparkRunner:
    name = "spark"

    def __init__(self, job: Job) -> None:
        self._job = job
        self.on_poison: Callable[[Expel], None] = lambda expel: None
        self._stopping = threading.Event()
        self._query: Any = None
        self._failure: str | None = None
        self.restarts = 0
        self.broken: dict[int, str] = {}
        self._watcher = threading.Thread(target=self._watch, name="headwater-spark", daemon=True)

    @property
    def failure(self) -> str | None:
        return self._failure

    def start(self) -> None:
        from headwater.pipeline.spark_session import acquire

        self._session = acquire(self._job.grid.cells, self._job.master, self._job.layout.spark)
        self._query = self._started()
        self._warm_up()
        self._watcher.start()

    def stop(self, end: int) -> None:
        from headwater.pipeline.spark_session import release

        self._await_end(end)
        self._stopping.set()
        if self._query is not None:
            self._query.stop()
            if self._watcher.is_alive():
                self._watcher.join(_STOP_S)
            release(self._job.grid.cells)

    def _await_end(self, end: int) -> None:
        """A cell that ended has written its manifest: then stopping the query interrupts nobody."""
        deadline = time.monotonic() + _STOP_S
        cells = range(self._job.grid.cells)
        while time.monotonic() < deadline and self._query is not None and self._query.isActive:
            manifests = [read_manifest(self._job.layout.cell(cell)) for cell in cells]
            if all(manifest is not None and manifest.offset >= end for manifest in manifests):
                return
            time.sleep(0.01)

    def _started(self) -> Any:
        from headwater.pipeline.spark_cell import SCHEMA, bound

        cells = self._job.grid.cells
        clock = (
            self._session.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", cells)
            .option("numPartitions", cells)
            .load()
        )
        return (
            clock.select("value")
            .mapInArrow(bound(self._job), SCHEMA)
            .writeStream.format("noop")
            .option("checkpointLocation", str(self._checkpoint()))
            .start()
        )

    def _checkpoint(self) -> Any:
        """A clock that starts anew with every boot: what counts is in the manifests, not in Spark's checkpoint."""
        path = self._job.layout.spark / f"checkpoint-{self._job.boot}"
        for old in self._job.layout.spark.glob("checkpoint-*"):
            if old != path:
                shutil.rmtree(old, ignore_errors=True)
        return path

    def _warm_up(self) -> None:
        """The first epoch changes are slow because everything is cold: they are made before anybody waits for one."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            progress = self._query.lastProgress
            if progress is not None and progress["batchId"] >= _WARM_BATCHES:
                (self._job.layout.spark / f"warm-{self._job.boot}").touch()
                return
            if not self._query.isActive:
                raise HeadwaterError(f"expected the Spark job to run, found it stopped: {self._reason()}")
            time.sleep(0.05)
        raise HeadwaterError(
            f"expected the cells to run within {_START_S:.0f} s, found none finished", hint="is the machine overloaded?"
        )

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                self._query.awaitTermination()
            except Exception as error:
                _log.debug("the streaming query ended: %s", error)
            if not self._stopping.is_set():
                self._restart()

    def _restart(self) -> None:
        self._failure = self._reason()
        self.broken = self._damaged()
        for cell in range(self._job.grid.cells):
            if (expel := verdict(self._job.layout, cell)) is not None:
                self.on_poison(expel)
        _log.error("the Spark job ended and is started again: %s", self._failure)
        self._stopping.wait(_BACKOFF_S[min(self.restarts, len(_BACKOFF_S) - 1)])
        self.restarts += 1
        if not self._stopping.is_set():
            self._query = self._started()
            self._failure = None

    def _said(self) -> dict[int, str]:
        """The last words of the cells that failed."""
        files = {cell: self._job.layout.failure(cell) for cell in range(self._job.grid.cells)}
        return {cell: file.read_text().strip().splitlines()[-1] for cell, file in files.items() if file.exists()}

    def _damaged(self) -> dict[int, str]:
        corrupt = f"{Corrupt.__module__}.{Corrupt.__qualname__}: "
        said = {cell: words.partition(corrupt)[2] for cell, words in self._said().items()}
        return {cell: f"cell {cell} cannot go on: {words}" for cell, words in said.items() if words}

    def _reason(self) -> str:
        """What the cells themselves said of it; Spark's own words run to 46 lines."""
        said = self._said()
        if said:
            return "; ".join(said.values())
        error = self._query.exception()
        return "no reason given" if error is None else str(error).splitlines()[0][:300]
