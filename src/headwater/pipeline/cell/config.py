"""The configuration of a cell."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import Layout


@dataclass(frozen=True, slots=True)
class CellConfig:
    """All that a cell must be told; small enough to travel to a Spark task."""

    layout: Layout
    grid: Grid
    number: int
    boot: int
    epoch: int = 0
    attempt: int = 0
    limits: Limits = DEFAULT
