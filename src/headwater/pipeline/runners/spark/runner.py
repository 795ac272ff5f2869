"""The Spark runner: one streaming query whose batches are epochs and whose tasks are the cells.

The driver starts it, warms it up, restarts it with a back-off when Spark gives up (in a new JVM where the old one
ended), and stops it once the cells ended.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.fs.permissions import touch
from headwater.log.head_file import read_head
from headwater.model.errors import Corrupt, HeadwaterError
from headwater.pipeline.cell.expulsion import verdict
from headwater.pipeline.cell.manifest import read_manifest
from headwater.pipeline.records.control import Expel
from headwater.pipeline.runners.progress_timeout import ProgressTimeout
from headwater.pipeline.runners.runner import Job
from headwater.pipeline.runners.spark.liveness import QueryLiveness
from headwater.runtime.vital_thread import VitalThread

if TYPE_CHECKING:
    from headwater.pipeline.runners.spark.session import Driver

_WARM_BATCHES = 3
_TELL_S = 10.0
_STOP_S = 10.0
_LOOK_S = 0.25
_BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
_WELL_S = 60.0
_log = logging.getLogger("headwater.spark")


class SparkRunner:
    name = "spark"

    def __init__(self, job: Job) -> None:
        self._job = job
        self.on_poison: Callable[[Expel], None] = lambda expel: None
        self._stopping = threading.Event()
        self._driver: Driver | None = None
        self._query: Any = None
        self._pulse: QueryLiveness | None = None
        self._failure: str | None = None
        self._before: tuple[object, ...] = ()  # what the cells had said when the query was started again
        self._starts, self._tries, self._began = 0, 0, 0.0
        self.broken: dict[int, str] = {}
        self._watcher = VitalThread("headwater-spark", self._watch)
        self.threads: tuple[VitalThread, ...] = (self._watcher,)

    @property
    def failure(self) -> str | None:
        """A JVM that does not answer is told of long before it is given up; a cell that failed, until it gets on."""
        if self._failure is not None or self._pulse is None:
            return self._failure
        told_s = self._job.limits.jvm_silence_ms_max / 6000
        if self._pulse.silent_s > told_s:
            return f"the JVM of Spark has not answered for more than {told_s:g} s"
        return next((f"cell {cell}: {words}" for cell, words in self._said().items()), None)

    @property
    def restarts(self) -> int:
        return max(0, self._starts - 1)

    def start(self) -> None:
        from headwater.pipeline.runners.spark.session import acquire

        self._driver = acquire(self._job.grid.cells, self._job.master, self._job.layout.spark)
        self._begin()
        self._warm_up()
        self._watcher.start()

    def stop(self, end: int) -> None:
        from headwater.pipeline.runners.spark.session import release

        self._await_end(end)
        self._stopping.set()
        self._watcher.release()
        if self._driver is not None:
            self._halt()
            if self._watcher.is_alive():
                self._watcher.join(_STOP_S)
            release(self._job.grid.cells)

    def _await_end(self, end: int) -> None:
        """A cell that ended has written its manifest: then stopping the query interrupts nobody."""
        deadline = time.monotonic() + _STOP_S
        cells = range(self._job.grid.cells)
        while time.monotonic() < deadline and self._pulse is not None and not self._pulse.ended.is_set():
            manifests = [read_manifest(self._job.layout.cell(cell)) for cell in cells]
            if all(manifest is not None and manifest.offset >= end for manifest in manifests):
                return
            time.sleep(0.01)

    def _halt(self) -> None:
        """Stops the query. A JVM that does not do so in time must not keep this process from ending, nor outlive it."""
        if self._pulse is None or self._pulse.ended.is_set():
            return
        self._pulse.stop()
        if not self._pulse.ended.wait(_STOP_S) and self._driver is not None:
            _log.error("the JVM of Spark does not respond: killing it")
            self._driver.kill()

    def _begin(self) -> None:
        self._query = self._started()
        self._began = time.monotonic()
        self._pulse = QueryLiveness(self._query)

    def _started(self) -> Any:
        from headwater.pipeline.runners.spark.task import SCHEMA, bound

        assert self._driver is not None
        cells = self._job.grid.cells
        clock = (
            self._driver.session.readStream.format("rate-micro-batch")
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
        """A clock that starts anew with every query: what counts is in the manifests, not in Spark's checkpoint. A JVM
        that was killed may have left one half-written."""
        self._starts += 1
        path = self._job.layout.spark / f"checkpoint-{self._job.boot}-{self._starts}"
        for old in self._job.layout.spark.glob("checkpoint-*"):
            shutil.rmtree(old, ignore_errors=True)
        return path

    def _warm_up(self) -> None:
        """The first epoch changes are slow because everything is cold: they are made before anybody waits for one.

        Each takes a part of the backlog, if there is one. That may take long: it is given up only when nothing moves.
        """
        still_ms = self._job.limits.start_ms_max
        patience = ProgressTimeout(still_ms / 1000, _TELL_S, time.monotonic())
        while (epochs := self._epochs()) < _WARM_BATCHES:
            now = time.monotonic()
            if patience.is_over((epochs, *self._signs()), now):
                raise HeadwaterError(
                    f"Spark did not start: no progress for {still_ms // 1000} s ({self._awaited(epochs)})",
                    hint="check whether the machine is overloaded, or the Spark session busy with other jobs",
                )
            if patience.is_due(now):
                _log.warning("Spark is starting: %s", self._awaited(epochs))
            time.sleep(0.05)
        touch(self._job.layout.spark / f"warm-{self._job.boot}")

    def _awaited(self, epochs: int) -> str:
        cells = range(self._job.grid.cells)
        at = ", ".join(f"cell {cell} at log offset {_offset(self._job.layout.cell(cell))}" for cell in cells)
        return f"{epochs} of {_WARM_BATCHES} first epochs are over; {at}"

    def _epochs(self) -> int:
        """How many are over since the query began."""
        assert self._pulse is not None
        try:
            progress = self._query.lastProgress
        except Exception:
            progress = None
        if self._pulse.ended.is_set():
            raise HeadwaterError(f"the Spark job stopped: {self._reason()}")
        return 0 if progress is None else int(progress["batchId"])

    def _signs(self) -> Iterator[object]:
        """Of every cell that it lives: its diffs, and its manifests while it repeats what it had emitted before."""
        layout = self._job.layout
        for cell in range(self._job.grid.cells):
            manifests = frozenset(path.name for path in layout.cell(cell).glob("manifest-*"))
            yield read_head(layout.diffs(cell)), manifests

    # — the watcher

    def _watch(self) -> None:
        while not self._stopping.is_set():
            pulse = self._pulse
            assert pulse is not None
            if pulse.ended.wait(_LOOK_S):
                self._restart_unless_stopping()
            elif self._failure is not None and self._is_back():
                self._failure = None
            elif pulse.silent_s * 1000 > self._job.limits.jvm_silence_ms_max and self._driver is not None:
                _log.error("%s: killing it", self.failure)
                self._failure = self.failure
                self._driver.kill()

    def _restart_unless_stopping(self) -> None:
        """Whatever goes wrong meanwhile is the reason for the next attempt."""
        from headwater.pipeline.runners.spark.session import SessionEnded

        try:
            if not self._stopping.is_set():
                self._restart()
        except SessionEnded as error:
            self._give_up(error)
        except Exception as error:
            self._failure = _first_line(error)
            _log.exception("could not restart the Spark job")

    def _give_up(self, error: HeadwaterError) -> None:
        """The session was somebody else's, and no other can take its place: all live queries end, with the reason."""
        self._failure = error.message
        self.broken = dict.fromkeys(range(self._job.grid.cells), f"{error.message} ({error.hint})")
        _log.error("%s", error)
        self._stopping.wait()

    def _restart(self) -> None:
        from headwater.pipeline.runners.spark.session import renewed

        assert self._driver is not None
        end = self._driver.end
        self._failure = end or self._reason()
        self.broken = self._damaged()
        for cell in range(self._job.grid.cells):
            if (expel := verdict(self._job.layout, cell)) is not None:
                self.on_poison(expel)
        _log.error("the Spark job ended; restarting it: %s", self._failure)
        self._back_off()
        if self._stopping.is_set():
            return
        if end is not None:
            self._driver = renewed(self._driver, self._job.master, self._job.layout.spark)
        self._before = tuple(self._signs())
        self._begin()

    def _is_back(self) -> bool:
        """Every cell has said something since the query was started again: only then is all well."""
        return all(now != before for now, before in zip(self._signs(), self._before, strict=True))

    def _back_off(self) -> None:
        """Longer and longer, while it does not run for a while in between."""
        self._tries = 0 if time.monotonic() - self._began > _WELL_S else self._tries + 1
        self._stopping.wait(_BACKOFF_S[min(self._tries, len(_BACKOFF_S) - 1)])

    def _said(self) -> dict[int, str]:
        """The last words of the cells that failed, and have not got on since."""
        said = {cell: _last_line(self._job.layout.failure(cell)) for cell in range(self._job.grid.cells)}
        return {cell: words for cell, words in said.items() if words}

    def _damaged(self) -> dict[int, str]:
        corrupt = f"{Corrupt.__module__}.{Corrupt.__qualname__}: "
        said = {cell: words.partition(corrupt)[2] for cell, words in self._said().items()}
        return {cell: f"cell {cell} cannot continue: {words}" for cell, words in said.items() if words}

    def _reason(self) -> str:
        """What the cells themselves said of it; Spark's own words run to 46 lines."""
        said = self._said()
        if said:
            return "; ".join(said.values())
        error = None if self._pulse is None else self._pulse.error
        return "no reason given" if error is None else _first_line(error)


def _offset(cell: Path) -> int:
    manifest = read_manifest(cell)
    return 0 if manifest is None else manifest.offset


def _last_line(file: Path) -> str:
    """Empty where there is no such file."""
    try:
        return (file.read_text().strip().splitlines() or ["no reason given"])[-1]
    except OSError:
        return ""


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [repr(error)])[0][:300]
