"""Frames that wait for their step, and parts of a large transaction that wait for its last part. Computes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.engine.rows.delta import Delta
from headwater.log.record import Record
from headwater.model.schema import Table
from headwater.pipeline.records.frame import Frame, decode_frame


@dataclass(slots=True)
class PendingFrames:
    deltas: dict[str, list[Delta]] = field(default_factory=dict)
    parts: list[Record] = field(default_factory=list)

    def add(self, frame: Frame) -> None:
        for section in frame.sections:
            self.deltas.setdefault(section.table, []).append(Delta(section.batch, section.renames))

    def take(self) -> dict[str, list[Delta]]:
        deltas, self.deltas = self.deltas, {}
        return deltas

    def complete(self, record: Record, known: Mapping[str, Table]) -> Iterator[Frame]:
        """The frames that this record completes: itself, or all parts with the last one's offset."""
        frame = decode_frame(record.payload, tables=known, offset=record.offset)
        if frame.part is None:
            self.parts.clear()
            yield frame
            return
        if frame.part[0] == 0:
            self.parts.clear()
        self.parts.append(record)
        if frame.part[1]:
            for part in self.parts:
                yield decode_frame(part.payload, tables=known, offset=record.offset)
            self.parts.clear()

    def applied(self, last: int) -> int:
        """The last offset whose effect is taken, when records up to `last` were read: open parts do not count."""
        return self.parts[0].offset - 1 if self.parts else last
