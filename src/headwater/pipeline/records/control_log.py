"""Control records, appended to the log. It interprets none of them."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.log.segment import SegmentWriter
from headwater.pipeline.records.control import Control, encode_control


class ControlLog:
    def __init__(self, writer: SegmentWriter) -> None:
        self._writer = writer

    @property
    def next_offset(self) -> int:
        return self._writer.next_offset

    def append(self, control: Control) -> int:
        """The offset of the record."""
        return self._writer.append(*encode_control(control))

    def append_many(self, controls: Iterable[Control]) -> list[int]:
        """One write and one fsync for all of them; their offsets."""
        return self._writer.append_many([encode_control(control) for control in controls])

    def append_later(self, controls: Iterable[Control]) -> list[int]:
        """The offsets that they will have, just before whatever is appended next."""
        return self._writer.append_later([encode_control(control) for control in controls])
