"""The files with rows of tables that activations in the log name: which of them are not as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.fs.atomic_write import digest_of_file
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader
from headwater.model.errors import Corrupt
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, decode_control


@dataclass(frozen=True, slots=True)
class DamagedRows:
    """A file that the activation at log offset `offset` names."""

    offset: int
    file: str
    is_there: bool

    @property
    def problem(self) -> str:
        return f"expected the rows as they were written, found the file {'changed' if self.is_there else 'missing'}"


def damaged_rows(layout: Layout) -> list[DamagedRows]:
    """As far as the log reads: where it does not, that is told of its segment."""
    found: list[DamagedRows] = []
    try:
        for offset, activate in _activations(layout.log):
            found += _damaged(layout, offset, activate)
    except (Corrupt, OSError):
        pass
    return found


def _activations(log: Path) -> Iterator[tuple[int, Activate]]:
    with SegmentReader(log) as reader:
        while records := reader.poll():
            for record in records:
                if record.kind is Kind.ACTIVATE:
                    control = decode_control(record)
                    assert isinstance(control, Activate)
                    yield record.offset, control


def _damaged(layout: Layout, offset: int, activate: Activate) -> Iterator[DamagedRows]:
    for table in activate.tables:
        for file, digest in zip(table.files, table.digests, strict=True):
            found = digest_of_file(layout.hydration / file)
            if found != digest:
                yield DamagedRows(offset, file, is_there=found is not None)
