"""The state that all sockets of a gateway share. It belongs to the thread of the event loop."""

from __future__ import annotations

import asyncio
from functools import cached_property, partial
from weakref import WeakValueDictionary

from headwater.gateway.server import Server
from headwater.gateway.web.call_batcher import Batcher
from headwater.gateway.web.heartbeat import Heartbeat
from headwater.gateway.web.limits.wide_queries import WideQueries
from headwater.gateway.web.outbox import Bell, Bodies
from headwater.gateway.web.subscribe_batch import Subscriber, SubscribeRequest, plan_all, subscribe_all
from headwater.gateway.web.thread_pools import ThreadPools
from headwater.model.limits import Limits
from headwater.plan.planner import Planned
from headwater.protocol.messages import Subscribe
from headwater.protocol.session import Share


class GatewayState:
    """What all sockets of a server have in common: encoded bodies, threads, and subscribing together."""

    def __init__(self, server: Server) -> None:
        self.bodies, self.workers = Bodies(), ThreadPools()
        self._server = server
        self.explains = 0  # under way
        self._shares: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self.subscribing: Batcher[SubscribeRequest, Planned | None] = Batcher(
            self.workers.quickly, partial(subscribe_all, server)
        )
        self.planning: Batcher[tuple[Subscriber, Subscribe], Planned] = Batcher(self.workers.quickly, plan_all, most=1)

    @cached_property
    def wide(self) -> WideQueries:
        return WideQueries(self._server.pipeline.limits)

    @cached_property
    def bell(self) -> Bell:
        return Bell(asyncio.get_running_loop())

    @cached_property
    def heartbeat(self) -> Heartbeat:
        interval_s = self._server.pipeline.limits.heartbeat_ms / 1000
        return Heartbeat(interval_s, partial(self.workers.quickly, self._server.hub.beat))

    def share_of(self, address: str, limits: Limits) -> Share:
        """What the sessions of one address hold together, as long as there is one."""
        share = self._shares.get(address)
        if share is None:
            share = self._shares[address] = Share(limits.subscriptions_per_address_max)
        return share
