"""The Spark session: found or made, with the settings that cells want, and quiet.

Cells hold their slots for minutes, so the local master has four slots more than cells, and retries tasks.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from headwater.model.errors import HeadwaterError
from headwater.pipeline.java import java_home

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
    "spark.python.daemon.module": "headwater.pipeline.spark_daemon",
    "spark.python.worker.reuse": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.hadoop.fs.file.impl.disable.cache": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=4",
}
_ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "SPARK_CONNECT_MODE": "0",
}
_lock = threading.Lock()
_taken = 0


def acquire(cells: int, master: str | None, cache: Path) -> Any:
    """A session with `cells` free slots; refuses where it has too few."""
    global _taken
    with _lock:
        session = _session(cells, master, cache)
        slots = session.sparkContext.defaultParallelism
        if _taken + cells > slots:
            raise HeadwaterError(
                f"expected {_taken + cells} task slots for the cells, found {slots} on {session.sparkContext.master}",
                hint="use fewer --cells, or a --master with more slots (each cell holds one)",
            )
        _taken += cells
        return session


def release(cells: int) -> None:
    """The slots are free again. The session stays for the next job and ends with the process."""
    global _taken
    with _lock:
        _taken -= cells


def _session(cells: int, master: str | None, cache: Path) -> Any:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java_home(cache))
    builder = SparkSession.builder.appName("headwater")
    builder = builder.master(master or f"local[{cells + _SPARE_SLOTS},{_RETRIES}]")
    for name, value in {**_SETTINGS, "spark.log.level": "OFF", "spark.sql.warehouse.dir": str(cache)}.items():
        builder = builder.config(name, value)
    return _quietly(builder.getOrCreate)


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
    return session
