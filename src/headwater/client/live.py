"""LiveResult: a query's rows, kept current. Emissions are held back until the position they belong to is complete."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Literal

from headwater.client.operations import Operation, operations
from headwater.model.emission import Diff, Emission, Fields, Result, State, Swap, apply
from headwater.model.errors import HeadwaterError, Resync

Phase = Literal["initializing", "ready", "stale", "closed"]
Callback = Callable[[str, Emission], None]
Observer = Callable[[list[Operation]], None]
Listener = Callable[[Emission | None], object]


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
        abort: Callable[[bool], None],
        explain: Callable[[], str],
    ) -> None:
        self.id, self.sql = id, sql
        self._state = State(columns=columns)
        self._initial: State | None = None
        self._changed, self._progress, self._callback = changed, progress, callback
        self._abort, self._explain = abort, explain
        self._pending: deque[Emission] = deque()
        self._ready_at: int | None = None
        self._phase: Phase = "initializing"
        self.reason: str | None = None
        self.resyncs = 0
        self._observers: list[Observer] = []
        self._listeners: list[Listener] = []

    # — what users read

    @property
    def rows(self) -> Sequence[Fields]:
        return self._initial.rows if self._callback is not None and self._initial is not None else self._state.rows

    @property
    def hashes(self) -> Sequence[str]:
        return self._state.hashes

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
        return self._state.position if self._phase == "stale" else max(self._progress(), self._state.position)

    @property
    def state(self) -> Phase:
        return self._phase

    def wait(self, position: int | None = None, seq: int | None = None, timeout: float | None = 30.0) -> bool:
        """Until the rows are right for `position` (or `seq`); with neither, until they change. False on time-out."""
        seen = self._state
        with self._changed:
            return self._changed.wait_for(lambda: self._reached(position, seq, seen), timeout)

    def _reached(self, position: int | None, seq: int | None, seen: State) -> bool:
        if self._phase == "closed":
            raise HeadwaterError(f"the live query is closed: {self.reason}")
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
        try:
            while (emission := queue.get(timeout=timeout)) is not None:
                yield emission
        except Empty:
            return
        finally:
            stop()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls with every emission, and with None at the end; the returned function stops it."""
        with self._changed:
            self._listeners.append(listener)
            if self._phase == "closed":
                listener(None)
        return lambda: self._listeners.remove(listener)

    def observe(self, callback: Observer) -> Callable[[], None]:
        """Calls back with one list of operations per transaction; the returned function stops it."""
        with self._changed:
            self._observers.append(callback)
        return lambda: self._observers.remove(callback)

    def explain(self) -> str:
        return self._explain()

    def abort(self, forget: bool = False) -> None:
        """Ends the subscription. `forget` lets go of whatever was kept for a return."""
        self._abort(forget)
        self.closed("aborted")

    # — what the session says (always under the session's condition)

    def named(self, columns: tuple[str, ...]) -> None:
        with self._changed:
            if not self._state.columns:
                self._state = replace(self._state, columns=columns)

    def offer(self, emission: Emission) -> None:
        self._pending.append(emission)

    def ready(self, position: int) -> None:
        self._ready_at = position

    def rewind(self) -> None:
        """What was not applied yet will be sent again."""
        with self._changed:
            self._pending.clear()

    def stale(self) -> None:
        if self._phase == "ready":
            self._phase = "stale"

    def closed(self, reason: str) -> None:
        with self._changed:
            self._phase, self.reason = "closed", reason
            for listener in self._listeners:
                listener(None)
            self._changed.notify_all()

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    def advance(self, position: int) -> bool:
        """Applies what belongs to positions up to this one. False when an emission did not follow: a resync is due."""
        while self._pending and self._pending[0].position <= position:
            try:
                self._apply(self._pending.popleft())
            except Resync:
                self._pending.clear()
                self.resyncs += 1
                return False
        if self._ready_at is not None:
            self._ready_at, self._phase = None, "ready"
            self._initial = self._initial or self._state
        return True

    def _apply(self, emission: Emission) -> None:
        before = self._state
        self._state = apply(before, emission)
        if self._state is before:
            return
        if self._phase == "stale" and isinstance(emission, Result):
            self._phase = "ready"
        first = self._phase == "initializing"
        for listener in self._listeners:
            listener(emission)
        if self._callback is not None and not first:
            self._callback(_name(emission), emission)
        if self._observers:
            done = operations(before, emission, self._state)
            for observer in list(self._observers):
                observer(done)


def _name(emission: Emission) -> str:
    match emission:
        case Result():
            return "result"
        case Diff():
            return "diff"
        case Swap():
            return "swap"
