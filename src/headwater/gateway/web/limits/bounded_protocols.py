"""uvicorn's HTTP and WebSocket protocols with limits: connections per address, time for a request or a message to be
complete, pings and fragments. They close what exceeds a limit, and never interpret a message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request

from headwater.gateway.web.limits.token_bucket import TokenBucket
from headwater.model.limits import Limits

CROWDED = "crowded"  # in the state of a request whose address has too many connections: it is answered, and no more
_CROWD_FACTOR = 2  # with so many times the limit nothing is answered either
_FRAGMENTS_MAX = 1_024  # of one message; empty ones would have no end
_PINGS_PER_S_MAX, _PINGS_BURST = 20, 200
_UNSENT_BYTES_MAX = 1 << 20  # of pongs to a peer that reads nothing
TEXTS = "headwater.texts"  # an extension of the scope, and what a message holds then: texts that are sent in one piece
_POLICY, _TOO_BIG = 1008, 1009  # WebSocket close codes
_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connections:
    """The open connections of each address."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._address: dict[asyncio.Transport, str] = {}  # who has gone cannot be asked
        self._count: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._address)

    def enter(self, transport: asyncio.Transport, address: str) -> float:
        """How full its address is then; past 1 there is no room for it."""
        self._address[transport] = address
        self._count[address] += 1
        return self._count[address] / self._most

    def leave(self, transport: asyncio.Transport) -> None:
        address = self._address.pop(transport, None)
        if address is not None:
            self._count[address] -= 1
            if not self._count[address]:
                del self._count[address]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one server: its two protocols count their connections together."""

    limits: Limits
    connections: Connections

    @classmethod
    def of(cls, limits: Limits) -> Bounds:
        return cls(limits, Connections(limits.sockets_per_address_max))

    def http(self) -> type[BoundedHttp]:
        return type("Http", (BoundedHttp,), {"bounds": self})

    def websocket(self) -> type[BoundedWebSocket]:
        return type("WebSocket", (BoundedWebSocket,), {"bounds": self})


class Deadline:
    """One timer that is armed once and disarmed once it does not matter."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after_s: float, late: Callable[[], None]) -> None:
        self._loop, self._after_s, self._late = loop, after_s, late
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._after_s, self._expire)

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        self._late()


class BoundedHttp(H11Protocol):
    """A request has to be whole in time, its body too; between two of them uvicorn's own keep-alive limit holds."""

    bounds: ClassVar[Bounds]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline = Deadline(self.loop, self.bounds.limits.request_ms_max / 1000, self._expire)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        full = self.bounds.connections.enter(transport, self.client[0] if self.client else "")
        if full > _CROWD_FACTOR:
            transport.abort()
        elif full > 1:
            self.app_state = {**self.app_state, CROWDED: True}
        self._deadline.arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.connections.leave(self.transport)
        self._deadline.disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            self._deadline.arm()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY) or self.transport.get_protocol() is not self:
            self._deadline.disarm()

    def _expire(self) -> None:
        if self.conn.our_state is h11.IDLE:
            self.transport.write(_LATE)
        self.transport.close()


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A message that has begun has to be whole in time, and in so many pieces; pings come at a rate. Several messages
    may be sent as one: a system call each would cost more than what they say."""

    bounds: ClassVar[Bounds]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline = Deadline(self.loop, self.bounds.limits.request_ms_max / 1000, self._expire)
        self._pings = TokenBucket(_PINGS_PER_S_MAX, _PINGS_BURST, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.connections.leave(self.transport)
        self._deadline.disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_between():
            self._deadline.disarm()
        else:
            self._deadline.arm()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["extensions"][TEXTS] = {}

    async def send(self, message: Any) -> None:
        if TEXTS not in message:
            await super().send(message)
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        try:
            for text in message[TEXTS]:
                self.conn.send_text(text)
        except InvalidState as error:
            raise ClientDisconnected from error
        self.transport.write(b"".join(self.conn.data_to_send()))

    def send_receive_event_to_app(self) -> None:
        self._deadline.disarm()  # the next one has its own time
        super().send_receive_event_to_app()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= _FRAGMENTS_MAX:
            return self._fail(_TOO_BIG, f"more than {_FRAGMENTS_MAX} fragments")
        return super().handle_cont(event)

    def handle_ping(self) -> None:
        if self._pings.take(self.loop.time()) > 0 or self.transport.get_write_buffer_size() > _UNSENT_BYTES_MAX:
            return self._fail(_POLICY, "too many pings")
        return super().handle_ping()

    def _is_between(self) -> bool:
        """Whether no part of a message is here; one that is not read on, because we are busy, is not late."""
        return not (self.frames or self.conn.reader.buffer)

    def _expire(self) -> None:
        if self.read_paused:
            self._deadline.arm()
        else:
            self._fail(_POLICY, "a message was not complete in time")

    def _fail(self, code: int, reason: str) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()
