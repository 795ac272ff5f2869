"""The hub's sink of one socket: turns what the hub tells a session into messages in the outbox. It sends nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from headwater.gateway.web.outbox import Bodies, SocketOutbox
from headwater.model.emission import Emission, Result
from headwater.plan.planner import Planned
from headwater.protocol.emissions import kind_of, with_id
from headwater.protocol.messages import (
    Closed,
    Error,
    Health,
    Message,
    Progress,
    Ready,
    ResyncMessage,
    Subscribed,
    encode_message,
)

_MANY_VALUES = 10_000  # of a result; encoding so many takes milliseconds
_VALUE_BYTES = 8  # about as many on the wire


class SocketSink:
    """The hub's sink of one socket. Messages gather until the progress that makes them count, then go out together."""

    def __init__(
        self,
        outbox: SocketOutbox,
        bodies: Bodies,
        ended: Callable[[str], None],
        subscribed: Callable[[str, Planned], Subscribed],
    ) -> None:
        self._outbox, self._bodies, self._ended, self._subscribed = outbox, bodies, ended, subscribed

    def emit(self, subscription: str, emission: Emission) -> None:
        """A large result is encoded when it is sent: the hub's thread serves others, too."""
        if isinstance(emission, Result) and (values := len(emission.rows) * len(emission.columns)) > _MANY_VALUES:
            self._outbox.put(partial(self._encoded, subscription, emission), values * _VALUE_BYTES, renewable=True)
        else:
            self._outbox.put(self._encoded(subscription, emission), renewable=True)

    def _encoded(self, subscription: str, emission: Emission) -> bytes:
        return with_id(kind_of(emission), subscription, self._bodies.of(emission))

    def ready(self, subscription: str, position: int) -> None:
        self._outbox.put(encode_message(Ready(subscription, position)), renewable=True)

    def replanned(self, subscription: str, planned: Planned) -> None:
        self.send(self._subscribed(subscription, planned))

    def resync(self, subscription: str, reason: str) -> None:
        self.send(ResyncMessage(subscription, reason))

    def failed(self, subscription: str, reason: str) -> None:
        self.send(Error("window_error", reason, subscription))

    def closed(self, subscription: str, reason: str) -> None:
        self._ended(subscription)
        self.send(Closed(subscription, reason))
        self._outbox.ring()

    def health(self, failure: str | None) -> None:
        self.send(Health(failure))
        self._outbox.ring()

    def progress(self, position: int) -> None:
        self._outbox.put(_progress(position), renewable=True)
        self._outbox.ring()

    def send(self, message: Message) -> None:
        self._outbox.put(encode_message(message))


@lru_cache(maxsize=16)
def _progress(position: int) -> bytes:
    """The same for all sockets."""
    return encode_message(Progress(position))
