"""The state of one template, built outside of its cell: from the rows that were read, then from the log, saved to disk.

It equals what the cell would compute from the same records. It emits nothing, because it has no subscribers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from headwater.engine.dataflow import Dataflow
from headwater.engine.rows.work import Work
from headwater.engine.state import run_file
from headwater.fs.sync import sync_now
from headwater.log.record import Kind, Record
from headwater.log.segment import SegmentReader
from headwater.model.errors import Corrupt, SourceError
from headwater.model.limits import Limits
from headwater.pipeline.activation.hydration import rows_at
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, Built, Schema, decode_control
from headwater.pipeline.records.pending_frames import PendingFrames
from headwater.plan.planner import logged_template

Partition = tuple[int, int]


class OfflineBuild:
    """`applied` is the last log offset whose effect is in `flow`."""

    def __init__(self, flow: Dataflow, layout: Layout, limits: Limits, applied: int) -> None:
        self.flow, self.applied = flow, applied
        self._layout, self._limits = layout, limits

    @classmethod
    def begun(cls, activate: Activate, layout: Layout, partition: Partition, limits: Limits, here: int) -> Self:
        """From the rows of each table, as they are before log offset `here`."""
        flow = Dataflow(partition=partition, limits=limits)
        for hydration in activate.tables:
            flow.define(hydration.table)
        template = logged_template(activate.template, activate.sql, flow.tables)
        flow.activate(template, rows_at(layout, activate, flow.tables, here), order=activate.order)
        return cls(flow, layout, limits, here - 1)

    @classmethod
    def loaded(cls, built: Built, layout: Layout, limits: Limits, partition: Partition, counters: Work) -> Self:
        directory = layout.hydration / built.directory
        flow = Dataflow.load(directory, built.state, partition=partition, limits=limits, counters=counters)
        return cls(flow, layout, limits, built.upto)

    def follow(self, before: int) -> int:
        """Takes what was logged since, up to `before`. How many records that were."""
        pending, first = PendingFrames(), self.applied
        with SegmentReader(self._layout.log, self.applied + 1) as reader:
            while (left := before - reader.offset) > 0:
                records = reader.poll(min(left, self._limits.step_records_max), self._limits.step_bytes_max)
                if not records:
                    break
                self._take(records, pending)
                self.applied = pending.applied(records[-1].offset)
        return self.applied - first

    def _take(self, records: Iterable[Record], pending: PendingFrames) -> None:
        for record in records:
            if record.kind is Kind.FRAME:
                for frame in pending.complete(record, self.flow.tables):
                    pending.add(frame)
            else:
                pending.parts.clear()  # parts are appended together: what stands between them cut them off
                self._check(record)
        if deltas := pending.take():
            self.flow.step(deltas)

    def _check(self, record: Record) -> None:
        if record.kind is not Kind.SCHEMA:
            return
        control = decode_control(record)
        if isinstance(control, Schema) and control.table in self.flow.tables:
            raise SourceError(f"columns changed while the rows were read: {control.table}")

    def save(self, partition: int, directory: Path) -> Built:
        saved = self.flow.save(directory)
        return Built(partition, directory.name, self.applied, saved.document, tuple(saved.files))


def taken_over(built: Built, layout: Layout, state: Path) -> None:
    """The files that were built are the cell's own from here on, whatever becomes of the directory they came in."""
    try:
        for name in built.files:
            if not run_file.is_whole(state / name):
                (state / name).unlink(missing_ok=True)
                os.link(layout.hydration / built.directory / name, state / name)
    except OSError as error:
        raise Corrupt(f"cannot link the state file {name} of a template: {error}") from None
    sync_now(state)
