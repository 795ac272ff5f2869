"""The hub's thread: reads what every cell appends to its diffs, then lets the sessions advance.

Diffs that cannot be read are replaced by snapshots. It holds the hub's lock during a round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from headwater.gateway.hub.alignment import Alignment
from headwater.gateway.hub.cell_progress import CellProgress, GridProgress
from headwater.gateway.hub.delivery import Delivery
from headwater.gateway.hub.large_results import LargeResults
from headwater.gateway.hub.open_sessions import OpenSessions
from headwater.gateway.hub.windows import Windows
from headwater.model.errors import LogError
from headwater.pipeline.pipeline import Pipeline
from headwater.pipeline.records.diff_record import Event, Report, decode_report, events_of
from headwater.runtime.vital_thread import VitalThread

_WAIT_S = 0.25
_log = logging.getLogger("headwater.hub")


class DiffReader:
    """`rounds` is the hub's lock, notified with every round."""

    def __init__(
        self,
        pipeline: Pipeline,
        rounds: threading.Condition,
        cells: GridProgress,
        windows: Windows,
        sessions: OpenSessions,
        delivery: Delivery,
        alignment: Alignment,
    ) -> None:
        self._pipeline, self._rounds = pipeline, rounds
        self._cells, self._windows, self._sessions = cells, windows, sessions
        self._delivery, self._alignment = delivery, alignment
        self._large = LargeResults(windows, self._read_later)
        self._broken: set[int] = set()
        self._stop = threading.Event()
        self.thread = VitalThread("headwater-hub", self._run)

    def start(self) -> None:
        self.thread.start()

    def release(self) -> None:
        """It is about to stop: its end is no failure."""
        self.thread.release()
        self._stop.set()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.thread.join()
        self._large.stop()
        self._cells.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.round()
                self._cells.wait(_WAIT_S)  # not at all where more is there already
            except Exception:
                _log.exception("delivering emissions failed; retrying")
                self._stop.wait(_WAIT_S)

    def catch_up(self) -> None:
        """Reads what earlier lives of this server left in the diff partitions: the history that clients resume from."""
        for number, cell in enumerate(self._cells):
            try:
                while records := cell.reader.poll():
                    for record in records:
                        self._recall(cell, decode_report(record.payload))
            except LogError as error:
                _log.error(
                    "the diffs of cell %d are damaged: they were set aside, and the cell writes new ones: %s",
                    number,
                    error,
                )
                cell.reader.close()
                self._pipeline.layout.set_aside_diffs(number)
                self._cells.reopen(number)

    def _recall(self, cell: CellProgress, report: Report) -> None:
        for event in events_of(report, self._pipeline.gen, self._windows.names):
            self._windows.opened(event.instance)
        self._take(cell, report)

    def round(self) -> bool:
        """One pass over the cells: take what they appended, then let each session move as far as it may."""
        with self._rounds:
            taken = sum(self._read(number, cell) for number, cell in enumerate(self._cells))
            self._alignment.advance()
            self._windows.expire()
            self._rounds.notify_all()
            for number in self._pipeline.runner.broken.keys() - self._broken:
                self._break(number, self._pipeline.runner.broken[number])
        if taken:
            self._cells.notify()
        return taken > 0

    def _read(self, number: int, cell: CellProgress) -> int:
        """Diffs that cannot be read, or were cleared away before we read them, are made up for by snapshots."""
        try:
            records = cell.reader.poll()
        except LogError as error:
            _log.error("could not read the diffs of cell %d; sending fresh results: %s", number, error)
            cell.reader.skip()
            self._renew_cell(number)
            return 1
        for record in records:
            try:
                report = decode_report(record.payload)
                self._take(cell, report)
                self._pipeline.mover.spent(report.costs)
            except Exception:
                _log.exception(
                    "could not read the diffs of cell %d at offset %d; sending fresh results", number, record.offset
                )
                self._renew_cell(number)
        return len(records)

    def _renew_cell(self, number: int) -> None:
        """Nothing we hold of this cell can be trusted any more; of windows nobody looks at, we forget the cell."""
        lost = self._windows.of_cell(number)
        for window in lost:
            window.clear()
        self._delivery.resync("overflow", *lost)

    def _break(self, number: int, reason: str) -> None:
        """A cell that can never go on ends what depended on it, and says why; nobody joins it any more."""
        self._broken.add(number)
        for session in list(self._sessions.all):
            for subscription in [one for one in session.subscriptions.values() if one.cell == number]:
                self._delivery.close(subscription, reason)

    def _take(self, cell: CellProgress, report: Report) -> None:
        defer = self._large.defer if self.thread.is_alive() else None
        for event in events_of(report, self._pipeline.gen, self._windows.names, defer):
            self._event(event)
        cell.to, cell.position = max(cell.to, report.to), max(cell.position, report.position)
        cell.report = report
        cell.steps += 1
        cell.lag_ms = max(0.0, (time.time() - report.at) * 1000)

    def _event(self, event: Event) -> None:
        if not self._large.holds(event):
            self._delivery.event(event)

    def _read_later(self, instances: Sequence[int], events: list[Event]) -> None:
        """Large results were read by another thread, which calls this."""
        with self._rounds:
            for event in (*events, *self._large.release(instances)):
                self._event(event)
            if not events:
                lost = (self._windows.find(each) for each in instances)
                self._delivery.resync("overflow", *(window for window in lost if window is not None))
            for session in list(self._sessions.stirred):
                self._alignment.move(session)
