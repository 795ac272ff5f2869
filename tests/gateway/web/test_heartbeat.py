"""The one timer of all sockets: who is over is left out, and a busy hub makes nobody silent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.gateway.hub.session import Session
from headwater.gateway.web.heartbeat import Heartbeat
from tests.gateway.hub.test_audience import Heard
from tests.support.looping import run


@dataclass(slots=True, eq=False)
class Quiet:
    """A socket that counts."""

    session: Session
    is_over: bool = False
    repeated: int = 0

    def beat(self) -> Session | None:
        return None if self.is_over else self.session

    def repeat(self) -> None:
        self.repeated += 1


def test_a_share_is_told_in_one_piece_and_who_is_over_is_not() -> None:
    async def beats() -> None:
        told: asyncio.Queue[Sequence[Session]] = asyncio.Queue()
        heartbeat = Heartbeat(0.001, told.put)
        sockets = [Quiet(Session(Heard()), is_over=number % 2 == 1) for number in range(40)]
        leave = [heartbeat.join(socket) for socket in sockets]
        mine = {socket.session for socket in sockets if not socket.is_over}
        heard: set[Session] = set()
        while heard < mine:
            heard |= set(await told.get())
        assert heard == mine
        for each in leave:
            each()
        assert heartbeat._task is None

    run(asyncio.wait_for(beats(), 120))


def test_while_the_hub_is_busy_the_last_position_is_repeated() -> None:
    async def beats() -> None:
        free, told = asyncio.Event(), asyncio.Event()

        async def tell(sessions: Sequence[Session]) -> None:
            told.set()
            await free.wait()

        heartbeat, socket = Heartbeat(0.001, tell), Quiet(Session(Heard()))
        leave = heartbeat.join(socket)
        await told.wait()
        while socket.repeated < 2:
            await asyncio.sleep(0)
        free.set()
        leave()

    run(asyncio.wait_for(beats(), 120))


def test_a_hub_that_fails_stops_no_heartbeat() -> None:
    async def beats() -> None:
        times, again = 0, asyncio.Event()

        async def tell(sessions: Sequence[Session]) -> None:
            nonlocal times
            times += 1
            if times == 1:
                raise RuntimeError("the hub failed")
            again.set()

        leave = (heartbeat := Heartbeat(0.001, tell)).join(Quiet(Session(Heard())))
        await again.wait()
        assert heartbeat._task is not None
        leave()

    run(asyncio.wait_for(beats(), 120))
