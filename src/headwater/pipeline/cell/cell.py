"""The cell: wait, step, append diffs, manifest, resume. The same loop runs in a thread and in a Spark task.

It holds no query logic (that is the engine's) and decides nothing by clock, load or luck: what it emits is a function
of the log. The clock tells it only when to write a manifest, and where to end a step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import assert_never

from headwater.engine.dataflow import Dataflow
from headwater.engine.dataflow_state import Rows
from headwater.engine.emissions.index import NOTHING, Ending, Entry, Index
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.rows.delta import by_transaction
from headwater.engine.step import blaming
from headwater.engine.windows.partition import home
from headwater.fs.permissions import make_directory
from headwater.log.record import Kind, Record, tx_of
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.errors import Corrupt, Poisoned
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.pipeline.activation.hydration import rows_at
from headwater.pipeline.activation.offline_build import Side, taken_over
from headwater.pipeline.cell.expulsion import expulsions, overburdened
from headwater.pipeline.cell.leases import Leases
from headwater.pipeline.cell.manifest import Manifest, read_manifests, write_manifest
from headwater.pipeline.cell.pace import Pace
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import (
    Activate,
    Answer,
    Capture,
    EndEpoch,
    Expel,
    Release,
    Schema,
    Subscribe,
    Tick,
    Unsubscribe,
    decode_control,
)
from headwater.pipeline.records.frame import Frame
from headwater.pipeline.records.frame_buffer import Pending
from headwater.pipeline.records.report import decode_report, encode_report
from headwater.plan.planner import template_from_sql
from headwater.plan.template import Instance, Template
from headwater.runtime.release_memory import trim_memory

_DIFF_SEGMENTS = 8
_TRIM_WINDOWS = 1000  # so many that ended; then what they held goes back to the system
_GONE = "its table was changed or dropped while the query was set up: subscribe again"
_MISTAKE = "Headwater failed at this query because of a bug; please report it"
_log = logging.getLogger("headwater.cell")


@dataclass(frozen=True, slots=True)
class CellConfig:
    """All that a cell must be told; small enough to travel to a Spark task."""

    layout: Layout
    grid: Grid
    number: int
    boot: int
    epoch: int = 0
    attempt: int = 0
    limits: Limits = DEFAULT


class Cell:
    """`applied` is the last log offset whose effect is in the state; parts not yet complete do not count."""

    def __init__(self, config: CellConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.config, self._clock = config, clock
        self._directory = config.layout.cell(config.number)
        self._state = config.layout.state(config.number)
        make_directory(self._state)
        segments = replace(
            config.limits,
            segment_bytes_max=config.limits.history_bytes_max // _DIFF_SEGMENTS,
            record_bytes_max=config.limits.report_bytes_max,
        )
        self._diffs = SegmentWriter.fenced(config.layout.diffs(config.number), limits=segments, durable=False)
        self._number, self.applied, self._position = 0, 0, 0
        self._ended_boot = 0
        self._leases = Leases()
        self._strangers: list[Entry] = []
        self._asked: dict[int, int] = {}
        self._ends = 0
        self._positions: dict[int, int] = {}
        self._dataflow = self._restore()
        self._expulsions = expulsions(config.layout, config.number, self.applied)
        self._banned: dict[str, str] = {}
        self._overburdened = overburdened(config.layout, config.number)
        self._emitted = self._last_emitted()
        self._reader = SegmentReader(config.layout.log, self.applied + 1)
        self._pending = Pending()
        self._pace = Pace(config.limits)
        self._saved_at, self._saved_offset = clock(), self.applied

    @property
    def ended(self) -> bool:
        """An end record of this boot was read."""
        return self._ended_boot >= self.config.boot

    @property
    def current(self) -> bool:
        """No newer attempt has taken the cell over."""
        return self._diffs.in_power

    def turn(self, timeout_s: float) -> bool:
        """One turn of the loop: take what waits (or wait for it), step, append. False when there was nothing."""
        records = self._polled()
        if not records:
            self._pace.rested()
            self.save_if_due()
            if timeout_s <= 0 or not self._reader.wait(timeout_s):
                return False
            records = self._polled()
        if records:
            began = self._clock()
            self._take(records)
            size, seconds = sum(len(one.payload) for one in records), self._clock() - began
            self._pace.took(len(records), size, seconds)
            stepped = self.config.number, len(records), size, self.applied, seconds * 1000
            _log.debug("cell %d took %d records of %d bytes, to offset %d, in %.1f ms", *stepped)
            self.save_if_due()
        return bool(records)

    def _polled(self) -> list[Record]:
        return self._reader.poll(self._budget(), self._pace.bytes_max)

    def report(self) -> None:
        """Says how far it is, with nothing new: so that everyone knows of a new epoch or attempt."""
        self._append(self._emitted + 1, self._emitted, EmissionBatch(NOTHING, {}))

    def save_if_due(self) -> None:
        if (self._clock() - self._saved_at) * 1000 >= self.config.limits.manifest_interval_ms:
            self.save()

    def save(self) -> None:
        """Writes the manifest: diffs first, then state, then the rename that makes them count."""
        self._saved_at = self._clock()
        if self.applied == self._saved_offset:
            return
        self._diffs.sync()
        leases = self._leases.save(self._state)
        saved = self._dataflow.save(self._state)
        self._number += 1
        manifest = Manifest(
            self._number,
            self.applied,
            self._position,
            self.config.grid.cells,
            saved.document,
            (*saved.files, *leases),
            tuple(leases),
            self._ended_boot,
        )
        with self._diffs.fence():
            write_manifest(self._directory, manifest)
        self._diffs.truncate(self._diffs.newest(self.config.limits.history_bytes_max))
        self._saved_offset = self.applied
        _log.debug("cell %d saved manifest %d at offset %d", self.config.number, self._number, self.applied)

    def close(self) -> None:
        self._reader.close()
        self._diffs.close()

    # — resume

    def _restore(self) -> Dataflow:
        partition = (self.config.grid.partition(self.config.number)[0], self.config.grid.queries)
        for manifest in read_manifests(self._directory):
            try:
                state = Dataflow.load(self._state, manifest.state, partition=partition, limits=self.config.limits)
                self._leases = Leases.load(self._state, manifest.leases)
            except Corrupt as error:
                _log.error("manifest %d is passed over: %s", manifest.number, error)
                continue
            self._number, self.applied, self._position = manifest.number, manifest.offset, manifest.position
            self._ended_boot = manifest.ended
            return state
        return Dataflow(partition=partition, limits=self.config.limits)

    def _last_emitted(self) -> int:
        last = self._diffs.last()
        return self.applied if last is None else max(self.applied, decode_report(last.payload).to)

    def _budget(self) -> int:
        """While replaying what was emitted before, no step goes past the last diff record: its cut is kept. Nor past
        the place where something is to end."""
        cuts = (self._emitted, *(one.after for one in self._expulsions))
        ahead = (cut - self._reader.offset + 1 for cut in cuts)
        return min((self._pace.records_max, *(records for records in ahead if records > 0)))

    # — one step

    def _take(self, records: list[Record]) -> None:
        """Parts of a transaction whose last one is still to come are read again after a crash: they do not count."""
        first = self.applied + 1
        self._expel(first)
        for framed, group in groupby(records, key=lambda record: record.kind is Kind.FRAME):
            if framed:
                self._frames(list(group))
            else:
                for record in group:
                    self._control(record)
        self.applied = self._pending.applied(records[-1].offset)
        emitted = self._emitted_now()
        if self.applied > self._emitted:
            self._append(first, self.applied, emitted)
            self._emitted = self.applied
        self._positions.clear()
        self._asked.clear()
        if self._ends >= _TRIM_WINDOWS:
            self._ends = 0
            trim_memory()

    def _expel(self, first: int) -> None:
        """Ends what the cell cannot get past, as the log says: just before the records it failed at."""
        due = [one for one in self._expulsions if one.after == self.applied]
        for one in due:
            _log.error("%s ends in cell %d: %s", one.name, one.cell, one.reason)
            self._dataflow.expel(one.name, tx_of(first, 0), _told(one))
        self._banned = {one.name: _told(one) for one in due}

    def _position_of(self, tx: int, instance: int) -> int:
        """That of its transaction; a snapshot, which repeats an older tx, is right for when it was asked for."""
        position = self._positions.get(tx)
        return self._asked.get(instance, self._position) if position is None else position

    def _emitted_now(self) -> EmissionBatch:
        emitted = self._dataflow.take()
        if self._strangers:
            emitted = EmissionBatch(Index.together([emitted.index, Index.of(self._strangers)]), emitted.edits)
            self._strangers = []
        return emitted

    def _append(self, first: int, to: int, emitted: EmissionBatch) -> None:
        config = self.config
        report = encode_report(
            (first, to),
            self._position,
            config.number,
            config.epoch,
            config.attempt,
            {tx: self._position_of(tx, instance) for tx, instance in emitted.index.moments()},
            emitted,
        )
        self._diffs.append(Kind.DIFFS, report)

    def _frames(self, records: list[Record]) -> None:
        known = self._dataflow.tables
        for record in records:
            for frame in self._pending.complete(record, known):
                self._pending.add(frame)
                self._place(frame, record.offset)
        deltas = self._pending.take()
        one_by_one = self._is_overburdened(records)
        for part in by_transaction(deltas) if one_by_one else [deltas] if deltas else []:
            with self._placing(certain=one_by_one):
                self._dataflow.step(part)

    def _is_overburdened(self, records: list[Record]) -> bool:
        """Whether an attempt before this one was over budget at some of these."""
        after = self._overburdened
        near = after is not None and records[0].offset <= after + self.config.limits.step_records_max
        return near and after is not None and records[-1].offset > after

    @contextmanager
    def _placing(self, *, certain: bool = True) -> Iterator[None]:
        """Whoever counts failures must know where in the log they happened, and whether work over budget could be done
        in smaller steps."""
        try:
            yield
        except Poisoned as error:
            error.after, error.certain = self.applied, certain and error.over_budget
            raise

    def _place(self, frame: Frame, offset: int) -> None:
        """Remembers the source's positions of the transactions in this step, and the last one."""
        for ordinal, position in enumerate(frame.positions):
            self._positions[tx_of(offset, ordinal)] = position
        self._position = frame.positions[-1]

    def _control(self, record: Record) -> None:
        self._pending.parts.clear()  # parts are appended together: what stands between them cut them off
        self._positions[tx_of(record.offset, 0)] = self._position
        _log.debug("cell %d reads %s at offset %d", self.config.number, record.kind.name, record.offset)
        if record.kind in (Kind.REPORT, Kind.LEASE, Kind.SNAPSHOT, Kind.DIFFS):
            return
        match decode_control(record):
            case Capture(table):
                self._define(table)
            case Activate() as activate:
                self._activate(activate, record.offset)
            case Subscribe() as subscribe:
                self._subscribe(subscribe, record.offset)
            case Unsubscribe(instance, reason, lost):
                self._dataflow.answers.close(instance, tx_of(record.offset, 0), reason, _ending(lost))
                self._end(instance)
            case Answer(instance, position, rows, parts, renamed):
                self._positions[tx_of(record.offset, 0)] = position
                self._dataflow.answers.answer(instance, rows, tx_of(record.offset, 0), position, parts, renamed)
            case Schema() as schema:
                self._reshape(schema, tx_of(record.offset, 0))
            case Tick(boot):
                self._expire(boot)
            case Release(template):
                self._release(template)
            case EndEpoch(boot):
                self._ended_boot = boot
            case Expel():
                pass  # read when the cell was made: it counts at an earlier record
            case never:
                assert_never(never)

    def _define(self, table: Table) -> None:
        if table.name not in self._dataflow.tables:
            self._dataflow.define(table)

    def _reshape(self, schema: Schema, tx: int) -> None:
        """Relations that cannot follow a table's new types begin again, planned with these."""
        if schema.after is None:
            self._dataflow.drop(schema.table, tx, schema.reason, _ending(schema.lost))
            return
        for relation in self._dataflow.reshaped(schema.after):
            self._dataflow.drop(relation, tx, schema.reason, "lost")
        self._dataflow.define(schema.after)

    def _activate(self, activate: Activate, here: int) -> None:
        for hydration in activate.tables:
            self._define(hydration.table)
        template = template_from_sql(activate.sql, self._dataflow.tables)
        if self._dataflow.knows(template.id):
            return
        if template.id in self._banned:
            return
        with self._placing(), blaming(template.id):
            side = self._built(activate, template, here) if self._dataflow.needs_rows(template) else None
            if side is not None:
                self._dataflow.adopt(template, side)
            else:
                self._dataflow.activate(template, self._rows(activate, template, here))

    def _rows(self, activate: Activate, template: Template, here: int) -> Rows | None:
        if not self._dataflow.needs_rows(template):
            return None
        return rows_at(self.config.layout, activate, self._dataflow.tables, here)

    def _built(self, activate: Activate, template: Template, here: int) -> Dataflow | None:
        """What was built beside us, taken to this record. None where it does not fit the tables as we know them, or
        cannot be read: then there are the rows."""
        layout, partition = self.config.layout, self._dataflow.partition
        built = activate.built_for(partition[0])
        if built is None:
            return None
        try:
            side = Side.loaded(built, layout, self.config.limits, partition, self._dataflow.counters)
            if any(side.flow.tables[name] != self._dataflow.tables[name] for name in template.tables):
                return None
            taken_over(built, layout, self._state)
        except Corrupt as error:
            _log.error("%s is built anew: %s", template.id, error)
            return None
        side.follow(here)
        return side.flow

    def _subscribe(self, subscribe: Subscribe, offset: int) -> None:
        if subscribe.answered:
            self._answered(subscribe)
            return
        if not self._dataflow.knows(subscribe.template):
            self._refuse(subscribe, offset)
            return
        instance = Instance(subscribe.instance, subscribe.template, subscribe.values, subscribe.limit, subscribe.offset)
        with self._placing(), blaming(instance.template):
            subscribed = self._dataflow.subscribe(instance, tx_of(offset, 0))
        if subscribed:
            self._leases.grant(instance.id, subscribe.boot)
            self._asked.setdefault(instance.id, self._position)

    def _answered(self, subscribe: Subscribe) -> None:
        if home(subscribe.template, self.config.grid.queries) == self.config.grid.partition(self.config.number)[0]:
            window = subscribe.template, subscribe.ordered, subscribe.keys
            self._dataflow.answers.subscribe(subscribe.instance, *window)
            self._leases.grant(subscribe.instance, subscribe.boot)
            known = self._dataflow.answers.answered_at(subscribe.instance)
            self._asked.setdefault(subscribe.instance, self._position if known is None else known)

    def _refuse(self, subscribe: Subscribe, offset: int) -> None:
        """Its table went away between the asking and this record. No cell owns it: the first one answers."""
        banned = self._banned.get(subscribe.template)
        if self.config.number == 0 or banned is not None:
            entry = Entry(subscribe.instance, tx_of(offset, 0), 0, "closed", subscribe.template, banned or _GONE)
            self._strangers.append(entry)

    def _expire(self, boot: int) -> None:
        for instance in self._leases.before(boot):
            self._end(instance)

    def _release(self, template: str) -> None:
        for instance in self._dataflow.release(template):
            self._leases.end(instance)

    def _end(self, instance: int) -> None:
        self._ends += 1
        self._leases.end(instance)
        self._dataflow.unsubscribe(instance)
        self._dataflow.answers.unsubscribe(instance)


def _told(expel: Expel) -> str:
    return expel.reason if expel.over_budget else f"{_MISTAKE}: {expel.reason}"


def _ending(lost: bool) -> Ending:
    """How a window ends: for good, or to begin anew."""
    return "lost" if lost else "closed"
