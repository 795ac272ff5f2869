"""The asyncio face of Database and LiveResult: the same names, awaitable. Threads do the waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from headwater.client.database import Database
from headwater.client.live import Callback, LiveResult, Observer, Phase
from headwater.model.emission import Emission, Fields
from headwater.model.value import Value


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

    async def wait(self, position: int | None = None, seq: int | None = None, timeout: float | None = 30.0) -> bool:
        return await asyncio.to_thread(self._live.wait, position, seq, timeout)

    async def events(self) -> AsyncIterator[Emission]:
        """Every emission from here on, in order; ends when the query is closed."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Emission | None] = asyncio.Queue()
        stop = self._live.listen(lambda emission: loop.call_soon_threadsafe(queue.put_nowait, emission))
        try:
            while (emission := await queue.get()) is not None:
                yield emission
        finally:
            stop()

    def observe(self, callback: Observer) -> Callable[[], None]:
        return self._live.observe(callback)

    async def explain(self) -> str:
        return await asyncio.to_thread(self._live.explain)

    async def abort(self, forget: bool = False) -> None:
        await asyncio.to_thread(self._live.abort, forget)


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

    async def position(self) -> int:
        return await asyncio.to_thread(self._database.position)

    async def explain(self, sql: str, *params: Any) -> str:
        return await asyncio.to_thread(self._database.explain, sql, *params)

    async def verify(self, live: AsyncLiveResult) -> None:
        await asyncio.to_thread(self._database.verify, live._live)

    async def close(self) -> None:
        await asyncio.to_thread(self._database.close)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
