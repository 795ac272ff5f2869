"""Bugs of the hub, each with its smallest case."""

from __future__ import annotations

import select
from pathlib import Path

from headwater.gateway.hub.cell_progress import GridProgress
from headwater.log.record import Kind
from headwater.log.segment import SegmentWriter
from headwater.pipeline.data_dir.layout import Layout


def test_with_several_cells_the_hub_rests_when_it_has_read_all(tmp_path: Path) -> None:
    """The doorbells that woke it were never silenced: it looked again and again, at full speed."""
    layout = Layout(tmp_path)
    writers = [SegmentWriter(layout.diffs(number)) for number in range(2)]
    cells = GridProgress(layout, len(writers))
    bells = [cell.reader.fileno() for cell in cells]
    for writer in writers:
        writer.append(Kind.DIFFS, b"a report")
    read: list[bytes] = []
    while len(read) < len(writers):
        cells.wait(30)
        read += [record.payload for cell in cells for record in cell.reader.poll()]
    for _ in range(3):  # a ring too many is allowed, one that lasts is not
        cells.wait(0)
    assert not select.select(bells, [], [], 0)[0]
    cells.close()
    for writer in writers:
        writer.close()
