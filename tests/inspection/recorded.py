"""A data directory with everything in it, made of a recorded log: a cell replayed it and saved its state."""

from __future__ import annotations

from pathlib import Path

from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.data_dir.catalog import Arranged, Catalog, Known
from headwater.pipeline.data_dir.format import claim_format
from headwater.pipeline.data_dir.layout import Layout
from tests.recorded.archive import unpack
from tests.support.replay import cell_config


def recorded_directory(root: Path, name: str = "sqlite") -> Layout:
    layout = Layout(root)
    claim_format(root)
    layout.make(1)
    unpack(name, root)
    cell = Cell(cell_config(layout, 512))
    half = 0
    while cell.turn(0):
        if half < cell.applied // 100:
            half = cell.applied // 100
            cell.save()
    cell.save()
    cell.close()
    known = Known("orders", frozenset({"orders"}), ("id", "total"), Arranged("orders", ("id",), None))
    Catalog("sqlite:///shop.db", 1, 7, boot=2, position=9, templates={"abc": known}).write(layout.catalog)
    return layout
