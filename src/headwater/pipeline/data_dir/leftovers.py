"""Removes the files that a killed run left in a data directory and that no later run reads.

The caller holds the lock of the directory, before anything runs. Files that the log or a manifest names are kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator
from pathlib import Path

from headwater.pipeline.data_dir.layout import Layout


def remove_left_over(layout: Layout, needed: Container[str]) -> None:
    """`needed` are the entries of `hydration` that records in the log name."""
    for path in list(_left_over(layout, needed)):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _left_over(layout: Layout, needed: Container[str]) -> Iterator[Path]:
    yield from (path for path in layout.hydration.iterdir() if path.name not in needed)
    for pattern in ("warm-*", "checkpoint-*"):  # of earlier boots
        yield from layout.spark.glob(pattern)
    yield from layout.cells.glob("*/failure")
    yield from layout.cells.glob("*/state/*.arrow.*")  # by a process that ended before it gave it its name
    for directory in (layout.root, layout.log, layout.kept, *layout.cells.glob("*"), *layout.cells.glob("*/diffs")):
        yield from directory.glob("*.new")
