"""One timer for all sockets of a gateway: each is asked once per heartbeat, a share of them at a time.

It decides nothing: a socket says what it needs, and when it is over. It belongs to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count

Beat = Callable[[], None]
_SHARES = 10  # of a heartbeat: so many sockets at a time that no commit waits for all of them
_log = logging.getLogger("headwater.socket")


class Heartbeat:
    def __init__(self, interval_s: float) -> None:
        self._pause_s = interval_s / _SHARES
        self._shares: list[dict[int, Beat]] = [{} for _ in range(_SHARES)]
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None

    def join(self, beat: Beat) -> Callable[[], None]:
        """`beat` is called once per heartbeat, until what is returned is called."""
        number = next(self._numbers)
        share = self._shares[number % _SHARES]
        share[number] = beat
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return lambda: self._leave(share, number)

    def _leave(self, share: dict[int, Beat], number: int) -> None:
        share.pop(number, None)
        if self._task is not None and not any(self._shares):
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        for number in count():
            await asyncio.sleep(self._pause_s)
            for beat in list(self._shares[number % _SHARES].values()):
                try:
                    beat()
                except Exception:
                    _log.exception("the heartbeat of a socket failed")
