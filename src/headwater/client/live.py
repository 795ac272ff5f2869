"""LiveResult: a query's rows, kept current. Emissions are held back until the position they belong to is complete."""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, Literal

from headwater.client.operations import Operation, operations
from headwater.model.emission import Emission, Fields, Result, State, apply
from headwater.model.errors import HeadwaterError, Resync
from headwater.protocol.emissions import kind_of

Phase = Literal["initializing", "ready", "stale", "closed"]
Callback = Callable[[str, Emission], None]
Observer = Callable[[list[Operation]], None]
Listener = Callable[[Emission | None], object]
_log = logging.getLogger("headwater.client")


@dataclass(frozen=True, slots=True)
class News:
    """An emission that was applied and is to be told; the first one is what the rows began with."""

    before: State
    emission: Emission
    after: State
    first: bool


class LiveResult:
    """`rows` is a new list per transaction; whoever holds an older one keeps it whole."""

    def __init__(
        self,
        id: str,
        sql: str,
        columns: tuple[str, ...],
        changed: threading.Condition,
        progress: Callable[[], int],
        *,
        callback: Callback | None = None,
        reach: Callable[[int], None],
        abort: Callable[[bool], None],
        explain: Callable[[], str],
        failure: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.id, self.sql = id, sql
        self._state = State(columns=columns)
        self._initial: State | None = None
        self._changed, self._progress, self._callback = changed, progress, callback
        self._reach, self._abort, self._explain, self._failure = reach, abort, explain, failure
        self._pending: deque[Emission] = deque()
        self._untold: deque[News] = deque()
        self._ready_at: int | None = None
        self._right_through = -1
        self.strategy = "incremental"
        self._next_strategy: str | None = None  # from the next result on
        self._has_strategy = False  # it was told which
        self._phase: Phase = "initializing"
        self._reason: str | None = None
        self.resyncs = 0
        self._observers: list[Observer] = []
        self._listeners: list[Listener] = []

    # — what users read

    @property
    def rows(self) -> Sequence[Fields]:
        return self._shown.rows

    @property
    def hashes(self) -> Sequence[str]:
        return self._shown.hashes

    @property
    def columns(self) -> tuple[str, ...]:
        return self._state.columns

    @property
    def seq(self) -> int:
        return self._state.seq

    @property
    def gen(self) -> int:
        return self._state.gen

    @property
    def position(self) -> int:
        """The source position up to which `rows` is known to be right."""
        if self._phase != "ready":
            return self._state.position
        known = self._progress() if self.strategy == "incremental" else min(self._right_through, self._progress())
        return max(known, self._state.position)

    @property
    def state(self) -> Phase:
        """Rows that nothing can change just now, although the database may have changed, are not called ready."""
        return "stale" if self._phase == "ready" and self._failure() is not None else self._phase

    @property
    def reason(self) -> str | None:
        """Why it is stale or closed."""
        return self._failure() if self._phase == "ready" else self._reason

    @property
    def snapshot(self) -> State:
        """Everything at one moment: rows, hashes, seq and position that belong together."""
        return self._state

    @property
    def _shown(self) -> State:
        """With a callback the rows stay as they were at first."""
        return self._initial if self._callback is not None and self._initial is not None else self._state

    def wait(self, position: int | None = None, seq: int | None = None, timeout: float | None = 30.0) -> bool:
        """Until the rows are right for `position` (or `seq`); with neither, until they change. False on time-out."""
        with self._changed:
            seen = self._state
            late = position is not None and not self._reached(position, seq, seen)
        if late and position is not None:
            self._reach(position)
        with self._changed:
            return self._changed.wait_for(lambda: self._reached(position, seq, seen), timeout)

    def _reached(self, position: int | None, seq: int | None, seen: State) -> bool:
        if self._phase == "closed":
            raise HeadwaterError(f"the live query is closed: {self._reason}")
        if self._phase == "initializing":
            return False
        if position is not None:
            return self.position >= position
        return self._state.seq >= seq if seq is not None else self._state is not seen

    def wait_ready(self, timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._phase != "initializing", timeout)

    def events(self, timeout: float | None = None) -> Iterator[Emission]:
        """Every emission from here on, once applied. Ends when the query is closed, or after `timeout` of quiet."""
        queue: SimpleQueue[Emission | None] = SimpleQueue()
        stop = self.listen(queue.put)
        events = _drained(queue, stop, timeout)
        weakref.finalize(events, stop)  # also when nobody ever asked for the first one
        return events

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls with every emission, and with None at the end; the returned function stops it."""
        with self._changed:
            self._listeners.append(listener)
            if self._phase == "closed":
                _call(listener, None)
        return lambda: _forget(self._listeners, listener)

    def observe(self, callback: Observer) -> Callable[[], None]:
        """Calls back with one list of operations per transaction; the returned function stops it."""
        with self._changed:
            self._observers.append(callback)
        return lambda: _forget(self._observers, callback)

    def explain(self) -> str:
        return self._explain()

    def abort(self, forget: bool = False) -> None:
        """Ends the subscription. `forget` lets go of whatever was kept for a return."""
        self._abort(forget)
        self.closed("aborted")

    # — what the session says (always under the session's condition)

    def opened(self, columns: tuple[str, ...], strategy: str) -> None:
        with self._changed:
            if not self._has_strategy:
                self.strategy, self._has_strategy = strategy, True
            if not self._state.columns:
                self._state = replace(self._state, columns=columns)

    def replanned(self, columns: tuple[str, ...], strategy: str) -> None:
        """It is kept current in another way from its next result on, or when it is ready next: until then its rows are
        right as far as they were."""
        self._has_strategy = True
        if self._phase == "initializing":
            self.strategy = strategy
        else:
            self._next_strategy = strategy
        self.opened(columns, strategy)

    def _take_strategy(self) -> None:
        if self._next_strategy is not None:
            if self._phase == "ready":
                self._right_through = max(self._right_through, self.position)
            self.strategy, self._next_strategy = self._next_strategy, None

    def offer(self, emission: Emission) -> None:
        self._pending.append(emission)

    def ready(self, position: int) -> None:
        """Right for this position, once it is reached; a query that the source answers says so again and again."""
        self._ready_at = position

    def rewind(self) -> None:
        """What was not applied yet will be sent again."""
        with self._changed:
            self._pending.clear()

    def stale(self) -> None:
        if self._phase == "ready":
            self._phase = "stale"

    def resync(self, reason: str) -> None:
        """Changes are missing; a fresh result follows, and until then the rows are those before."""
        self.resyncs += 1
        self._ready_at, self._reason = None, reason
        self.stale()

    def failed(self, reason: str) -> None:
        """The source would raise for this query just now: the rows, if there are any, are those before."""
        self._phase, self._reason = "stale", reason

    def closed(self, reason: str) -> None:
        with self._changed:
            if self._phase == "closed":
                return
            self._phase, self._reason = "closed", reason
            for listener in list(self._listeners):
                _call(listener, None)
            self._changed.notify_all()

    @property
    def waiting(self) -> bool:
        """Something was said that a later position will make count."""
        return bool(self._pending) or self._ready_at is not None

    def advance(self, position: int) -> bool:
        """Applies what belongs to positions up to this one. False when an emission did not follow: a resync is due.

        Nobody is told yet: first every query of the session moves (law 8), then `tell`.
        """
        while self._pending and self._pending[0].position <= position:
            try:
                self._apply(self._pending.popleft())
            except Resync:
                self._pending.clear()
                self.resyncs += 1
                return False
        if self._ready_at is not None and self._ready_at <= position:
            self._become_ready()
        return True

    def _become_ready(self) -> None:
        self._take_strategy()
        if self._ready_at is not None:
            self._right_through = max(self._ready_at, self._right_through)
        self._ready_at, self._phase, self._reason = None, "ready", None
        self._initial = self._initial or self._state

    def _apply(self, emission: Emission) -> None:
        before = self._state
        if isinstance(emission, Result):
            self._take_strategy()
        self._state = apply(before, emission)
        if self._state is before:
            return
        self._untold.append(News(before, emission, self._state, first=self._initial is None))
        if self._phase == "stale" and isinstance(emission, Result) and self._initial is not None:
            self._become_ready()

    def tell(self) -> None:
        """Calls everyone who listens, with one emission after the other."""
        while self._untold:
            news = self._untold.popleft()
            for listener in list(self._listeners):
                _call(listener, news.emission)
            if self._callback is not None and not news.first:
                _call(self._callback, kind_of(news.emission), news.emission)
            if self._observers:
                done = operations(news.before, news.emission, news.after)
                for observer in list(self._observers):
                    _call(observer, done)


def _drained(
    queue: SimpleQueue[Emission | None], stop: Callable[[], None], timeout: float | None
) -> Iterator[Emission]:
    try:
        while (emission := queue.get(timeout=timeout)) is not None:
            yield emission
    except Empty:
        return
    finally:
        stop()


def _call(callback: Callable[..., object], *arguments: object) -> None:
    """What a user's function raises is told, and stops neither the others nor the pipeline."""
    try:
        callback(*arguments)
    except Exception:
        _log.exception("a callback of a live query raised an exception")


def _forget(callbacks: list[Any], callback: object) -> None:
    with contextlib.suppress(ValueError):
        callbacks.remove(callback)
