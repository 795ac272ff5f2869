"""Database: what `connect` returns. It plans nothing and computes nothing itself; its backend is embedded or remote."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, overload

from headwater.client.live import Callback, LiveResult
from headwater.client.session import ClientSession
from headwater.model.emission import Emission, Fields, apply
from headwater.model.errors import Drift, HeadwaterError, SqlError
from headwater.model.union import Value
from headwater.plan.strategy import ASKED

Params = Sequence[Value] | Mapping[str, Value]
_SETUP_S = 30.0  # a source says after less what it waits for


class OpenTransaction(Protocol):
    """An open transaction at the source. `position` is set by the commit."""

    position: int

    def execute(self, sql: str, params: Params = (), /) -> object: ...


@dataclass(frozen=True, slots=True)
class Effective:
    """What the effective query answers at the source, at one position."""

    rows: list[Fields]
    position: int
    ordered: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """What a backend says of a subscription: the names of its columns, and how it is kept current."""

    columns: tuple[str, ...]
    strategy: str


class Backend(Protocol):
    """Where queries run: in this process, or behind a gateway."""

    def open(self, live_id: str, sql: str, params: Params) -> Opened:
        """Starts the subscription. Emissions go to the session."""

    def drop(self, live_id: str, forget: bool) -> None: ...

    def again(self, live_id: str) -> None:
        """A fresh result, please: an emission did not follow."""

    def reach(self, position: int) -> None:
        """Somebody waits for the session to reach it: without delay, please, also where nothing of it changes."""

    def query(self, sql: str, params: Params) -> tuple[tuple[str, ...], list[tuple[Value, ...]], int]: ...

    def execute(self, sql: str, params: Params) -> int: ...

    def executemany(self, sql: str, rows: Iterable[Params]) -> int: ...

    def transaction(self) -> AbstractContextManager[Any]: ...

    def position(self) -> int: ...

    def explain(self, sql: str, params: Params, analyze: bool) -> str: ...

    def status(self) -> dict[str, Any]: ...

    def effective(self, sql: str, params: Params) -> Effective: ...

    def close(self) -> None: ...


class Database:
    """Safe to use from several threads. Close it, or use it as a context manager."""

    def __init__(self, backend: Callable[[ClientSession], Backend]) -> None:
        self._session = ClientSession(self._gap)
        self._backend = backend(self._session)
        self._ids = (f"q{n}" for n in itertools.count(1))
        self._asked: dict[str, tuple[str, Params]] = {}
        self._closed = threading.Event()

    @overload
    def query(
        self, sql: str, *params: Any, live: Literal[True], callback: Callback | None = ..., timeout: float = ...
    ) -> LiveResult: ...

    @overload
    def query(
        self, sql: str, *params: Any, live: Literal[False] = ..., callback: None = ..., timeout: float = ...
    ) -> list[Fields]: ...

    def query(
        self, sql: str, *params: Any, live: bool = False, callback: Callback | None = None, timeout: float = 60.0
    ) -> LiveResult | list[Fields]:
        """Rows at one position; or, with `live`, a result that stays current, returned when it is ready."""
        self._check_open()
        check_text(sql)
        given = as_params(params)
        if not live:
            columns, rows, _ = self._backend.query(sql, given)
            return [dict(zip(columns, row, strict=True)) for row in rows]
        return self._subscribe(sql, given, callback, timeout)

    def execute(self, sql: str, *params: Any) -> int:
        """Writes through to the source; the position it returns can be waited for."""
        self._check_open()
        return self._backend.execute(sql, as_params(params))

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> int:
        return self._backend.executemany(sql, rows)

    def transaction(self) -> AbstractContextManager[OpenTransaction]:
        """Several writes, one transaction; its `position` is set once it is committed."""
        return self._backend.transaction()

    def position(self) -> int:
        """The source's position now, for writes made elsewhere."""
        return self._backend.position()

    def explain(self, sql: str, *params: Any, analyze: bool = False) -> str:
        """How the query is kept current. `analyze` runs it once: rows and work beside each operator."""
        check_text(sql)
        return self._backend.explain(sql, as_params(params), analyze)

    def status(self) -> dict[str, Any]:
        """What the pipeline is doing: runner, cells, epoch, rates, lag."""
        return self._backend.status()

    def verify(self, live: LiveResult, timeout: float = 30.0) -> None:
        """Runs the effective query at the source and raises `Drift` where the live rows differ at that position.

        The live result may move on meanwhile: what it is told is kept, and folded up to just that position. One that
        the source answers is right only where it was answered, so what was committed before is waited for first.
        """
        if live.id not in self._asked:
            raise HeadwaterError("the live query is closed, or is of another database")
        if live.strategy in ASKED:
            live.wait(self.position(), timeout=timeout)
        told: list[Emission | None] = []
        stop = live.listen(told.append)
        try:
            state = live.snapshot
            effective = self._backend.effective(*self._asked[live.id])
            if not live.wait(effective.position, timeout=timeout):
                raise Drift(f"the live rows did not reach position {effective.position} within {timeout} s")
        finally:
            stop()
        for emission in told:
            if emission is not None and emission.position <= effective.position:
                state = apply(state, emission)
        check(effective, state.rows)

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._backend.close()
            for live in list(self._session.lives.values()):
                live.closed("the database was closed")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _subscribe(self, sql: str, params: Params, callback: Callback | None, timeout: float) -> LiveResult:
        id = next(self._ids)
        live = LiveResult(
            id,
            sql,
            (),
            self._session.changed,
            lambda: self._session.position,
            callback=callback,
            reach=self._backend.reach,
            abort=lambda forget: self._drop(id, forget),
            explain=lambda: self._backend.explain(sql, params, False),
            failure=lambda: self._session.failure,
        )
        self._asked[id] = (sql, params)
        self._session.add(live)
        until_s = time.monotonic() + timeout
        self._open(live, params, timeout)
        live.wait_ready(max(0.0, until_s - time.monotonic()))
        if live.state == "closed":
            raise HeadwaterError(f"the live query was closed: {live.reason}")
        return live

    def _open(self, live: LiveResult, params: Params, timeout: float) -> None:
        """A first query on a busy PostgreSQL is set up when open transactions have ended. Who waits for less time than
        that may take gets the result as it is; it goes on meanwhile, and is closed if it fails."""
        try:
            if timeout >= _SETUP_S:
                self._set_up(live, params)
            else:
                self._set_up_within(live, params, timeout)
        except BaseException:
            self._forget(live.id)
            raise

    def _set_up_within(self, live: LiveResult, params: Params, timeout: float) -> None:
        done: Future[None] = Future()
        threading.Thread(target=_resolve, args=(done, lambda: self._set_up(live, params)), daemon=True).start()
        try:
            done.result(timeout)
        except FutureTimeout:
            done.add_done_callback(lambda late: self._end_late(live, late.exception()))

    def _set_up(self, live: LiveResult, params: Params) -> None:
        opened = self._backend.open(live.id, live.sql, params)
        live.opened(opened.columns, opened.strategy)

    def _end_late(self, live: LiveResult, error: BaseException | None) -> None:
        if error is not None:
            self._session.closed(live.id, str(error))
            self._forget(live.id)

    def _drop(self, id: str, forget: bool) -> None:
        self._backend.drop(id, forget)
        self._forget(id)

    def _forget(self, id: str) -> None:
        self._session.remove(id)
        self._asked.pop(id, None)

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise HeadwaterError("the database is closed")

    def _gap(self, id: str) -> None:
        self._backend.again(id)


