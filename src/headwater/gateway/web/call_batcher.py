"""Batches calls: items that arrive while a batch runs are in the next one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

BATCH_MAX = 32  # subscriptions at once: a commit waits for no more in the log
_REST = 0.5  # of the time that those before took: so much of the machine is left to others

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class FairQueue(Generic[Item]):
    """Items in the order they came, those of different owners in turn: who asks for much waits for it alone."""

    def __init__(self) -> None:
        self._waiting: dict[object, deque[Item]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, owner: object, item: Item) -> None:
        self._waiting.setdefault(owner, deque()).append(item)

    def take(self, most: int) -> list[Item]:
        """One of each owner, then another of each: whoever was served goes behind the others."""
        taken: list[Item] = []
        while self._waiting and len(taken) < most:
            owner = next(iter(self._waiting))
            items = self._waiting.pop(owner)
            taken.append(items.popleft())
            if items:
                self._waiting[owner] = items
        return taken


class Batcher(Generic[Item, Outcome]):
    """Items that come while others are seen to are seen to together, next: one write to the log, not one each. At most
    so many at once, of every owner as many, and then others have their turn; and where more wait, a rest follows."""

    def __init__(
        self,
        run: Callable[..., Awaitable[Any]],
        call: Callable[[Sequence[Item]], list[Outcome | Exception]],
        most: int = BATCH_MAX,
    ) -> None:
        """`run` makes the calls on threads: one of the methods of `ThreadPools`."""
        self._on_threads, self._call, self._most = run, call, most
        self._waiting: FairQueue[tuple[Item, asyncio.Future[Outcome]]] = FairQueue()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, owner: object, item: Item) -> Outcome:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, (item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            began, batch = time.monotonic(), self._waiting.take(self._most)
            wanted = [(item, future) for item, future in batch if not future.done()]  # others have gone meanwhile
            try:
                outcomes = await self._on_threads(self._call, [item for item, _ in wanted]) if wanted else []
            except Exception as error:
                outcomes = [error] * len(wanted)
            for (_, future), outcome in zip(wanted, outcomes, strict=True):
                _settle(future, outcome)
            if self._waiting:
                await asyncio.sleep(_REST * (time.monotonic() - began))
        self._running = None


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    """Who no longer waits is not told."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
