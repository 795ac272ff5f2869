"""The hub: reads the diff partitions, keeps windows as caches, aligns cells and hands every session its emissions.

One thread reads. Whatever it hands to a session goes out in commit order, up to the position that all cells of that
session have reached, and then a progress: so all queries of a session move together (law 8).
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headwater.gateway.hub.deadlines import Deadlines
from headwater.gateway.hub.history import Budget
from headwater.gateway.hub.resubscribe import Renewing
from headwater.gateway.hub.session import Due, Joining, Session, Sink, Subscription
from headwater.gateway.hub.window_cache import Resume, Window
from headwater.log.record import offset_of, tx_of
from headwater.log.segment import SegmentReader
from headwater.model.emission import Diff, Emission
from headwater.model.errors import HeadwaterError, LimitExceeded, LogError, Resync
from headwater.pipeline.pipeline import Pipeline
from headwater.pipeline.records.report import Event, Report, decode_report, events_of
from headwater.plan.planner import Planned
from headwater.plan.requery_whole import ASKED
from headwater.protocol.swap import as_swap
from headwater.runtime.release_memory import trim_memory
from headwater.runtime.switch_interval import yielding
from headwater.runtime.vital_thread import VitalThread

_WAIT_S = 0.25
_LINGER_S = 5.0
_SETTLE_S = 0.25  # for a cell that does not come along: then others need not wait for it either
_PATIENCE_S = 60.0  # for who waits for a position; later it is heard of with the heartbeat
_ORPHANED_S = 60.0
_RESULT_THREADS = 2
_TRIM_WINDOWS = 1000  # so many that went; then what they held goes back to the system
_BROKEN_HINT = "the log is damaged: restore it from a backup, or start with a fresh data directory"
_log = logging.getLogger("headwater.hub")


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
        self._ends = threading.Condition(self._lock)  # of windows: notified with every round
        self._windows: dict[int, Window] = {}
        self._by_instance: dict[int, dict[Subscription, None]] = {}
        self._idle: Deadlines[int] = Deadlines()
        self._budget = Budget(pipeline.limits.history_bytes_max)
        self._sessions: set[Session] = set()
        self._eager: set[Session] = set()
        self._stirred: set[Session] = set()
        self._awaiting: set[Session] = set()
        self._heartbeats: Deadlines[Session] = Deadlines()
        self.cells = [CellProgress(SegmentReader(pipeline.layout.diffs(n))) for n in range(pipeline.grid.cells)]
        self._unanswered = False
        self.subscriptions = self.sessions_moved = self._expired = 0
        self._broken: set[int] = set()
        self._renewing = Renewing(self._begin_again, pipeline.is_reachable, self._is_wanted, self._refused)
        self._deferred: dict[int, list[Event]] = {}
        self._results = ThreadPoolExecutor(_RESULT_THREADS, "headwater-results")
        self._moved = threading.Condition()
        self._stuck_at: int | None = None
        self._stop = threading.Event()
        self._thread = VitalThread("headwater-hub", self._run)
        self.threads = (self._thread, self._renewing.thread)

    def start(self) -> None:
        for instance in self._windows:  # of earlier lives: their clients could not come back before now
            self._idle.set(instance, time.monotonic() + _ORPHANED_S)
        self._pipeline.settle = self.settle
        self._renewing.start()
        self._thread.start()

    def stop(self) -> None:
        self._thread.release()
        self._stop.set()
        self._renewing.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._results.shutdown()
        for cell in self.cells:
            cell.reader.close()

    # — sessions

    def open(self, sink: Sink, *, eager: bool = False) -> Session:
        """A new session. An eager one hears of every position at once, others of quiet ones with the heartbeat."""
        session = Session(sink, eager)
        with self._lock:
            self._sessions.add(session)
            if eager:
                self._eager.add(session)
            else:
                self._heartbeats.set(session, time.monotonic() + self._heartbeat_s)
        return session

    @property
    def _heartbeat_s(self) -> float:
        return self._limits.heartbeat_ms / 1000

    def await_position(self, session: Session, position: int) -> None:
        """Somebody waits for the session to reach it: it is told as soon as it has."""
        with self._lock:
            if session in self._sessions:
                session.awaited = max(position, session.awaited or 0)
                session.patience_s = time.monotonic() + _PATIENCE_S
                self._awaiting.add(session)
                self._answer(session)

    def close(self, session: Session) -> None:
        with self._lock:
            for each in (self._sessions, self._eager, self._stirred, self._awaiting):
                each.discard(session)
            self._heartbeats.drop(session)
            for id in list(session.subscriptions):
                self.unsubscribe(session, id)

    def prepare(self, session: Session, planned: Planned) -> Planned:
        """The plan to subscribe with. Raises where `subscribe` would; blocks while a new template's table is read."""
        with self._lock:
            self._let_end([planned])  # before it is activated again, which would hide that it ends
            self._check(session, self._pipeline.cell_of(planned))
        return self._pipeline.prepare(planned)

    def subscribe(self, session: Session, id: str, planned: Planned, resume: Resume | None = None) -> None:
        """Joins the window, or makes it; blocks while a new template's table is read."""
        [refused] = self.subscribe_all([Joining(session, id, planned, resume)])
        if refused is not None:
            raise refused

    def subscribe_all(self, joining: Sequence[Joining]) -> list[HeadwaterError | None]:
        """As `subscribe`, for many: those who are the first at their window ask for it together. Why not, of each."""
        refused: list[HeadwaterError | None] = [None] * len(joining)
        first: dict[int, Subscription] = {}
        with self._lock:
            self._let_end([one.planned for one in joining])
            for number, one in enumerate(joining):
                try:
                    subscription = self._joined(one)
                except HeadwaterError as error:
                    refused[number] = error
                    continue
                if subscription is not None:
                    first[number] = subscription
            for session in {one.session for one in joining}:
                self._flush(session)
        failed = self._ask(list(first.values())) if first else None
        return [failed or before if number in first else before for number, before in enumerate(refused)]

    def _let_end(self, planned: Sequence[Planned]) -> None:
        """A window whose end is logged goes before anybody joins it: who comes now is none of those it ends for."""

        def is_over() -> bool:
            return not any(self._is_shown(one) and self._pipeline.is_ending(one) for one in planned)

        if not is_over() and threading.current_thread() is not self._thread:
            self._ends.wait_for(is_over, self._limits.capture_ms_max / 1000)

    @property
    def _next_tx(self) -> int:
        """No earlier than that of what is logged before now, no later than that of what is logged next."""
        return tx_of(self._pipeline.log_offset, 0)

    def _is_shown(self, planned: Planned) -> bool:
        """It was asked for in this life, and has begun."""
        window = self._windows.get(planned.instance.id)
        return window is not None and window.asked and window.state is not None

    def _joined(self, joining: Joining) -> Subscription | None:
        """The subscription, where nobody has asked for its window yet."""
        session, planned = joining.session, joining.planned
        cell, instance = self._pipeline.cell_of(planned), planned.instance.id
        self._check(session, cell)
        subscription = Subscription(joining.id, session, planned, cell, joining.resume)
        self._join(subscription)
        window = self._windows.get(instance) or self._windows.setdefault(instance, Window(instance, self._pipeline.gen))
        self._show(subscription, window)
        return None if window.ask(self._next_tx) else subscription

    def _check(self, session: Session, cell: int) -> None:
        if session not in self._sessions:
            raise HeadwaterError("expected an open session, found one that was closed")
        if self.subscriptions >= self._limits.subscriptions_max:
            raise LimitExceeded(f"expected at most {self._limits.subscriptions_max} subscriptions")
        if (reason := self._pipeline.runner.broken.get(cell)) is not None:
            raise HeadwaterError(reason, hint=_BROKEN_HINT)

    def _join(self, subscription: Subscription) -> None:
        session, instance = subscription.session, subscription.planned.instance.id
        session.subscriptions[subscription.id] = subscription
        if subscription.planned.strategy in ASKED:
            session.answered[subscription.id] = subscription
        session.cells[subscription.cell] += 1
        self.subscriptions += 1
        self._idle.drop(instance)
        self._by_instance.setdefault(instance, {})[subscription] = None

    def _ask(self, first: Sequence[Subscription]) -> HeadwaterError | None:
        """Asks the cells for these windows. Where that fails, whoever joined them meanwhile is told so."""
        try:
            clients = {one.planned.instance.id: id(one.session) for one in first}
            self._pipeline.subscribe(*(one.planned for one in first), clients=clients)
        except HeadwaterError as error:
            with self._lock:
                for one in first:
                    self.unsubscribe(one.session, one.id, forget=True)
                    self._refused(one.planned, error.message)
            return error
        return None

    def _refused(self, planned: Planned, reason: str) -> None:
        """A window that does not begin: whoever waits for it is told why."""
        with self._lock:
            self._forget(planned.instance.id)
            for subscription in list(self._by_instance.get(planned.instance.id, ())):
                self._closer(subscription, reason)()

    def _is_wanted(self, planned: Planned) -> bool:
        return planned.instance.id in self._by_instance

    def unsubscribe(self, session: Session, id: str, *, forget: bool = False) -> None:
        """The last one to leave lets the window linger a while, for whoever reconnects."""
        with self._lock:
            subscription = session.subscriptions.get(id)
            if subscription is None:
                return
            self._leave(subscription)
            instance = subscription.planned.instance.id
            if instance not in self._by_instance:
                self._idle.set(instance, time.monotonic() + (0.0 if forget else _LINGER_S))

    def _leave(self, subscription: Subscription) -> None:
        session, instance = subscription.session, subscription.planned.instance.id
        del session.subscriptions[subscription.id]
        session.answered.pop(subscription.id, None)
        self.subscriptions -= 1
        session.cells[subscription.cell] -= 1
        session.cells += Counter()
        others = self._by_instance[instance]
        del others[subscription]
        if not others:
            del self._by_instance[instance]

    def settle(self) -> bool:
        """Waits until the cells have taken all that is in the log now; not for one that stood still the last time and
        still does."""
        last = self._pipeline.log_offset - 1
        with self._moved:
            if self._slowest == self._stuck_at:
                return False
            settled = self._moved.wait_for(lambda: self._slowest >= last, _SETTLE_S)
            self._stuck_at = None if settled else self._slowest
        return settled

    @property
    def _slowest(self) -> int:
        return min(cell.to for cell in self.cells)

    @property
    def delivered(self) -> int:
        """The log offset up to which every cell's emissions have been handed over."""
        return min(cell.to for cell in self.cells)

    def tell(self, failure: str | None, unanswered: Mapping[int, str]) -> None:
        """Called by the monitor. Without the lock: it must be heard also when the hub itself is what does not move."""
        for session in tuple(self._sessions):
            if session.failure != failure:
                session.failure = failure
                session.sink.health(failure)
        if unanswered or self._unanswered:
            for one in [one for session in tuple(self._sessions) for one in tuple(session.answered.values())]:
                self._tell_unanswered(one, unanswered.get(one.planned.instance.id))
        self._unanswered = bool(unanswered)

    def _tell_unanswered(self, subscription: Subscription, reason: str | None) -> None:
        """What follows an answer, after a time without, is that it is right again."""
        before, subscription.failure = subscription.failure, reason
        if reason is not None and reason != before and subscription.started:
            subscription.session.sink.failed(subscription.id, reason)
        elif reason is None and before is not None:
            subscription.right_through = -1

    @property
    def windows(self) -> int:
        return len(self._by_instance)

    # — the reading thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._round():
                    self._wait()
            except Exception:
                _log.exception("a round of the hub failed; the next one follows")
                self._stop.wait(_WAIT_S)

    def _wait(self) -> None:
        if len(self.cells) == 1:
            self.cells[0].reader.wait(_WAIT_S)
        else:
            select.select([cell.reader.fileno() for cell in self.cells], [], [], _WAIT_S)

    def catch_up(self) -> None:
        """Reads what earlier lives of this server left in the diff partitions: the history that clients resume from."""
        for number, cell in enumerate(self.cells):
            try:
                while records := cell.reader.poll():
                    for record in records:
                        self._recall(cell, decode_report(record.payload))
            except LogError as error:
                _log.error("the diffs of cell %d are damaged and set aside; it writes new ones: %s", number, error)
                cell.reader.close()
                self._pipeline.set_aside_diffs(number)
                self.cells[number] = CellProgress(SegmentReader(self._pipeline.layout.diffs(number)))

    def _recall(self, cell: CellProgress, report: Report) -> None:
        for event in events_of(report, self._pipeline.gen, self._names):
            self._windows.setdefault(event.instance, Window(event.instance, self._pipeline.gen))
        self._take(cell, report)

    def _round(self) -> bool:
        """One pass over the cells: take what they appended, then let each session move as far as it may."""
        with self._lock:
            taken = sum(self._read(number, cell) for number, cell in enumerate(self.cells))
            self._advance()
            self._expire()
            self._ends.notify_all()
            for number in self._pipeline.runner.broken.keys() - self._broken:
                self._break(number, self._pipeline.runner.broken[number])
        if taken:
            with self._moved:
                self._moved.notify_all()
        return taken > 0

    def _read(self, number: int, cell: CellProgress) -> int:
        """Diffs that cannot be read, or were cleared away before we read them, are made up for by snapshots."""
        try:
            records = cell.reader.poll()
        except LogError as error:
            _log.error("reading the diffs of cell %d: %s", number, error)
            cell.reader.skip()
            self._renew_cell(number)
            return 1
        for record in records:
            try:
                self._take(cell, decode_report(record.payload))
            except Exception:
                _log.exception("reading the diffs of cell %d at offset %d", number, record.offset)
                self._renew_cell(number)
        return len(records)

    def _renew_cell(self, number: int) -> None:
        """Nothing we hold of this cell can be trusted any more; of windows nobody looks at, we forget the cell."""
        lost = [
            window
            for instance, window in self._windows.items()
            if all(one.cell == number for one in self._by_instance.get(instance, ()))
        ]
        for window in lost:
            window.state = None
        self._resync("overflow", *lost)

    def _break(self, number: int, reason: str) -> None:
        """A cell that can never go on ends what depended on it, and says why; nobody joins it any more."""
        self._broken.add(number)
        for session in list(self._sessions):
            for subscription in [one for one in session.subscriptions.values() if one.cell == number]:
                self._forget(subscription.planned.instance.id)
                self._closer(subscription, reason)()

    def _take(self, cell: CellProgress, report: Report) -> None:
        defer = self._defer if self._thread.is_alive() else None
        for event in events_of(report, self._pipeline.gen, self._names, defer):
            self._event(event)
        cell.to, cell.position = max(cell.to, report.to), max(cell.position, report.position)
        cell.report = report
        cell.steps += 1
        cell.lag_ms = max(0.0, (time.time() - report.at) * 1000)

    def _names(self, template: str) -> tuple[str, ...] | None:
        """Of a template that the pipeline has forgotten, what its cells had still to say counts until its end."""
        names = self._pipeline.names(template)
        if names is not None:
            return names
        plans = (next(iter(each)).planned.template for each in self._by_instance.values())
        left = next((each for each in plans if each.id == template), None)
        return None if left is None else tuple(output.name for output in left.outputs)

    def _defer(self, instances: Sequence[int], read: Callable[[], list[Event]]) -> bool:
        """Large results that nobody has yet are read by another thread: who subscribes waits for them, and nobody else.
        What comes for these windows meanwhile waits, too."""
        watched = (one for instance in instances for one in self._by_instance.get(instance, ()))
        if any(instance in self._deferred for instance in instances) or any(one.started for one in watched):
            return False
        self._deferred.update((instance, []) for instance in instances)
        self._results.submit(self._read_later, instances, read)
        return True

    def _read_later(self, instances: Sequence[int], read: Callable[[], list[Event]]) -> None:
        try:
            with yielding():
                events = read()
        except Exception:
            _log.exception("reading large results")
            events = []
        with self._lock:
            waited = [event for instance in instances for event in self._deferred.pop(instance)]
            for event in (*events, *waited):
                self._event(event)
            if not events:
                self._resync("overflow", *(self._windows[each] for each in instances if each in self._windows))
            for session in list(self._stirred):
                self._move(session)

    def _event(self, event: Event) -> None:
        if event.instance in self._deferred:
            self._deferred[event.instance].append(event)
            return
        window = self._windows.get(event.instance)
        if window is None:  # of nobody here: its end is on its way to the cell, or must be sent
            if event.instance not in self._idle:
                self._idle.set(event.instance, time.monotonic() + _LINGER_S)
            return
        if event.emission is None:
            is_earlier = event.tx < window.asked_at and event.kind != "error"
            (self._passed if is_earlier else self._lost if event.kind == "lost" else self._ended)(window, event)
            return
        emission = as_swap(event.emission) if isinstance(event.emission, Diff) else event.emission
        try:
            news = window.take(emission, self._limits.history_emissions_max, self._budget)
        except Resync as gap:
            self._resync(gap.message, window)
            return
        for subscription in self._by_instance.get(event.instance, ()):
            if subscription.started and news:
                self._emit(subscription, event.tx, emission)
            elif not subscription.started and window.state is not None:
                self._begin(subscription, window)

    def _show(self, subscription: Subscription, window: Window) -> None:
        """What the window has, if it has anything yet."""
        if window.reason is not None:
            self._put(subscription.session, Due(0, _failing(subscription, window.reason)))
        elif window.state is not None:
            self._begin(subscription, window)

    def _begin(self, subscription: Subscription, window: Window) -> None:
        """The first emissions of a subscription: what it missed, or the whole result."""
        assert window.state is not None
        if subscription.session.behind is not None:
            return
        subscription.started = True
        sink, position = subscription.session.sink, window.state.position
        for emission in window.opening(subscription.resume):
            self._emit(subscription, emission.seq, emission)
        ready = Due(window.state.seq, lambda: sink.ready(subscription.id, position), True, subscription)
        self._put(subscription.session, ready)

    def _emit(self, subscription: Subscription, tx: int, emission: Emission) -> None:
        sink = subscription.session.sink
        due = Due(tx, lambda: sink.emit(subscription.id, emission), True, subscription)
        self._put(subscription.session, due)

    def _put(self, session: Session, due: Due) -> None:
        session.inbox.append(due)
        self._stirred.add(session)

    def _resync(self, reason: str, *windows: Window) -> None:
        """The chain broke on our side: ask the cell for snapshots; subscribers keep what they have until those come."""
        subscriptions = [one for window in windows for one in self._by_instance.get(window.instance, ())]
        for subscription in subscriptions:
            subscription.started, subscription.resume = False, None
            subscription.session.sink.resync(subscription.id, reason)
        try:
            self._pipeline.subscribe(*{one.planned.instance.id: one.planned for one in subscriptions}.values())
        except HeadwaterError as error:
            for subscription in subscriptions:
                self._forget(subscription.planned.instance.id)
                self._closer(subscription, error.message)()

    def interrupt(self, session: Session, then: Callable[[], None]) -> list[str]:
        """What the session was sent got lost on its way. Its subscriptions, each of which waits for `renew`."""
        with self._lock:
            self._drop(session)
            then()
            return list(session.subscriptions)

    def _drop(self, session: Session) -> None:
        """What was to be sent; a fresh result can make up for it."""
        session.inbox = [due for due in session.inbox if not due.is_emission]
        for subscription in session.subscriptions.values():
            subscription.started, subscription.resume = False, None
            session.sink.resync(subscription.id, "overflow")

    def renew(self, session: Session, id: str) -> None:
        """A fresh result, unless one was sent already or is on its way."""
        with self._lock:
            self._renew(session, id)
            self._flush(session)

    def _renew(self, session: Session, id: str) -> None:
        subscription = session.subscriptions.get(id)
        window = subscription and self._windows.get(subscription.planned.instance.id)
        if subscription and window and not subscription.started and window.state and window.reason is None:
            self._begin(subscription, window)

    def _lost(self, window: Window, event: Event) -> None:
        """Changes are missing that cannot be had any more: subscribers keep what they have until it has begun anew."""
        window.forget()
        subscriptions = list(self._by_instance.get(event.instance, ()))
        for subscription in subscriptions:
            subscription.started, subscription.resume = False, None
            self._put(subscription.session, Due(event.tx, _resyncing(subscription, event.reason)))
        if subscriptions:
            self._renewing.renew(subscriptions[0].planned)
        else:
            self._over(window)

    def _begin_again(self, *lost: Planned) -> None:
        """Windows that were lost, planned with the tables as they are now. Where that comes to another window, it is
        asked for first, and then their subscribers move there."""
        again = [(before, self._pipeline.replanned(before)) for before in lost]
        stay = [now for before, now in again if now.instance.id == before.instance.id]
        first = self._opened_first([now for before, now in again if now.instance.id != before.instance.id])
        try:
            self._pipeline.subscribe(*stay, *first)
        except HeadwaterError as error:
            for one in first:
                self._refused(one, error.message)
            raise
        with self._lock:
            for before, now in again:
                self._transfer(before, now)

    def _opened_first(self, planned: Sequence[Planned]) -> list[Planned]:
        """Those of which nobody has asked for the window yet: each is there from now on, and counts as asked for."""
        first: list[Planned] = []
        with self._lock:
            for one in planned:
                window = self._windows.setdefault(one.instance.id, Window(one.instance.id, self._pipeline.gen))
                if not window.ask(self._next_tx):
                    first.append(one)
        return first

    def _transfer(self, before: Planned, now: Planned) -> None:
        if now == before:
            return
        old = self._windows.get(before.instance.id)
        window = self._windows.get(now.instance.id)
        for subscription in list(self._by_instance.get(before.instance.id, ())):
            self._leave(subscription)
            subscription.planned, subscription.cell = now, self._pipeline.cell_of(now)
            subscription.right_through = -1
            self._join(subscription)
            subscription.session.sink.replanned(subscription.id, now)
            if window is not None and not subscription.started:
                self._show(subscription, window)
        if old is not None and old is not window:
            self._over(old)
        if now.instance.id not in self._by_instance:
            self._idle.set(now.instance.id, time.monotonic() + _LINGER_S)

    def _passed(self, window: Window, event: Event) -> None:
        """The end of an earlier window of the query, logged before this one was asked for: its result comes yet."""
        window.forget()
        self._pipeline.passed(event.instance)
        for subscription in self._by_instance.get(event.instance, ()):
            subscription.started, subscription.resume = False, None

    def _ended(self, window: Window, event: Event) -> None:
        for subscription in list(self._by_instance.get(event.instance, ())):
            end = self._closer if event.kind == "closed" else _failing
            self._put(subscription.session, Due(event.tx, end(subscription, event.reason)))
            if event.kind == "closed":
                self._pipeline.lost(subscription.planned)
        window.reason = event.reason if window.asked else None
        if event.kind == "closed":
            self._over(window)

    def _over(self, window: Window) -> None:
        self._forget(window.instance)
        self._idle.drop(window.instance)
        self._pipeline.ended(window.instance)

    def _closer(self, subscription: Subscription, reason: str) -> Callable[[], None]:
        def close() -> None:
            self.unsubscribe(subscription.session, subscription.id, forget=True)
            self._idle.drop(subscription.planned.instance.id)
            subscription.session.sink.closed(subscription.id, reason)

        return close

    # — alignment

    def _advance(self) -> None:
        """Only sessions that something was said to, that wait for a position or whose heartbeat is due are looked at:
        a position that does not concern a session costs it nothing (law 10)."""
        now = time.monotonic()
        quiet = self._heartbeats.due(now)
        for session in quiet:
            self._heartbeats.set(session, now + self._heartbeat_s)
        for session in {*self._eager, *quiet}:
            self._move(session, everything=True)
        for session in list(self._stirred):
            self._move(session)
        for session in list(self._awaiting):
            self._answer(session)

    def _move(self, session: Session, *, everything: bool = False) -> None:
        self.sessions_moved += 1
        self._make_up(session)
        self._flush(session, everything=everything)
        if len(session.inbox) > self._limits.inbox_emissions_max:
            self._overflow(session)
        if not session.inbox and session.behind is None:
            self._stirred.discard(session)

    def _answer(self, session: Session) -> None:
        """Tells a session of the position that it waits for, once all its cells and answers are there."""
        assert session.awaited is not None
        if self._aligned(session.cells)[1] >= session.awaited:
            self._move(session, everything=True)
        told = [session.position, *(one.right_through for one in session.answered.values())]
        if min(told) >= session.awaited or time.monotonic() > session.patience_s:
            session.awaited = None
            self._awaiting.discard(session)

    def _overflow(self, session: Session) -> None:
        """One of its cells lags, and too much of the others waits for it."""
        session.behind = max((self.cells[number].to for number in session.cells), default=0)
        self._drop(session)

    def _make_up(self, session: Session) -> None:
        if session.behind is None or self._aligned(session.cells)[0] < session.behind:
            return
        session.behind = None
        for id in list(session.subscriptions):
            self._renew(session, id)

    def _flush(self, session: Session, *, everything: bool = False) -> None:
        """Hands over what every cell of the session has passed, in commit order, then the position that is complete.

        A cell that the session has only begun to use may be behind: nothing moves until it has caught up. How far
        re-queried windows are right is told of those that have something new; of `everything` with the heartbeat.
        """
        aligned, position = self._aligned(session.cells)
        if position < session.position:
            return
        ready = sorted((due for due in session.inbox if offset_of(due.tx) <= aligned), key=lambda due: due.tx)
        if ready:
            session.inbox = [due for due in session.inbox if offset_of(due.tx) > aligned]
            for due in ready:
                due.deliver()
        new = (due.subscription for due in ready if due.subscription is not None)
        asked = session.answered.values() if everything else [one for one in new if one.id in session.answered]
        told = [one for one in asked if self._tell_right(one, aligned, position)]
        if ready or told or position > session.position:
            session.position = position
            session.sink.progress(position)

    def _tell_right(self, subscription: Subscription, aligned: int, position: int) -> bool:
        """A query that the origin answers is right through another position than the cells have reached.

        An answer past `aligned` is in the inbox still: its cell may be ahead of the others."""
        instance = subscription.planned.instance.id
        right = min(position, self._pipeline.right_through(instance, aligned, position))
        if not subscription.started or right <= subscription.right_through:
            return False
        subscription.right_through = right
        subscription.session.sink.ready(subscription.id, right)
        return True

    def _aligned(self, used: Iterable[int]) -> tuple[int, int]:
        cells = [self.cells[number] for number in used] or self.cells
        return min(cell.to for cell in cells), min(cell.position for cell in cells)

    def _expire(self) -> None:
        gone = self._idle.due(time.monotonic())
        for instance in gone:
            self._forget(instance)
        if gone:
            self._pipeline.unsubscribe(*gone)
            self._expired += len(gone)
        if self._expired >= _TRIM_WINDOWS and not self._idle:
            self._expired = 0
            for held in (self._windows, self._by_instance):
                if not held:
                    held.clear()  # which lets go of the room for those that were there
            trim_memory()

    def _forget(self, instance: int) -> None:
        window = self._windows.pop(instance, None)
        if window is not None:
            self._budget.release(window.history)


def _failing(subscription: Subscription, reason: str) -> Callable[[], None]:
    return lambda: subscription.session.sink.failed(subscription.id, reason)


def _resyncing(subscription: Subscription, reason: str) -> Callable[[], None]:
    return lambda: subscription.session.sink.resync(subscription.id, reason)
