"""The progress of each cell, as its diffs tell, and of several cells together. It reads no record itself."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.log.segment import SegmentReader
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.diff_record import Report


@dataclass(slots=True)
class CellProgress:
    """How far a cell is, and the last thing it said of itself."""

    reader: SegmentReader
    to: int = -1
    position: int = 0
    report: Report | None = None
    steps: int = 0
    lag_ms: float = 0.0


class GridProgress:
    """The progress of all cells. The reader writes it under the hub's lock; any thread may read it, or wait for it."""

    def __init__(self, layout: Layout, count: int) -> None:
        self._layout = layout
        self._cells = [CellProgress(SegmentReader(layout.diffs(number))) for number in range(count)]
        self._moved = threading.Condition()
        self._stuck_at: int | None = None

    def __iter__(self) -> Iterator[CellProgress]:
        return iter(self._cells)

    def __getitem__(self, number: int) -> CellProgress:
        return self._cells[number]

    def close(self) -> None:
        for cell in self._cells:
            cell.reader.close()

    def reopen(self, number: int) -> None:
        """The diffs of this cell are other files now."""
        self._cells[number] = CellProgress(SegmentReader(self._layout.diffs(number)))

    def wait(self, timeout_s: float) -> None:
        """Until a cell appends a record."""
        if len(self._cells) == 1:
            self._cells[0].reader.wait(timeout_s)
            return
        bells = [cell.reader.fileno() for cell in self._cells]
        waits = [cell.reader.wait(0) for cell in self._cells]  # which silences the bell of each
        if not any(waits):
            select.select(bells, [], [], timeout_s)

    @property
    def slowest(self) -> int:
        """The log offset that every cell is past."""
        return min(cell.to for cell in self._cells)

    def aligned(self, used: Iterable[int]) -> tuple[int, int]:
        """The log offset and the position that all of these cells have reached; of all cells where none is given."""
        cells = [self._cells[number] for number in used] or self._cells
        return min(cell.to for cell in cells), min(cell.position for cell in cells)

    def notify(self) -> None:
        """Some cell has moved."""
        with self._moved:
            self._moved.notify_all()

    def settle(self, last: int, timeout_s: float) -> bool:
        """Waits until every cell is past this log offset; not for one that stood still the last time and still does."""
        with self._moved:
            if self.slowest == self._stuck_at:
                return False
            settled = self._moved.wait_for(lambda: self.slowest >= last, timeout_s)
            self._stuck_at = None if settled else self.slowest
        return settled
