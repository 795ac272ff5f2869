"""Plans and logs the subscribe messages of several sockets together: one write to the log instead of one per message.

It is called on a thread, never on that of the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.gateway.hub.session import Joining, Session
from headwater.gateway.server import Server
from headwater.plan.planner import Planned
from headwater.protocol.messages import Subscribe
from headwater.runtime.switch_interval import yielding


class Subscriber(Protocol):
    """A socket, as far as it is needed to subscribe."""

    session: Session

    def plan(self, subscribe: Subscribe) -> Planned: ...

    def joining(self, subscribe: Subscribe, planned: Planned) -> Joining:
        """Says that the subscription is there; what it shows follows."""


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """What a socket asked for, and its plan where that is known."""

    socket: Subscriber
    subscribe: Subscribe
    planned: Planned | None = None


def plan_all(asked: Sequence[tuple[Subscriber, Subscribe]]) -> list[Planned | Exception]:
    """One at a time, of every socket in turn, and others go on meanwhile."""
    with yielding():
        return [socket.plan(subscribe) for socket, subscribe in asked]


def subscribe_all(server: Server, asked: Sequence[SubscribeRequest]) -> list[Planned | Exception | None]:
    """For each: nothing when it has joined, its plan when the template must be prepared first, or what was wrong. The
    next come when the cells have taken these: so that a commit finds few of them before it in the log."""
    with yielding():
        outcomes = _joined(server, asked)
        server.hub.settle()
    return outcomes


def _joined(server: Server, asked: Sequence[SubscribeRequest]) -> list[Planned | Exception | None]:
    outcomes: list[Planned | Exception | None] = [None] * len(asked)
    joining: dict[int, Joining] = {}
    for number, one in enumerate(asked):
        socket, subscribe = one.socket, one.subscribe
        try:
            planned = one.planned or socket.plan(subscribe)
            if server.pipeline.names(planned.template.id) is None:
                outcomes[number] = planned
            else:
                planned = server.hub.prepare(socket.session, planned)
                joining[number] = socket.joining(subscribe, planned)
        except Exception as error:
            outcomes[number] = error
    for number, refused in zip(joining, server.hub.subscribe_all(list(joining.values())), strict=True):
        outcomes[number] = refused
    return outcomes
