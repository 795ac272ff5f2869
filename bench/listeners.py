"""`python -m bench.listeners URL SOCKETS SUBSCRIPTIONS`: an audience in a process of its own.

Subscribes to a row of `ticks` each, says `ready` when all have their result, and listens until its input ends. Then it
prints of each change when it came, and how long after its commit, in seconds, one a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect

_SQL = "SELECT id, committing FROM ticks WHERE id = ?"
_AT_ONCE = 200
_DEADLINE_S = 1800.0
Heard = tuple[float, float]


@dataclass(slots=True)
class Audience:
    """A process that listens; what it `heard` is known when it ends: when, and how late."""

    process: subprocess.Popen[str]
    heard: list[Heard] = field(default_factory=list)

    def end(self) -> None:
        out, _ = self.process.communicate()
        lines = [line.split() for line in out.splitlines() if line]
        self.heard = [(float(at), float(late)) for at, late in lines]


@contextlib.contextmanager
def audience(url: str, sockets: int, subscriptions: int) -> Iterator[Audience]:
    """Those that listen, once all have their result."""
    command = [sys.executable, "-m", "bench.listeners", url, str(sockets), str(subscriptions)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    here = Audience(process)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("expected an audience that is ready, found one that ended")
        yield here
        here.end()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


class Listener:
    """One socket; its subscriptions are numbered from `first` in steps of `step`."""

    def __init__(self, numbers: range, heard: list[Heard]) -> None:
        self._numbers, self._heard, self._missing = numbers, heard, len(numbers)
        self.ready = asyncio.Event()

    async def run(self, url: str, opening: asyncio.Semaphore) -> None:
        async with opening:
            socket = await connect(url, max_size=None, open_timeout=120, ping_interval=None, compression=None)
        async with socket:
            await socket.send('{"type": "hello"}')
            asking = asyncio.create_task(self._ask(socket))
            async for message in socket:
                self._hear(json.loads(message))
            await asking

    async def _ask(self, socket: ClientConnection) -> None:
        for number in self._numbers:
            await socket.send(json.dumps({"type": "subscribe", "id": f"{number}", "sql": _SQL, "params": [number]}))

    def _hear(self, message: dict[str, object]) -> None:
        match message:
            case {"type": "ready"}:
                self._missing -= 1
                if self._missing == 0:
                    self.ready.set()
            case {"type": "diff", "changes": [{"new": {"committing": float(at)}}]}:
                now = time.monotonic()
                self._heard.append((now, now - at))
            case {"type": "error"}:
                raise RuntimeError(message)
            case _:
                pass


async def _all_ready(listeners: list[Listener]) -> None:
    for one in listeners:
        await one.ready.wait()


async def _listen(url: str, sockets: int, subscriptions: int) -> None:
    heard: list[Heard] = []
    opening = asyncio.Semaphore(_AT_ONCE)
    listeners = [Listener(range(n, subscriptions, sockets), heard) for n in range(sockets)]
    tasks = [asyncio.create_task(one.run(url, opening)) for one in listeners]
    ready = asyncio.create_task(_all_ready(listeners))
    await asyncio.wait([ready, *tasks], timeout=_DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        raise RuntimeError("expected every subscription to be ready, found a socket that ended")
    heard.clear()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(*(f"{at} {late}" for at, late in heard), sep="\n", flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(_listen(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
