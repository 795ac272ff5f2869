"""Checks that the cells can continue from a data directory: every file that they need exists and is undamaged.

All of it can be rebuilt from the rows of the source, so damage that no older manifest covers raises `Corrupt` here,
before the data is used. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.engine.state import run_file
from headwater.log.record import FIRST_OFFSET, Kind
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.errors import Corrupt
from headwater.pipeline.activation.hydration import check_rows
from headwater.pipeline.cell.manifest import Manifest, read_manifests
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, decode_control

_HINT = "start with a fresh data directory: live queries then restart from the database"


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation that is still in the log, and where."""

    offset: int
    activate: Activate


def activations(layout: Layout) -> list[Activation]:
    """Reads the whole log: each of its records is checked on the way."""
    with SegmentReader(layout.log) as reader:
        return list(_activations(reader))


def _activations(reader: SegmentReader) -> Iterator[Activation]:
    while records := reader.poll():
        for record in records:
            if record.kind is Kind.ACTIVATE:
                activate = decode_control(record)
                assert isinstance(activate, Activate)
                yield Activation(record.offset, activate)


def check_cell(layout: Layout, cell: int, log: SegmentWriter, logged: Sequence[Activation]) -> None:
    """The cell can begin: from the newest manifest whose state is whole, or with the first record of the log; and what
    it reads from there on is whole."""
    manifest = next((one for one in read_manifests(layout.cell(cell)) if _is_whole(layout, cell, one)), None)
    offset = manifest.offset if manifest is not None else FIRST_OFFSET - 1
    if not log.first_offset - 1 <= offset < log.next_offset:
        found = "it has no readable manifest" if manifest is None else f"its state is as of offset {offset}"
        raise Corrupt(
            f"cell {cell} cannot continue from the log (offsets {log.first_offset} to {log.next_offset - 1}): {found}",
            hint=_HINT,
        )
    for one in logged:
        if one.offset > offset:
            for hydration in one.activate.tables:
                check_rows(layout.hydration, hydration)


def _is_whole(layout: Layout, cell: int, manifest: Manifest) -> bool:
    return all(run_file.is_whole(layout.state(cell) / name) for name in manifest.files)
