"""The parent of Spark's Python workers: it imports what a cell needs before it forks, so a cell starts in 0.1 s."""

from __future__ import annotations

import gc

import pyarrow as pa

pa.set_cpu_count(1)
pa.set_io_thread_count(1)

import pyspark.daemon  # noqa: E402
import pyspark.worker  # noqa: E402

import headwater.pipeline.runners.spark.task  # noqa: E402, F401

if __name__ == "__main__":
    gc.freeze()  # what was imported stays: no worker need look through it for garbage
    pyspark.daemon.manager()
