"""One timer for all sockets of a gateway: each is asked once per heartbeat, a share of them at a time.

The sessions of a share are told of their positions in one piece, on another thread. It decides nothing: a socket says
whether it is over. It belongs to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Protocol

from headwater.gateway.hub.session import Session

_SHARES = 50  # of a heartbeat: a commit waits for the few sockets of one at most
_log = logging.getLogger("headwater.socket")


class Beating(Protocol):
    def beat(self) -> Session | None:
        """Once per heartbeat. The session that is to be told where it is; None for one that is over."""

    def repeat(self) -> None:
        """Tells the position of before: the hub is busy, and silence would look like a stall."""


class Heartbeat:
    """`tell` tells sessions of their positions."""

    def __init__(self, interval_s: float, tell: Callable[[Sequence[Session]], Awaitable[None]]) -> None:
        self._pause_s, self._tell = interval_s / _SHARES, tell
        self._shares: list[dict[int, Beating]] = [{} for _ in range(_SHARES)]
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None

    def join(self, socket: Beating) -> Callable[[], None]:
        """It beats until what is returned is called."""
        number = next(self._numbers)
        share = self._shares[number % _SHARES]
        share[number] = socket
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return lambda: self._leave(share, number)

    def _leave(self, share: dict[int, Beating], number: int) -> None:
        share.pop(number, None)
        if self._task is not None and not any(self._shares):
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        place = 0
        while True:
            pauses = self._until_next(place)
            await asyncio.sleep(pauses * self._pause_s)
            place = (place + pauses) % _SHARES
            try:
                self._beat(list(self._shares[place].values()))
            except Exception:
                _log.exception("the heartbeat of some sockets failed")

    def _until_next(self, place: int) -> int:
        """Where there are few sockets, most shares are empty, and nobody is woken for them."""
        return next((n for n in range(1, _SHARES) if self._shares[(place + n) % _SHARES]), _SHARES)

    def _beat(self, sockets: Sequence[Beating]) -> None:
        beaten = [(socket, session) for socket in sockets if (session := socket.beat()) is not None]
        if self._telling is not None and not self._telling.done():
            for socket, _ in beaten:
                socket.repeat()
        elif beaten:
            sessions = [session for _, session in beaten]
            self._telling = asyncio.get_running_loop().create_task(self._told(sessions))

    async def _told(self, sessions: Sequence[Session]) -> None:
        try:
            await self._tell(sessions)
        except Exception:
            _log.exception("the heartbeat of some sockets failed")
