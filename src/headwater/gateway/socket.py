"""One WebSocket: the shell around `ServerSession`. It moves bytes; what they mean is decided elsewhere.

The hub's thread puts messages into the outbox; a task on the event loop sends them. A socket that reads too slowly is
resynced, then closed; it never delays another.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from typing import assert_never

from starlette.websockets import WebSocket, WebSocketDisconnect

from headwater.gateway.server import Server
from headwater.gateway.window import Resume
from headwater.model.emission import Emission
from headwater.model.errors import HeadwaterError
from headwater.plan.planner import Planned
from headwater.protocol.emissions import encode_body, kind_of, with_id
from headwater.protocol.messages import (
    Closed,
    Error,
    Message,
    Progress,
    Ready,
    ResyncMessage,
    Subscribe,
    Subscribed,
    WireColumn,
    encode_message,
)
from headwater.protocol.session import Drop, HangUp, Open, Send, ServerSession, error_message
from headwater.protocol.values import from_wire

_SLOW = 4408


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


class Outbox:
    """Messages on their way to one socket, bounded in bytes; filled by any thread, emptied by the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int) -> None:
        self._loop, self._bytes_max = loop, bytes_max
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self.overflowed = False

    def put(self, data: bytes) -> None:
        self._bytes += len(data)
        self._messages.append(data)
        if self._bytes > self._bytes_max:
            self.overflowed = True

    def ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and so is the socket
            self._loop.call_soon_threadsafe(self._filled.set)

    async def take(self) -> list[bytes]:
        await self._filled.wait()
        self._filled.clear()
        taken = []
        while self._messages:
            data = self._messages.popleft()
            self._bytes -= len(data)
            taken.append(data)
        return taken


class SocketSink:
    """The hub's sink of one socket. Messages gather until the progress that makes them count, then go out together."""

    def __init__(self, outbox: Outbox, bodies: Bodies) -> None:
        self._outbox, self._bodies = outbox, bodies

    def emit(self, subscription: str, emission: Emission) -> None:
        self._outbox.put(with_id(kind_of(emission), subscription, self._bodies.of(emission)))

    def ready(self, subscription: str, position: int) -> None:
        self.send(Ready(subscription, position))

    def resync(self, subscription: str, reason: str) -> None:
        self.send(ResyncMessage(subscription, reason))

    def failed(self, subscription: str, reason: str) -> None:
        self.send(Error("window_error", reason, subscription))

    def closed(self, subscription: str, reason: str) -> None:
        self.send(Closed(subscription, reason))

    def progress(self, position: int) -> None:
        self.send(Progress(position))
        self._outbox.ring()

    def send(self, message: Message) -> None:
        self._outbox.put(encode_message(message))


class Socket:
    def __init__(self, websocket: WebSocket, server: Server, bodies: Bodies) -> None:
        self._websocket, self._server = websocket, server
        self._limits = server.pipeline.limits
        self._protocol = ServerSession(secrets.token_hex(8), limits=self._limits)
        self._outbox = Outbox(asyncio.get_running_loop(), self._limits.outbox_bytes_max)
        self._sink = SocketSink(self._outbox, bodies)
        self._session = server.hub.open(self._sink)
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        sending = asyncio.create_task(self._send())
        beating = asyncio.create_task(self._beat())
        try:
            await self._receive()
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            for task in (sending, beating, *self._opening):
                task.cancel()
            await asyncio.to_thread(self._server.hub.close, self._session)

    async def _receive(self) -> None:
        while True:
            frame = await self._websocket.receive()
            if frame["type"] == "websocket.disconnect":
                return
            data = frame.get("text") if frame.get("text") is not None else frame.get("bytes")
            if not await self._act(data or b""):
                return

    async def _act(self, data: str | bytes) -> bool:
        """Does what the protocol says; False when the conversation is over."""
        for action in self._protocol.receive(data):
            match action:
                case Send(message):
                    self._say(message)
                case Open(subscribe):
                    task = asyncio.create_task(self._open(subscribe))
                    self._opening.add(task)
                    task.add_done_callback(self._opening.discard)
                case Drop(id, forget):
                    await asyncio.to_thread(self._server.hub.unsubscribe, self._session, id, forget=forget)
                case HangUp(code, reason):
                    await self._flush()
                    await self._websocket.close(code, reason)
                    return False
                case never:
                    assert_never(never)
        return True

    async def _open(self, subscribe: Subscribe) -> None:
        """Plans and subscribes on a thread: a slow hydration delays nobody else."""
        try:
            await asyncio.to_thread(self._subscribe, subscribe)
        except HeadwaterError as error:
            self._protocol.ended(subscribe.id)
            self._say(error_message(error, subscribe.id))

    def _subscribe(self, subscribe: Subscribe) -> None:
        params = subscribe.params
        given = (
            {name: from_wire(value) for name, value in params.items()}
            if isinstance(params, dict)
            else [from_wire(value) for value in params]
        )
        planned = self._server.pipeline.plan(subscribe.sql, given)
        self._sink.send(self._subscribed(subscribe.id, planned))
        self._outbox.ring()
        resume = None if subscribe.resume_seq is None else Resume(subscribe.resume_seq, subscribe.resume_gen)
        self._server.hub.subscribe(self._session, subscribe.id, planned, resume)

    def _subscribed(self, id: str, planned: Planned) -> Subscribed:
        template = planned.template
        columns = [
            WireColumn(output.name, output.expr.type.value if output.expr.type else "null")
            for output in template.outputs
        ]
        key = self._server.pipeline.table(template.table).key
        query_id = f"{planned.instance.id:016x}"
        return Subscribed(
            id, query_id, columns, list(key), planned.strategy, template.ordered, self._server.pipeline.gen
        )

    def _say(self, message: Message) -> None:
        self._sink.send(message)
        self._outbox.ring()

    async def _send(self) -> None:
        while True:
            for data in await self._outbox.take():
                await self._websocket.send_text(data.decode())
            if self._outbox.overflowed:
                await self._websocket.close(_SLOW, "expected a reader that keeps up, found one too slow: resume later")
                return

    async def _flush(self) -> None:
        await asyncio.sleep(0)
        self._outbox.ring()
        await asyncio.sleep(0.01)

    async def _beat(self) -> None:
        """Silence is not a stall: a progress now and then, whatever happens."""
        while True:
            await asyncio.sleep(self._limits.heartbeat_ms / 1000)
            if self._session.position >= 0:
                self._say(Progress(self._session.position))
