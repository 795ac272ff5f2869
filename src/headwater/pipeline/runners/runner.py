"""The interface of a runner: it keeps every cell of the grid running, on threads or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Expel
from headwater.runtime.vital_thread import VitalThread


@dataclass(frozen=True, slots=True)
class Job:
    """Which cells to run. `epoch_s` is how long an epoch lasts; 0 makes every epoch an ordinary micro-batch."""

    layout: Layout
    grid: Grid
    boot: int
    epoch_s: float = 60.0
    master: str | None = None
    limits: Limits = DEFAULT


class Runner(Protocol):
    """`on_poison` is told what a cell cannot get past, once: the cell goes on when the log says that it ends there."""

    name: str
    on_poison: Callable[[Expel], None]
    threads: tuple[VitalThread, ...]

    def start(self) -> None:
        """Returns when the cells run. Raises where they cannot."""

    def stop(self, end: int) -> None:
        """The cells have been told to end by the record at log offset `end`; returns when they have."""

    @property
    def failure(self) -> str | None:
        """Why the cells do not run just now, if so."""

    @property
    def broken(self) -> Mapping[int, str]:
        """The cells that can never go on, because what they must read is damaged; and the reason."""
