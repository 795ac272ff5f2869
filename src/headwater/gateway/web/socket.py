"""One WebSocket: the I/O around `ServerSession`, which decides what messages mean.

The hub's thread puts messages into the outbox; a task on the event loop sends them. A socket that reads too slowly is
resynced, then closed; it never delays another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import groupby
from typing import assert_never

from starlette.websockets import WebSocket, WebSocketDisconnect

from headwater.gateway.hub.session import Joining, Session
from headwater.gateway.hub.window_cache import Resume
from headwater.gateway.server import Server
from headwater.gateway.web.call_batcher import Batcher
from headwater.gateway.web.gateway_state import GatewayState
from headwater.gateway.web.limits.bounded_protocols import TEXTS
from headwater.gateway.web.limits.socket_limits import SocketLimits
from headwater.gateway.web.outbox import Data, SocketOutbox
from headwater.gateway.web.socket_sink import SocketSink
from headwater.gateway.web.subscribe_batch import Subscriber, SubscribeRequest, plan_all
from headwater.gateway.web.thread_pools import PREPARED_AT_ONCE_MAX
from headwater.model.errors import HeadwaterError
from headwater.plan.planner import Planned
from headwater.plan.strategy import INCREMENTAL
from headwater.protocol.messages import (
    Message,
    Subscribe,
    Subscribed,
    WireColumn,
)
from headwater.protocol.session import Drop, HangUp, Open, Reach, Send, ServerSession, error_message
from headwater.protocol.values import from_wire
from headwater.sql.syntax.parameters import Given

_SLOW = 4408
_PREPARED_MAX = 3  # a template may go again, or be another one by then, before it is subscribed to
_LONG_SQL = 4 << 10
_TOO_SLOW = "client too slow: more than {:,} bytes of unsent messages; resume later"
_FAREWELL_S = 1.0
_PATIENCE_HEARTBEATS = 10
_log = logging.getLogger("headwater.socket")


class Socket:
    def __init__(self, websocket: WebSocket, server: Server, shared: GatewayState) -> None:
        self._websocket, self._server, self._shared = websocket, server, shared
        self._sends_together = TEXTS in websocket.scope.get("extensions", {})
        self._limits = server.pipeline.limits
        self._address = websocket.client.host if websocket.client else ""
        share = shared.share_of(self._address, self._limits)
        self._protocol = ServerSession(secrets.token_hex(8), limits=self._limits, share=share)
        self._allowance = SocketLimits(self._limits, time.monotonic())
        self._farewell = _SLOW, _TOO_SLOW.format(self._limits.outbox_bytes_max)
        self._outbox = SocketOutbox(shared.bell, self._limits.outbox_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self._sink = SocketSink(self._outbox, shared.bodies, self._ended, self._subscribed)
        self.session = server.hub.open(self._sink)
        self._opening: dict[str, asyncio.Task[None]] = {}  # the last of each id
        self._under_way = 0
        self._planning: Batcher[tuple[Subscriber, Subscribe], Planned] = Batcher(
            shared.workers.prepare, plan_all, most=1
        )
        self._preparing = asyncio.Semaphore(PREPARED_AT_ONCE_MAX)

    async def run(self) -> None:
        """Until the peer leaves, is sent away, or reads so slowly that it is given up."""
        tasks = [asyncio.create_task(each) for each in (self._receive(), self._send())]
        leave = self._shared.heartbeat.join(self)
        try:
            done, _ = await asyncio.wait([*tasks, self._over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leave()
            for task in (*tasks, *self._opening.values()):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._protocol.leave()
            await self._shared.workers.quickly(self._server.hub.close, self.session)
        if tasks[0] not in done:
            await self._send_away()

    async def _send_away(self) -> None:
        """A peer that reads nothing will not read this either; it is not waited for."""
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            await asyncio.wait_for(self._websocket.close(*self._farewell), _FAREWELL_S)

    def _ended(self, id: str) -> None:
        """Called by the hub's thread; the protocol belongs to the loop's."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._forget, id)

    def _forget(self, id: str) -> None:
        self._protocol.ended(id)
        self._allowance.forget(id)

    async def _receive(self) -> None:
        while True:
            frame = await self._websocket.receive()
            if frame["type"] == "websocket.disconnect":
                return
            await self._in_its_turn()
            data = frame.get("text") if frame.get("text") is not None else frame.get("bytes")
            if not await self._act(data or b""):
                return

    async def _in_its_turn(self) -> None:
        """Who sends faster than its share waits. Nothing is lost: the next message is read when this one is done."""
        if (wait_s := self._allowance.hear(time.monotonic())) > 0:
            await asyncio.sleep(wait_s)
        while self._under_way >= self._limits.subscribes_under_way_max:
            await asyncio.wait(self._opening.values(), return_when=asyncio.FIRST_COMPLETED)

    async def _act(self, data: str | bytes) -> bool:
        """Does what the protocol says; False when the conversation is over."""
        for action in self._protocol.receive(data):
            match action:
                case Send(message):
                    self._say(message)
                case Open(subscribe):
                    self._after(subscribe.id, partial(self._open, subscribe))
                case Drop(id, forget):
                    self._after(id, partial(self._drop, id, forget))
                case Reach(position):
                    await self._shared.workers.quickly(self._server.hub.await_position, self.session, position)
                case HangUp(code, reason):
                    await self._transmit(self._outbox.taken())
                    await self._websocket.close(code, reason)
                    return False
                case never:
                    assert_never(never)
        return True

    def _after(self, id: str, what: Callable[[], Awaitable[None]]) -> None:
        """What is asked of one subscription is done in the order it was asked."""
        before = self._opening.get(id)
        task = self._opening[id] = asyncio.create_task(_in_turn(before, what))
        self._under_way += 1
        task.add_done_callback(partial(self._is_done, id))

    def _is_done(self, id: str, task: asyncio.Task[None]) -> None:
        self._under_way -= 1
        if self._opening.get(id) is task:
            del self._opening[id]

    async def _drop(self, id: str, forget: bool) -> None:
        self._allowance.forget(id)
        await self._shared.workers.quickly(partial(self._server.hub.unsubscribe, self.session, id, forget=forget))

    async def _open(self, subscribe: Subscribe) -> None:
        """Plans and subscribes on a thread. Where the template is new, its tables are read first, on another one."""
        try:
            planned = await self._planned(subscribe)
            for _ in range(_PREPARED_MAX):
                unknown = await self._shared.subscribing(self, SubscribeRequest(self, subscribe, planned))
                if unknown is None:
                    return
                await self._shared.wide.admit(self._address, len(unknown.template.outputs))
                async with self._preparing:
                    planned = await self._shared.workers.prepare(self._server.hub.prepare, self.session, unknown)
            raise HeadwaterError("the tables of the query kept changing while it was set up", hint="try again")
        except Exception as error:
            self._forget(subscribe.id)
            self._say(error_message(_told(error), subscribe.id))

    async def _planned(self, subscribe: Subscribe) -> Planned | None:
        """None where it is known how: then those who subscribe at the same time are planned for together. A new text is
        asked of the database, which may let it wait for somebody's lock: that is waited for by this socket alone."""
        if _is_long(subscribe):
            await self._shared.wide.admit(self._address)  # who has to wait anyway is not planned for before
            return await self._shared.planning(self, (self, subscribe))
        if self._server.pipeline.has_plan(subscribe.sql, _given(subscribe)):
            return None
        return await self._planning(self, (self, subscribe))

    def plan(self, subscribe: Subscribe) -> Planned:
        planned = self._server.pipeline.plan(subscribe.sql, _given(subscribe))
        self._allowance.ask(subscribe.id, INCREMENTAL if planned.moved else planned.strategy)
        return planned

    def joining(self, subscribe: Subscribe, planned: Planned) -> Joining:
        """Says that the subscription is there; what it shows follows."""
        self._sink.send(self._subscribed(subscribe.id, planned))
        self._outbox.ring()
        resume = None if subscribe.resume_seq is None else Resume(subscribe.resume_seq, subscribe.resume_gen)
        return Joining(self.session, subscribe.id, planned, resume)

    def _subscribed(self, id: str, planned: Planned) -> Subscribed:
        template = planned.template
        columns = [
            WireColumn(output.name, output.expr.type.value if output.expr.type else "null")
            for output in template.outputs
        ]
        table = self._server.pipeline.table(template.table)
        query_id = f"{planned.instance.id:016x}"
        return Subscribed(
            id,
            query_id,
            columns,
            list(table.key) if table else [],
            planned.strategy,
            template.ordered,
            self._server.pipeline.gen,
            planned.moved,
        )

    def _say(self, message: Message) -> None:
        self._sink.send(message)
        self._outbox.ring()

    async def _send(self) -> None:
        """Sends what gathers; a flooded outbox that has drained is filled afresh, so many times and no more."""
        floods = 0
        while floods <= self._limits.outbox_resyncs_max:
            began = time.monotonic()
            while self._outbox.flooded_at is None:
                await self._transmit(await self._outbox.take())
            floods = 1 if time.monotonic() - began > self._patience_s else floods + 1
            if floods <= self._limits.outbox_resyncs_max:
                await self._renew()

    async def _renew(self) -> None:
        """A fresh result for each subscription, one after the other: the next when the one before is on its way."""
        hub = self._server.hub
        for id in await self._shared.workers.quickly(hub.interrupt, self.session, self._outbox.renew):
            await self._shared.workers.quickly(hub.renew, self.session, id)
            await self._transmit(self._outbox.taken())
            if self._outbox.flooded_at is not None:
                return

    async def _transmit(self, messages: list[Data]) -> None:
        """In one piece, as far as they are encoded already, where the server can."""
        for encoded, group in groupby(messages, key=lambda data: isinstance(data, bytes)):
            if encoded and self._sends_together:
                await self._websocket.send({"type": "websocket.send", TEXTS: list(group)})
                continue
            for data in group:
                text = data.decode() if isinstance(data, bytes) else await self._shared.workers.slowly(_text_of, data)
                await self._websocket.send_text(text)

    def beat(self) -> Session | None:
        """Over when the peer has stopped reading."""
        farewell = self._allowance.farewell(self._protocol, time.monotonic())
        if farewell is not None:
            self._farewell = farewell
        if farewell is not None or self._outbox.hopeless or self._is_flooded_for_long:
            if not self._over.done():
                self._over.set_result(None)
            return None
        return self.session

    def repeat(self) -> None:
        if self.session.position >= 0:
            self._sink.progress(self.session.position)

    @property
    def _is_flooded_for_long(self) -> bool:
        flooded_at = self._outbox.flooded_at
        return flooded_at is not None and time.monotonic() - flooded_at > self._patience_s

    @property
    def _patience_s(self) -> float:
        return _PATIENCE_HEARTBEATS * self._limits.heartbeat_ms / 1000


def _given(subscribe: Subscribe) -> Given:
    params = subscribe.params
    if isinstance(params, dict):
        return {name: from_wire(value) for name, value in params.items()}
    return [from_wire(value) for value in params]


def _is_long(subscribe: Subscribe) -> bool:
    """So long that planning it would hold up those who subscribe at the same time."""
    return len(subscribe.sql) > _LONG_SQL


def _text_of(encode: Callable[[], bytes]) -> str:
    return encode().decode()


async def _in_turn(before: asyncio.Task[None] | None, what: Callable[[], Awaitable[None]]) -> None:
    if before is not None:
        await asyncio.wait([before])
    await what()


def _told(error: Exception) -> HeadwaterError:
    """What a subscriber hears of an error; one that was never meant to happen is for the log, not for the wire."""
    if isinstance(error, HeadwaterError):
        return error
    id = secrets.token_hex(4)
    _log.error("a subscription failed with internal error %s", id, exc_info=error)
    return HeadwaterError(f"internal error (id {id})", hint="details are in the server log; please report it")
