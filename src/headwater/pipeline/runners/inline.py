"""The inline runner: each cell in a thread of this process, with no Spark. For tests and small applications."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from headwater.model.errors import Corrupt, Fenced, Poisoned
from headwater.pipeline.cell import expulsion
from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.records.control import Expel
from headwater.pipeline.runners.runner import Job
from headwater.runtime.vital_thread import VitalThread

_WAIT_S = 0.25
_RETRY_S = 0.2
_STOP_S = 10.0
_log = logging.getLogger("headwater.cell")


class InlineRunner:
    name = "inline"

    def __init__(self, job: Job) -> None:
        self._job = job
        self.on_poison: Callable[[Expel], None] = lambda expel: None
        self._stop = threading.Event()
        self.failures: dict[int, str] = {}
        self.broken: dict[int, str] = {}
        self.threads = tuple(
            VitalThread(f"headwater-cell-{cell}", partial(self._run, cell)) for cell in range(job.grid.cells)
        )

    @property
    def failure(self) -> str | None:
        return next(iter(self.failures.values()), None)

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self, end: int) -> None:
        for thread in self.threads:
            thread.release()
            if thread.is_alive():
                thread.join(_STOP_S)
        self._stop.set()
        for thread in self.threads:
            if thread.is_alive():
                thread.join()

    def _run(self, number: int) -> None:
        """A cell that raises is made anew from its manifest, as Spark would retry its task."""
        attempt, job = 0, self._job
        while not self._stop.is_set():
            try:
                self._attempt(CellConfig(job.layout, job.grid, number, job.boot, 0, attempt, job.limits))
                return
            except Fenced:
                return
            except Corrupt as error:
                self.failures[number] = self.broken[number] = f"cell {number} cannot continue: {error.message}"
                _log.error("%s", self.broken[number])
                return
            except Exception as error:
                attempt += 1
                self.failures[number] = f"cell {number}: {error}"
                _log.exception("cell %d failed; starting attempt %d", number, attempt)
                if isinstance(error, Poisoned):
                    self._judge(number, error)
                self._stop.wait(min(_RETRY_S * attempt, 5.0))

    def _judge(self, number: int, error: Poisoned) -> None:
        expulsion.count(self._job.layout, number, error)
        if (expel := expulsion.verdict(self._job.layout, number)) is not None:
            self.on_poison(expel)

    def _attempt(self, config: CellConfig) -> None:
        cell = Cell(config, saves_beside=True)
        try:
            cell.report()
            while not (self._stop.is_set() or cell.ended):
                cell.turn(_WAIT_S)
                if config.number in self.failures:
                    cell.save()  # that may have been what failed
                    del self.failures[config.number]
            cell.save()
        finally:
            cell.close()
