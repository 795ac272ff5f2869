"""The messages on their way to one socket: in order, limited in bytes; and the encoded bodies that sockets share.

Any thread fills it, the event loop empties it. It sends nothing itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.emission import Emission
from headwater.protocol.emissions import encode_body


class Bodies:
    """The encoded body of the last few emissions: encoded once, sent to all."""

    def __init__(self, most: int = 256) -> None:
        self._encoded: dict[int, tuple[Emission, bytes]] = {}
        self._most = most

    def of(self, emission: Emission) -> bytes:
        found = self._encoded.get(id(emission))
        if found is not None and found[0] is emission:
            return found[1]
        body = encode_body(emission)
        if len(self._encoded) >= self._most:
            self._encoded.clear()
        self._encoded[id(emission)] = (emission, body)
        return body


class Bell:
    """Wakes those who wait on an event loop, from any thread: many that are rung at a time wake the loop once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung: deque[asyncio.Event] = deque()
        self._is_under_way = False

    def ring(self, event: asyncio.Event) -> None:
        self._rung.append(event)
        if not self._is_under_way:
            self._is_under_way = True
            with contextlib.suppress(RuntimeError):  # the loop is gone, and so are the sockets
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._is_under_way = False  # before it looks: who rings from now on wakes the loop again
        while self._rung:
            self._rung.popleft().set()


Data = bytes | Callable[[], bytes]  # a message, or what encodes it


@dataclass(frozen=True, slots=True)
class Sent:
    data: Data
    size: int
    renewable: bool


class SocketOutbox:
    """Messages on their way to one socket, bounded in bytes; filled by any thread, emptied by the event loop.

    At the limit it is *flooded*: what a fresh result makes up for is dropped, and goes on being dropped until `renew`.
    """

    def __init__(self, bell: Bell, bytes_max: int) -> None:
        self._bell, self._bytes_max = bell, bytes_max
        self._lock = threading.Lock()
        self._messages: deque[Sent] = deque()
        self._bytes = self._largest = 0
        self._filled = asyncio.Event()
        self.flooded_at: float | None = None

    @property
    def hopeless(self) -> bool:
        """Even what nothing makes up for is too much."""
        return self.flooded_at is not None and self._bytes > self._bytes_max

    def put(self, data: Data, size: int | None = None, *, renewable: bool = False) -> None:
        """`size`: about so many bytes, where they are encoded later."""
        sent = Sent(data, len(data) if isinstance(data, bytes) else size or 0, renewable)
        with self._lock:
            if renewable and self.flooded_at is not None:
                return
            self._messages.append(sent)
            self._bytes += sent.size
            self._largest = max(self._largest, sent.size)
            if self._bytes - self._largest > self._bytes_max:  # one message always fits
                self._flood()

    def _flood(self) -> None:
        self.flooded_at = self.flooded_at or time.monotonic()
        self._messages = deque(message for message in self._messages if not message.renewable)
        self._bytes, self._largest = sum(message.size for message in self._messages), 0

    def renew(self) -> None:
        with self._lock:
            self.flooded_at = None

    def ring(self) -> None:
        self._bell.ring(self._filled)

    async def take(self) -> list[Data]:
        await self._filled.wait()
        self._filled.clear()
        return self.taken()

    def taken(self) -> list[Data]:
        """What is there now."""
        with self._lock:
            taken = [message.data for message in self._messages]
            self._messages.clear()
            self._bytes = self._largest = 0
        return taken
