"""The cell: wait, step, append diffs, manifest, resume. The same loop runs in a thread and in a Spark task.

It holds no query logic (that is the engine's) and decides nothing by clock, load or luck: what it emits is a function
of the log. The clock tells it only when to write a manifest, and where to end a step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.index import NOTHING, Index
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.rows.delta import by_transaction
from headwater.fs.permissions import make_directory
from headwater.fs.sync import pending_syncs
from headwater.log.record import Kind, Record, tx_of
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.errors import Corrupt
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.cell.control_records import ControlRecords
from headwater.pipeline.cell.cost_meter import CostMeter
from headwater.pipeline.cell.expulsion import expulsions, overburdened, placed
from headwater.pipeline.cell.manifest import Manifest, read_manifests
from headwater.pipeline.cell.manifest_writer import ManifestWriter
from headwater.pipeline.cell.pace import Pace
from headwater.pipeline.cell.positions import StepPositions
from headwater.pipeline.cell.window_leases import Leases
from headwater.pipeline.records.control import Expel
from headwater.pipeline.records.diff_record import decode_report, encode_report
from headwater.pipeline.records.pending_frames import PendingFrames
from headwater.runtime.release_memory import trim_memory

_DIFF_SEGMENTS = 8
_TRIM_WINDOWS = 1000  # so many that ended; then what they held goes back to the system
_MISTAKE = "Headwater failed at this query because of a bug; please report it"
_log = logging.getLogger("headwater.cell")


class Cell:
    """`applied` is the last log offset whose effect is in the state; parts not yet complete do not count."""

    def __init__(
        self, config: CellConfig, clock: Callable[[], float] = time.monotonic, *, saves_beside: bool = False
    ) -> None:
        """`saves_beside`: it goes on while a manifest is written."""
        self.config, self._clock, self._saves_beside = config, clock, saves_beside
        self._directory = config.layout.cell(config.number)
        self._state = config.layout.state(config.number)
        make_directory(self._state)
        segments = replace(
            config.limits,
            segment_bytes_max=config.limits.history_bytes_max // _DIFF_SEGMENTS,
            record_bytes_max=config.limits.report_bytes_max,
        )
        self._diffs = SegmentWriter.fenced(config.layout.diffs(config.number), limits=segments, durable=False)
        self._manifests = ManifestWriter(self._directory, self._diffs, config.limits.history_bytes_max)
        self._dataflow, self._leases, found = self._restored()
        self._meter = CostMeter()
        self._dataflow.metered(self._meter.of)
        self._number, self.applied = (0, 0) if found is None else (found.number, found.offset)
        self._positions = StepPositions(0 if found is None else found.position)
        ended = 0 if found is None else found.ended
        self._controls = ControlRecords(config, self._dataflow, self._leases, self._positions, ended)
        self._expulsions = expulsions(config.layout, config.number, self.applied)
        self._overburdened = overburdened(config.layout, config.number)
        self._emitted = self._last_emitted()
        self._reader = SegmentReader(config.layout.log, self.applied + 1)
        self._pending = PendingFrames()
        self._pace = Pace(config.limits)
        self._saved_at, self._saved_offset = clock(), self.applied

    @property
    def ended(self) -> bool:
        """An end record of this boot was read."""
        return self._controls.ended_boot >= self.config.boot

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
        """Now and then. The disk is waited for by another thread, where the cell may go on meanwhile."""
        if (self._clock() - self._saved_at) * 1000 >= self.config.limits.manifest_interval_ms:
            if not self._manifests.busy:
                self._begin_save()
            if not self._saves_beside:
                self._manifests.wait()

    def save(self) -> None:
        """What was taken so far is durable when it returns."""
        self._manifests.wait()
        self._begin_save()
        self._manifests.wait()

    def _begin_save(self) -> None:
        """Writes the manifest: diffs first, then state, then the rename that makes them count."""
        self._saved_at = self._clock()
        if self.applied == self._saved_offset:
            return
        with pending_syncs() as files:
            leases = self._leases.save(self._state)
            saved = self._dataflow.save(self._state)
        self._number += 1
        manifest = Manifest(
            self._number,
            self.applied,
            self._positions.last,
            self.config.grid.cells,
            saved.document,
            (*saved.files, *leases),
            tuple(leases),
            self._controls.ended_boot,
        )
        self._manifests.begin(manifest, files)
        self._saved_offset = self.applied
        _log.debug("cell %d saved manifest %d at offset %d", self.config.number, self._number, self.applied)

    def close(self) -> None:
        try:
            self._manifests.wait()
        except Exception:
            _log.warning("cell %d: the last manifest was not written", self.config.number, exc_info=True)
        self._reader.close()
        self._diffs.close()

    # — resume

    def _restored(self) -> tuple[Dataflow, Leases, Manifest | None]:
        """The state as of the newest manifest that can be loaded, and that manifest."""
        partition = (self.config.grid.partition(self.config.number)[0], self.config.grid.queries)
        for manifest in read_manifests(self._directory):
            try:
                state = Dataflow.load(self._state, manifest.state, partition=partition, limits=self.config.limits)
                leases = Leases.load(self._state, manifest.leases)
            except Corrupt as error:
                _log.error("skipping manifest %d: %s", manifest.number, error)
                continue
            return state, leases, manifest
        return Dataflow(partition=partition, limits=self.config.limits), Leases(), None

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
        if any(record.kind is Kind.ACTIVATE for record in records):
            self._manifests.wait()  # what was built for a template may be files that are swept just now
        self._expel(first)
        for framed, group in groupby(records, key=lambda record: record.kind is Kind.FRAME):
            if framed:
                self._frames(list(group))
            else:
                for record in group:
                    self._pending.parts.clear()  # parts are appended together: what stands between them cut them off
                    self._controls.apply(record, self.applied)
        self.applied = self._pending.applied(records[-1].offset)
        emitted = self._emitted_now()
        if self.applied > self._emitted:
            self._append(first, self.applied, emitted)
            self._emitted = self.applied
        self._positions.clear()
        if self._controls.ends >= _TRIM_WINDOWS:
            self._controls.ends = 0
            trim_memory()

    def _expel(self, first: int) -> None:
        """Ends what the cell cannot get past, as the log says: just before the records it failed at."""
        due = [one for one in self._expulsions if one.after == self.applied]
        for one in due:
            _log.error("ending %s in cell %d: %s", one.name, one.cell, one.reason)
            self._dataflow.expel(one.name, tx_of(first, 0), _told(one))
        self._controls.banned = {one.name: _told(one) for one in due}

    def _emitted_now(self) -> EmissionBatch:
        emitted = self._dataflow.take()
        if refused := self._controls.take_refused():
            emitted = EmissionBatch(Index.together([emitted.index, Index.of(refused)]), emitted.edits)
        return emitted

    def _append(self, first: int, to: int, emitted: EmissionBatch) -> None:
        config = self.config
        report = encode_report(
            (first, to),
            self._positions.last,
            config.number,
            config.epoch,
            config.attempt,
            {tx: self._positions.of(tx, instance) for tx, instance in emitted.index.moments()},
            emitted,
            self._costs(),
        )
        self._diffs.append(Kind.DIFFS, report)

    def _costs(self) -> dict[str, tuple[int, ...]]:
        """Of relations that cost much since they were told of; with the estimate by which they were planned, if it was
        wrong by so much that another plan may be better."""
        limits = self.config.limits
        costs: dict[str, tuple[int, ...]] = {}
        for relation, spent in self._meter.due().items():
            worst = self._dataflow.misestimate(relation)
            is_wrong = worst is not None and worst.is_wrong(limits.replan_times_min, limits.replan_rows_min)
            costs[relation] = (*spent, worst.expected, worst.counted) if worst is not None and is_wrong else spent
        return costs

    def _frames(self, records: list[Record]) -> None:
        known = self._dataflow.tables
        for record in records:
            for frame in self._pending.complete(record, known):
                self._pending.add(frame)
                self._positions.transactions(record.offset, frame.positions)
        deltas = self._pending.take()
        one_by_one = self._is_overburdened(records)
        for part in by_transaction(deltas) if one_by_one else [deltas] if deltas else []:
            with placed(self.applied, certain=one_by_one):
                self._dataflow.step(part)

    def _is_overburdened(self, records: list[Record]) -> bool:
        """Whether an attempt before this one was over budget at some of these."""
        after = self._overburdened
        near = after is not None and records[0].offset <= after + self.config.limits.step_records_max
        return near and after is not None and records[-1].offset > after


def _told(expel: Expel) -> str:
    return expel.reason if expel.over_budget else f"{_MISTAKE}: {expel.reason}"
