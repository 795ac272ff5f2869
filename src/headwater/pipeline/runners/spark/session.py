"""The Spark session: an existing one, or a new one with the settings that cells need; replaced when its JVM has ended.

Cells hold their slots for minutes, so the local master has four slots more than cells, and retries tasks. A session
that the application created is used as it is, and never replaced.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.fs.temporary_directory import make_scratch
from headwater.model.errors import HeadwaterError
from headwater.pipeline.runners.spark.java import java_home

_SPARE_SLOTS = 4
_RETRIES = 4
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.python.daemon.module": "headwater.pipeline.runners.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.hadoop.fs.file.impl.disable.cache": "false",
    "spark.hadoop.fs.permissions.umask-mode": "077",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=4",
}
_ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "SPARK_CONNECT_MODE": "0",
}
_END_S = 10.0
_EXIT_S = 1.0
_lock = threading.Lock()
_taken = 0
_made: Driver | None = None


class SessionEnded(HeadwaterError):
    """The session was made by somebody else: no other takes its place."""


@dataclass(frozen=True, slots=True, eq=False)
class Driver:
    """A session and the JVM behind it. `is_ours` where we made it; `process` where the JVM is a child of ours."""

    session: Any
    process: subprocess.Popen[bytes] | None
    is_ours: bool

    @property
    def end(self) -> str | None:
        """How the JVM ended, if it did; a session that was stopped is of no more use than one without a JVM."""
        if (code := self._exit_code(0.0)) is not None:
            return _exited(code)
        try:
            context = self.session.sparkContext._jsc
            stopped = context is None or context.sc().isStopped()
        except Exception:
            code = self._exit_code(_EXIT_S)  # its sockets go first
            return "the JVM of Spark cannot be reached" if code is None else _exited(code)
        return "the Spark session was stopped" if stopped else None

    def _exit_code(self, timeout_s: float) -> int | None:
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(timeout_s)
        return None

    def kill(self) -> None:
        """For a JVM that does not answer any more. One that is not ours is left alone."""
        if self.is_ours and self.process is not None:
            self.process.kill()
            self.process.wait()


def acquire(cells: int, master: str | None, cache: Path) -> Driver:
    """A session with `cells` free slots; refuses where it has too few."""
    global _taken
    with _lock:
        driver = _current(cells, master, cache)
        context = driver.session.sparkContext
        slots = context.defaultParallelism
        if _taken + cells > slots:
            raise HeadwaterError(
                f"the cells need {_taken + cells} task slots, and {context.master} has {slots}",
                hint="use fewer --cells, or a --master with more slots (each cell holds one)",
            )
        _taken += cells
        return driver


def release(cells: int) -> None:
    """The slots are free again. The session stays for the next job and ends with the process."""
    global _taken
    with _lock:
        _taken -= cells


def renewed(ended: Driver, master: str | None, cache: Path) -> Driver:
    """A session in place of one that has ended, for all jobs that held slots of it: the first who asks makes it."""
    if not ended.is_ours:
        raise SessionEnded(
            f"the Spark session that Headwater was given has ended: {ended.end}",
            hint="create a new session, then connect again: live queries resume from the data directory",
        )
    with _lock:
        return _current(_taken, master, cache)


def _current(cells: int, master: str | None, cache: Path) -> Driver:
    global _made
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if _made is not None and _made.end is not None:
        _discard(_made.session.sparkContext)
        _made = None
    active = SparkSession.getActiveSession() if _made is None else None
    if active is not None:
        return Driver(active, getattr(SparkContext._gateway, "proc", None), is_ours=False)
    if _made is None:
        is_ours = SparkContext._active_spark_context is None
        try:
            session = _session(cells, master, cache)
        except BaseException:
            if is_ours:
                _forget_gateway()  # a JVM that died while it was asked to begin would be asked again and again
            raise
        _made = Driver(session, getattr(SparkContext._gateway, "proc", None), is_ours)
    return _made


def _session(cells: int, master: str | None, cache: Path) -> Any:
    from pyspark.sql import SparkSession

    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java_home(cache))
    builder = SparkSession.builder.appName("headwater")
    builder = builder.master(master or f"local[{cells + _SPARE_SLOTS},{_RETRIES}]")
    for name, value in {
        **_SETTINGS,
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": str(cache),
        **_places(),
    }.items():
        builder = builder.config(name, value)
    return _quietly(builder.getOrCreate)


def _discard(context: Any) -> None:
    """Stops a session of ours without a call to its JVM, which may be gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    if SparkContext._active_spark_context in (None, context):  # else somebody has made another since
        context._jsc = None  # else `stop` would call the JVM
        context.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
        _forget_gateway()


def _forget_gateway() -> None:
    """pyspark keeps one JVM for the life of a process: it is made to start another."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait(_END_S)
        process.stdin.close()
    with contextlib.suppress(Exception):
        gateway.close()


def _exited(code: int) -> str:
    if code >= 0:
        return f"the JVM of Spark exited with status {code}"
    with contextlib.suppress(ValueError):
        return f"the JVM of Spark was ended by {signal.Signals(-code).name}"
    return f"the JVM of Spark was ended by signal {-code}"


def _places() -> dict[str, str]:
    """Where Spark and its JVM put what they need for a while: where it does not outlive us, even if we are killed."""
    scratch = make_scratch("spark")
    options = f'{_SETTINGS["spark.driver.extraJavaOptions"]} -XX:-UsePerfData "-Djava.io.tmpdir={scratch}"'
    return {"spark.local.dir": str(scratch), "spark.driver.extraJavaOptions": options}


def _quietly(make: Any) -> Any:
    """Spark's launcher writes to the standard error of this process before its log level is set."""
    sys.stderr.flush()
    kept = os.dup(2)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    try:
        session = make()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silent)
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # a JVM that ends is told of by us, once
    return session
