"""A cell run again from a log that was kept: as it was, cut into other steps, stopped and resumed, or altered first."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.engine.emissions.codec import decode
from headwater.log.record import Record
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.diff_record import Report, decode_report

NEVER_MS = 10**9
Edits = dict[tuple[int, int], list[str]]  # of each window and transaction
Alter = Callable[[Record], bytes]


@dataclass(frozen=True, slots=True)
class Tape:
    """The log and the hydration files of a server, taken away while it ran. `boot` has not ended in it."""

    root: Path

    @classmethod
    def taken(cls, layout: Layout, root: Path) -> Tape:
        shutil.copytree(layout.log, root / "log")
        shutil.copytree(layout.hydration, root / "hydration")
        return cls(root)

    def records(self) -> Iterator[Record]:
        with SegmentReader(self.root / "log") as reader:
            while records := reader.poll():
                yield from records

    def wound(self, root: Path, alter: Alter = lambda record: record.payload) -> Layout:
        """A data directory that begins with it, nothing applied yet."""
        layout = Layout(root)
        layout.make(1)
        shutil.copytree(self.root / "hydration", layout.hydration, dirs_exist_ok=True)
        with SegmentWriter(layout.log) as log:
            log.append_many([(record.kind, alter(record)) for record in self.records()])
        return layout


def cell_config(layout: Layout, step_records_max: int, limits: Limits = DEFAULT) -> CellConfig:
    """One cell of one, of a boot that is still to come."""
    limits = replace(limits, step_records_max=step_records_max, manifest_interval_ms=NEVER_MS)
    return CellConfig(layout, Grid(1, 1), 0, boot=99, limits=limits)


def run_to_the_end(config: CellConfig) -> None:
    cell = Cell(config)
    while cell.turn(0):
        pass
    cell.close()


def run_with_accidents(config: CellConfig, rng: random.Random) -> int:
    """Saves now and then; now and then it is dropped as it is and made anew. How often that was."""
    cell, attempt = Cell(config), 0
    while cell.turn(0):
        if rng.random() < 0.2:
            cell.save()
        if rng.random() < 0.15:
            cell.close()
            attempt += 1
            cell = Cell(replace(config, attempt=attempt))
    cell.close()
    return attempt


def reports(layout: Layout) -> list[Report]:
    with SegmentReader(layout.diffs(0)) as reader:
        found: list[Report] = []
        while records := reader.poll():
            found += [decode_report(record.payload) for record in records]
    return found


def edits(layout: Layout) -> Edits:
    found: Edits = {}
    for report in reports(layout):
        for batch in decode(report.emitted).edits.values() if report.emitted else ():
            for row in batch.to_pylist():
                known = {
                    name: value for name, value in row.items() if value is not None
                }  # no old rows: no such columns
                found.setdefault((row["instance"], row["tx"]), []).append(repr(known))
    return found
