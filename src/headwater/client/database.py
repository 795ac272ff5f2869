"""Database: what `connect` returns. It plans nothing and computes nothing itself; its backend is embedded or remote."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, overload

from headwater.client.live import Callback, LiveResult
from headwater.client.session import ClientSession
from headwater.model.emission import Fields
from headwater.model.errors import Drift, HeadwaterError
from headwater.model.value import Value

Params = Sequence[Value] | Mapping[str, Value]


class Writes(Protocol):
    """An open transaction at the origin. `position` is set by the commit."""

    position: int

    def execute(self, sql: str, params: Sequence[Value] = (), /) -> object: ...


class Backend(Protocol):
    """Where queries run: in this process, or behind a gateway."""

    def open(self, live_id: str, sql: str, params: Params) -> tuple[str, ...]:
        """Starts the subscription; returns the names of its columns. Emissions go to the session."""

    def drop(self, live_id: str, forget: bool) -> None: ...

    def again(self, live_id: str) -> None:
        """A fresh result, please: an emission did not follow."""

    def query(self, sql: str, params: Params) -> tuple[tuple[str, ...], list[tuple[Value, ...]], int]: ...

    def execute(self, sql: str, params: Params) -> int: ...

    def executemany(self, sql: str, rows: Iterable[Params]) -> int: ...

    def transaction(self) -> AbstractContextManager[Any]: ...

    def position(self) -> int: ...

    def explain(self, sql: str, params: Params) -> str: ...

    def status(self) -> dict[str, Any]: ...

    def effective(self, sql: str, params: Params) -> tuple[list[Fields], int]: ...

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
        given = _params(params)
        if not live:
            columns, rows, _ = self._backend.query(sql, given)
            return [dict(zip(columns, row, strict=True)) for row in rows]
        return self._subscribe(sql, given, callback, timeout)

    def execute(self, sql: str, *params: Any) -> int:
        """Writes through to the origin; the position it returns can be waited for."""
        return self._backend.execute(sql, _params(params))

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> int:
        return self._backend.executemany(sql, rows)

    def transaction(self) -> AbstractContextManager[Writes]:
        """Several writes, one transaction; its `position` is set once it is committed."""
        return self._backend.transaction()

    def position(self) -> int:
        """The origin's position now, for writes made elsewhere."""
        return self._backend.position()

    def explain(self, sql: str, *params: Any) -> str:
        return self._backend.explain(sql, _params(params))

    def status(self) -> dict[str, Any]:
        """What the pipeline is doing: runner, cells, epoch, rates, lag."""
        return self._backend.status()

    def verify(self, live: LiveResult, timeout: float = 30.0) -> None:
        """Runs the effective query at the origin and raises `Drift` where the live rows differ at that position."""
        sql, params = self._asked[live.id]
        expected, position = self._backend.effective(sql, params)
        if not live.wait(position, timeout=timeout):
            raise Drift(f"expected the live rows at position {position} within {timeout} s, found {live.position}")
        found = [dict(row) for row in live.rows]
        if live.position == position and sorted(map(repr, found)) != sorted(map(repr, expected)):
            missing = [row for row in expected if row not in found][:3]
            extra = [row for row in found if row not in expected][:3]
            raise Drift(
                f"expected {len(expected)} rows at position {position}, found {len(found)} that differ: "
                f"missing {missing}, extra {extra}"
            )

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            for live in list(self._session.lives.values()):
                live.closed("the database was closed")
            self._backend.close()

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
            abort=lambda forget: self._drop(id, forget),
            explain=lambda: self._backend.explain(sql, params),
        )
        self._asked[id] = (sql, params)
        self._session.add(live)
        try:
            live.named(self._backend.open(id, sql, params))
        except BaseException:
            self._session.remove(id)
            raise
        live.wait_ready(timeout)
        if live.state == "closed":
            raise HeadwaterError(f"the live query was closed: {live.reason}")
        return live

    def _drop(self, id: str, forget: bool) -> None:
        self._backend.drop(id, forget)
        self._session.remove(id)

    def _gap(self, id: str) -> None:
        self._backend.again(id)


def _params(params: tuple[Any, ...]) -> Params:
    """`query(sql, 1, 2)`, or `query(sql, {"name": value})`."""
    if len(params) == 1 and isinstance(params[0], Mapping):
        return params[0]
    return params
