"""Thread pools for calls that would block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headwater.runtime.switch_interval import yielding

_QUICK_THREADS, _SLOW_THREADS, _PREPARING_THREADS = 8, 4, 8
PREPARED_AT_ONCE_MAX = 2  # new queries of one socket: others have the rest of the threads

T = TypeVar("T")


class ThreadPools:
    """What reads a table is slow: it has threads of its own, so that it delays nobody who reads none."""

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(_QUICK_THREADS, "headwater-quick")
        self._slow = ThreadPoolExecutor(_SLOW_THREADS, "headwater-slow")
        self._preparing = ThreadPoolExecutor(_PREPARING_THREADS, "headwater-preparing")

    async def quickly(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._quick, call, *arguments)

    async def slowly(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._slow, _beside_others, call, *arguments)

    async def prepare(self, call: Callable[..., T], *arguments: object) -> T:
        """As `slowly`, for what may wait for the database's other users: it delays nobody's results."""
        return await asyncio.get_running_loop().run_in_executor(self._preparing, _beside_others, call, *arguments)

    def close(self) -> None:
        for threads in (self._quick, self._slow, self._preparing):
            threads.shutdown(wait=False, cancel_futures=True)


def _beside_others(call: Callable[..., T], *arguments: object) -> T:
    with yielding():
        return call(*arguments)
