"""Threads for what would hold up the event loop, and calls that are made together. Knows nothing of what is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

_QUICK_THREADS, _SLOW_THREADS = 8, 4
_TOGETHER_MAX = 256

T = TypeVar("T")
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Workers:
    """What reads a table is slow: it has threads of its own, so that it delays nobody who reads none."""

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(_QUICK_THREADS, "headwater-quick")
        self._slow = ThreadPoolExecutor(_SLOW_THREADS, "headwater-slow")

    async def quickly(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._quick, call, *arguments)

    async def slowly(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._slow, call, *arguments)

    def close(self) -> None:
        for threads in (self._quick, self._slow):
            threads.shutdown(wait=False, cancel_futures=True)


class Together(Generic[Item, Outcome]):
    """Items that come while others are seen to are seen to together, next: one write to the log, not one each."""

    def __init__(self, workers: Workers, call: Callable[[Sequence[Item]], list[Outcome | Exception]]) -> None:
        self._workers, self._call = workers, call
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Outcome:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_TOGETHER_MAX], self._waiting[_TOGETHER_MAX:]
            try:
                outcomes = await self._workers.quickly(self._call, [item for item, _ in batch])
            except Exception as error:
                outcomes = [error] * len(batch)
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                _settle(future, outcome)
        self._running = None


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    """Who no longer waits is not told."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