def check(effective: Effective, rows: Sequence[Fields]) -> None:
    """Raises `Drift` with the difference. 1 and 1.0 differ, and so do 0.0 and -0.0; the last digits of a REAL do not:
    our sums are exact and rounded once, the source's depend on the order of its rows."""
    found, expected = [_told(row) for row in rows], [_told(row) for row in effective.rows]
    if not effective.ordered:
        found, expected = sorted(found), sorted(expected)
    if found == expected:
        return
    missing = list((Counter(expected) - Counter(found)).elements())
    extra = list((Counter(found) - Counter(expected)).elements())
    differ = f"missing {missing[:3]}, extra {extra[:3]}" if missing or extra else "in another order"
    raise Drift(f"expected {len(expected)} rows at position {effective.position}, found {len(found)}: {differ}")


def _told(row: Fields) -> str:
    return repr({name: float(f"{value:.12g}") if isinstance(value, float) else value for name, value in row.items()})


def check_text(sql: str) -> None:
    """Half a character cannot be sent, nor shown."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise SqlError(f"the query is not valid text: character {error.start + 1} is a lone surrogate") from None


def as_params(params: tuple[Any, ...]) -> Params:
    """`query(sql, 1, 2)`, or `query(sql, {"name": value})`."""
    if len(params) == 1 and isinstance(params[0], Mapping):
        return params[0]
    return params


def _resolve(future: Future[None], call: Callable[[], None]) -> None:
    try:
        call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(None)
