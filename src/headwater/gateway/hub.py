"""The hub: reads the diff partitions, keeps windows as caches, aligns cells and hands every session its emissions.

One thread reads. Whatever it hands to a session goes out in commit order, up to the position that all cells of that
session have reached, and then a progress: so all queries of a session move together (law 8).
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from headwater.gateway.window import Resume, Window
from headwater.log.record import Record, offset_of
from headwater.log.segment import OLDEST, SegmentReader
from headwater.model.emission import Emission
from headwater.model.errors import HeadwaterError, LimitExceeded, LogError, Resync
from headwater.pipeline.pipeline import Pipeline
from headwater.pipeline.report import Event, Report, decode_report, events_of
from headwater.plan.planner import Planned

_WAIT_S = 0.25
_QUIET_PROGRESS_S = 0.05
_LINGER_S = 5.0
_ORPHANED_S = 60.0
_log = logging.getLogger("headwater.hub")


class Sink(Protocol):
    """Where a session's messages go. Called by the hub's thread; must not block."""

    def emit(self, subscription: str, emission: Emission) -> None: ...

    def ready(self, subscription: str, position: int) -> None: ...

    def resync(self, subscription: str, reason: str) -> None: ...

    def failed(self, subscription: str, reason: str) -> None: ...

    def closed(self, subscription: str, reason: str) -> None: ...

    def progress(self, position: int) -> None:
        """Everything up to this position has been handed over; now it counts."""


@dataclass(slots=True, eq=False)
class Subscription:
    id: str
    session: Session
    planned: Planned
    cell: int
    resume: Resume | None = None
    started: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """`inbox` holds what has come from its cells and is not aligned yet."""

    sink: Sink
    eager: bool = False
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    cells: Counter[int] = field(default_factory=Counter)
    inbox: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)
    position: int = -1


@dataclass(slots=True)
class CellProgress:
    """How far a cell is, and the last thing it said of itself."""

    reader: SegmentReader
    to: int = -1
    position: int = 0
    report: Report | None = None
    steps: int = 0
    lag_ms: float = 0.0


class Hub:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, self._limits = pipeline, pipeline.limits
        self._lock = threading.RLock()
        self._windows: dict[int, Window] = {}
        self._by_instance: dict[int, list[Subscription]] = {}
        self._idle: dict[int, float] = {}
        self._sessions: set[Session] = set()
        self.cells = [CellProgress(SegmentReader(pipeline.layout.diffs(n))) for n in range(pipeline.grid.cells)]
        self.subscriptions = 0
        self._quiet_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headwater-hub", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for cell in self.cells:
            cell.reader.close()

    # — sessions

    def open(self, sink: Sink, *, eager: bool = False) -> Session:
        """A new session; an eager one hears of every position at once, others of quiet ones now and then."""
        session = Session(sink, eager)
        with self._lock:
            self._sessions.add(session)
        return session

    def close(self, session: Session) -> None:
        with self._lock:
            self._sessions.discard(session)
            for id in list(session.subscriptions):
                self.unsubscribe(session, id)

    def subscribe(self, session: Session, id: str, planned: Planned, resume: Resume | None = None) -> None:
        """Joins the window, or makes it; blocks while a new template's table is read."""
        instance = planned.instance.id
        with self._lock:
            if self.subscriptions >= self._limits.subscriptions_max:
                raise LimitExceeded(f"expected at most {self._limits.subscriptions_max} subscriptions")
            subscription = Subscription(id, session, planned, self._pipeline.cell_of(planned), resume)
            session.subscriptions[id] = subscription
            self.subscriptions += 1
            session.cells[subscription.cell] += 1
            self._idle.pop(instance, None)
            self._by_instance.setdefault(instance, []).append(subscription)
            window = self._windows.setdefault(instance, Window(instance, self._pipeline.gen))
            if window.state is not None:
                self._begin(subscription, window)
                self._flush(session)
                return
            first = len(self._by_instance[instance]) == 1
        if first:
            self._ask(session, id, planned)

    def _ask(self, session: Session, id: str, planned: Planned) -> None:
        try:
            self._pipeline.subscribe(planned)
        except HeadwaterError as error:
            with self._lock:
                self.unsubscribe(session, id, forget=True)
                for other in list(self._by_instance.get(planned.instance.id, ())):
                    self._closer(other, error.message)()
            raise

    def unsubscribe(self, session: Session, id: str, *, forget: bool = False) -> None:
        """The last one to leave lets the window linger a while, for whoever reconnects."""
        with self._lock:
            subscription = session.subscriptions.pop(id, None)
            if subscription is None:
                return
            self.subscriptions -= 1
            session.cells[subscription.cell] -= 1
            session.cells += Counter()
            instance = subscription.planned.instance.id
            others = self._by_instance.get(instance, [])
            if subscription in others:
                others.remove(subscription)
            if not others:
                self._by_instance.pop(instance, None)
                self._idle[instance] = time.monotonic() + (0.0 if forget else _LINGER_S)

    @property
    def windows(self) -> int:
        return len(self._by_instance)

    # — the reading thread

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._round():
                self._wait()

    def _wait(self) -> None:
        if len(self.cells) == 1:
            self.cells[0].reader.wait(_WAIT_S)
        else:
            select.select([cell.reader.fileno() for cell in self.cells], [], [], _WAIT_S)

    def catch_up(self) -> None:
        """Reads what earlier lives of this server left in the diff partitions: the history that clients resume from."""
        for cell in self.cells:
            while records := cell.reader.poll():
                for record in records:
                    self._take(cell, decode_report(record.payload))
        for window in self._windows.values():
            window.state = None
            self._idle[window.instance] = time.monotonic() + _ORPHANED_S

    def _round(self) -> bool:
        """One pass over the cells: take what they appended, then let each session move as far as it may."""
        with self._lock:
            taken = 0
            for cell in self.cells:
                for record in self._poll(cell):
                    self._take(cell, decode_report(record.payload))
                    taken += 1
            self._advance(taken > 0)
            self._expire()
        return taken > 0

    def _poll(self, cell: CellProgress) -> list[Record]:
        """Diffs that were cleared away before we read them are made up for by snapshots."""
        try:
            return cell.reader.poll()
        except LogError as error:
            _log.error("reading diffs: %s", error)
            cell.reader.seek(OLDEST)
            for instance in [one for one, window in self._windows.items() if window.state is not None]:
                self._windows[instance].state = None
                self._resync(self._windows[instance], "overflow")
            return []

    def _take(self, cell: CellProgress, report: Report) -> None:
        for event in events_of(report, self._pipeline.gen, self._pipeline.names):
            self._event(event)
        cell.to, cell.position = max(cell.to, report.to), max(cell.position, report.position)
        cell.report = report
        cell.steps += 1
        cell.lag_ms = max(0.0, (time.time() - report.at) * 1000)

    def _event(self, event: Event) -> None:
        window = self._windows.setdefault(event.instance, Window(event.instance, self._pipeline.gen))
        if event.emission is None:
            self._ended(window, event)
            return
        try:
            news = window.take(event.emission, self._limits.history_emissions_max)
        except Resync as gap:
            self._resync(window, gap.message)
            return
        for subscription in self._by_instance.get(event.instance, ()):
            if subscription.started and news:
                self._put(subscription, event.tx, event.emission)
            elif not subscription.started and window.state is not None:
                self._begin(subscription, window)

    def _begin(self, subscription: Subscription, window: Window) -> None:
        """The first emissions of a subscription: what it missed, or the whole result."""
        assert window.state is not None
        subscription.started = True
        sink, position = subscription.session.sink, window.state.position
        for emission in window.opening(subscription.resume):
            self._put(subscription, emission.seq, emission)
        inbox = subscription.session.inbox
        inbox.append((window.state.seq, lambda: sink.ready(subscription.id, position)))

    def _put(self, subscription: Subscription, tx: int, emission: Emission) -> None:
        sink = subscription.session.sink
        subscription.session.inbox.append((tx, lambda: sink.emit(subscription.id, emission)))

    def _resync(self, window: Window, reason: str) -> None:
        """The chain broke on our side: ask the cell for a snapshot; subscribers keep what they have until it comes."""
        subscriptions = self._by_instance.get(window.instance, [])
        for subscription in subscriptions:
            subscription.started, subscription.resume = False, None
            subscription.session.sink.resync(subscription.id, reason)
        if subscriptions:
            self._pipeline.subscribe(subscriptions[0].planned)

    def _ended(self, window: Window, event: Event) -> None:
        for subscription in list(self._by_instance.get(event.instance, ())):
            end = self._closer if event.kind == "closed" else _failing
            subscription.session.inbox.append((event.tx, end(subscription, event.reason)))
        if event.kind == "closed":
            self._windows.pop(window.instance, None)

    def _closer(self, subscription: Subscription, reason: str) -> Callable[[], None]:
        def close() -> None:
            self.unsubscribe(subscription.session, subscription.id, forget=True)
            self._idle.pop(subscription.planned.instance.id, None)
            subscription.session.sink.closed(subscription.id, reason)

        return close

    # — alignment

    def _advance(self, moved: bool) -> None:
        quiet = moved or time.monotonic() >= self._quiet_at
        due = time.monotonic() >= self._quiet_at
        for session in list(self._sessions):
            if session.inbox or (session.eager and moved) or (due and quiet):
                self._flush(session)
        if due:
            self._quiet_at = time.monotonic() + _QUIET_PROGRESS_S

    def _flush(self, session: Session) -> None:
        """Hands over what every cell of the session has passed, in commit order, then the position that is complete."""
        aligned, position = self._aligned(session.cells)
        ready = sorted((item for item in session.inbox if offset_of(item[0]) <= aligned), key=lambda item: item[0])
        if ready:
            session.inbox = deque(item for item in session.inbox if offset_of(item[0]) > aligned)
            for _, deliver in ready:
                deliver()
        if ready or position > session.position:
            session.position = position
            session.sink.progress(position)

    def _aligned(self, used: Iterable[int]) -> tuple[int, int]:
        cells = [self.cells[number] for number in used] or self.cells
        return min(cell.to for cell in cells), min(cell.position for cell in cells)

    def _expire(self) -> None:
        now = time.monotonic()
        for instance in [one for one, at in self._idle.items() if at <= now]:
            del self._idle[instance]
            self._windows.pop(instance, None)
            self._pipeline.unsubscribe(instance)


def _failing(subscription: Subscription, reason: str) -> Callable[[], None]:
    return lambda: subscription.session.sink.failed(subscription.id, reason)
