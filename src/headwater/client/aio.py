"""The asyncio face of Database and LiveResult: the same names, awaitable. Threads do the waiting."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from headwater.client.database import Database, OpenTransaction, Params
from headwater.client.live import Callback, LiveResult, Observer, Phase
from headwater.model.emission import Emission, Fields
from headwater.model.union import Value

T = TypeVar("T")


class AsyncLiveResult:
    """Reading never waits; `wait`, `events` and `abort` do."""

    def __init__(self, live: LiveResult) -> None:
        self._live = live

    @property
    def rows(self) -> Sequence[Fields]:
        return self._live.rows

    @property
    def hashes(self) -> Sequence[str]:
        return self._live.hashes

    @property
    def columns(self) -> tuple[str, ...]:
        return self._live.columns

    @property
    def seq(self) -> int:
        return self._live.seq

    @property
    def position(self) -> int:
        return self._live.position

    @property
    def state(self) -> Phase:
        return self._live.state

    @property
    def reason(self) -> str | None:
        return self._live.reason

    async def wait(self, position: int | None = None, seq: int | None = None, timeout: float | None = 30.0) -> bool:
        return await asyncio.to_thread(self._live.wait, position, seq, timeout)

    def events(self) -> AsyncIterator[Emission]:
        """Every emission from here on, in order; ends when the query is closed."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Emission | None] = asyncio.Queue()
        stop = self._live.listen(lambda emission: loop.call_soon_threadsafe(queue.put_nowait, emission))
        events = _drained(queue, stop)
        weakref.finalize(events, stop)  # also when nobody ever asked for the first one
        return events

    def observe(self, callback: Observer) -> Callable[[], None]:
        return self._live.observe(callback)

    async def explain(self) -> str:
        return await asyncio.to_thread(self._live.explain)

    async def abort(self, forget: bool = False) -> None:
        await asyncio.to_thread(self._live.abort, forget)


async def _drained(queue: asyncio.Queue[Emission | None], stop: Callable[[], None]) -> AsyncIterator[Emission]:
    try:
        while (emission := await queue.get()) is not None:
            yield emission
    finally:
        stop()


class AsyncTransaction:
    """Several writes, one transaction. A thread of its own: a transaction belongs to the thread that began it."""

    def __init__(self, transaction: AbstractContextManager[OpenTransaction]) -> None:
        self._transaction = transaction
        self._thread = ThreadPoolExecutor(1, "headwater-transaction")

    @property
    def position(self) -> int:
        return self._writes.position

    async def execute(self, sql: str, params: Params = ()) -> None:
        await self._run(self._writes.execute, sql, params)

    async def __aenter__(self) -> AsyncTransaction:
        self._writes = await self._run(self._transaction.__enter__)
        return self

    async def __aexit__(self, *exc: Any) -> None:
        try:
            await self._run(self._transaction.__exit__, *exc)
        finally:
            self._thread.shutdown(wait=False)

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)


class AsyncDatabase:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def query(
        self, sql: str, *params: Any, live: bool = False, callback: Callback | None = None, timeout: float = 60.0
    ) -> Any:
        """A list of rows, or an `AsyncLiveResult`."""
        if live:
            found = await asyncio.to_thread(
                lambda: self._database.query(sql, *params, live=True, callback=callback, timeout=timeout)
            )
            return AsyncLiveResult(found)
        return await asyncio.to_thread(lambda: self._database.query(sql, *params))

    async def execute(self, sql: str, *params: Any) -> int:
        return await asyncio.to_thread(self._database.execute, sql, *params)

    async def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> int:
        return await asyncio.to_thread(self._database.executemany, sql, rows)

    def transaction(self) -> AsyncTransaction:
        """Use it with `async with`; its `position` is set once it is committed."""
        return AsyncTransaction(self._database.transaction())

    async def position(self) -> int:
        return await asyncio.to_thread(self._database.position)

    async def status(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._database.status)

    async def explain(self, sql: str, *params: Any, analyze: bool = False) -> str:
        return await asyncio.to_thread(partial(self._database.explain, sql, *params, analyze=analyze))

    async def verify(self, live: AsyncLiveResult) -> None:
        await asyncio.to_thread(self._database.verify, live._live)

    async def close(self) -> None:
        await asyncio.to_thread(self._database.close)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
