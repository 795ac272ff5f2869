"""Opens the log and the catalog of a data directory. If they are damaged, it clears the directory and starts again.

Everything in it can be rebuilt from the rows of the source, so damaged data is never used.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from headwater.log.record import FIRST_OFFSET, Kind
from headwater.log.segment import SegmentWriter
from headwater.model.change import Transaction
from headwater.model.errors import Corrupt, HeadwaterError, SourceError
from headwater.model.limits import Limits
from headwater.pipeline.capture import last_position
from headwater.pipeline.data_dir.catalog import Catalog, read_catalog
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.data_dir.leftovers import remove_left_over
from headwater.pipeline.records.frame import encode_frames
from headwater.pipeline.recovery.integrity import activations, check_cell
from headwater.sources.source import Source

_log = logging.getLogger("headwater.pipeline")


@dataclass(frozen=True, slots=True)
class OpenLog:
    """`position`: the source position that the log has reached."""

    writer: SegmentWriter
    catalog: Catalog
    position: int


def open_log(source: Source, layout: Layout, grid: Grid, limits: Limits) -> OpenLog:
    try:
        return _opened(source, layout, grid, limits)
    except Corrupt as error:
        _log.error("the data directory is damaged; live queries restart from the database: %s", error.message)
        layout.clear()
        return _opened(source, layout, grid, limits)


def _opened(source: Source, layout: Layout, grid: Grid, limits: Limits) -> OpenLog:
    layout.make(grid.cells)
    log = SegmentWriter(layout.log, limits=limits)
    try:
        catalog = _catalog(source, layout, grid, log)
        logged = activations(layout)
        remove_left_over(layout, {name for one in logged for name in one.activate.kept})
        for cell in range(grid.cells):
            check_cell(layout, cell, log, logged)
        _attach(source, layout, catalog)
        position = _position(source, layout, log, catalog.position, limits)
        catalog.write(layout.catalog)
    except BaseException:
        log.close()
        raise
    return OpenLog(log, catalog, position)


def _attach(source: Source, layout: Layout, catalog: Catalog) -> None:
    source.attach(layout.root)
    kept = source.captured()
    if kept is not None and (lost := catalog.tables.keys() - kept):
        raise Corrupt(f"the rows kept of captured tables are missing: {', '.join(sorted(lost))}")


def _catalog(source: Source, layout: Layout, grid: Grid, log: SegmentWriter) -> Catalog:
    catalog = read_catalog(layout.catalog)
    if log.next_offset > FIRST_OFFSET if catalog is None else catalog.tables and log.next_offset == FIRST_OFFSET:
        raise Corrupt("the catalog is missing, or its log is")
    if catalog is None:
        catalog = Catalog(source.name, grid.cells, time.time_ns() // 1_000_000)
    if catalog.source != source.name:
        raise HeadwaterError(
            f"the data directory belongs to {catalog.source}, not to {source.name}",
            hint="use a separate data directory for each source",
        )
    if catalog.cells != grid.cells:
        raise HeadwaterError(
            f"the data directory was created with {catalog.cells} cells, not with {grid.cells}",
            hint="use the same --cells, or a fresh --data-dir",
        )
    catalog.boot += 1
    return catalog


def _position(source: Source, layout: Layout, log: SegmentWriter, known: int | None, limits: Limits) -> int:
    position = last_position(layout.log, known)
    found = source.position()
    if position is None and log.next_offset == FIRST_OFFSET:
        _begin_at(log, found, limits)
        return found
    position = position or 0  # where it began, if it does not say
    if found < position:
        raise SourceError(
            f"the source is at position {found}, before {position}, which was read already: it is another database, "
            "or an older copy of it",
            hint="start with a fresh data directory",
        )
    return position


def _begin_at(log: SegmentWriter, position: int, limits: Limits) -> None:
    """A new log says where the source stands: it may be long before another transaction does."""
    if position:
        frames = encode_frames([Transaction(position, ())], {}, limits=limits)
        log.append_many([(Kind.FRAME, frame) for frame in frames])
