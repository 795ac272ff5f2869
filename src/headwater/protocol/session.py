"""The server's side of a session as a pure state machine: messages in, actions out. It opens no socket.

state   hello      subscribe              unsubscribe      ack              await            ping
new     → open     error, hang up         error, hang up   error, hang up   error, hang up   pong
open    error      open a subscription    drop it          note             await it         pong
ended   nothing is accepted, nothing is said

A frame that does not read is an error in any state, and one that is too large ends the session.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.errors import HeadwaterError, LimitExceeded, PermissionDenied, ProtocolError, SqlError
from headwater.model.limits import DEFAULT, Limits
from headwater.protocol.bounds import byte_size, excess
from headwater.protocol.messages import (
    PROTOCOL,
    Ack,
    Await,
    Error,
    Hello,
    Message,
    Ping,
    Pong,
    Subscribe,
    Unsubscribe,
    Welcome,
    decode_from_client,
)

UNEXPECTED, UNADMITTED, TOO_LARGE = 4400, 4401, 1009  # WebSocket close codes
_MODES = ("diff",)
_NO_HELLO = ProtocolError("expected hello first", hint='send {"type": "hello"} before anything else')
_NO_TOKEN = PermissionDenied("the token is missing or not valid", hint="send it with hello")
_HELLO_AGAIN = ProtocolError("hello was sent already", hint="send it once per session")


class Phase(enum.Enum):
    NEW = "new"
    OPEN = "open"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class Open:
    """Start this subscription; its messages follow when it has something to say."""

    subscribe: Subscribe


@dataclass(frozen=True, slots=True)
class Drop:
    id: str
    forget: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """Somebody waits for this position."""

    position: int


@dataclass(frozen=True, slots=True)
class HangUp:
    """WebSocket close code and reason."""

    code: int
    reason: str


@dataclass(slots=True, weakref_slot=True)
class Share:
    """The subscriptions that all sessions of one client hold together."""

    most: int
    held: int = 0


Action = Send | Open | Drop | Reach | HangUp


class ServerSession:
    def __init__(
        self,
        id: str,
        *,
        limits: Limits = DEFAULT,
        admit: Callable[[str | None], bool] | None = None,
        share: Share | None = None,
    ) -> None:
        self.id, self._limits, self._admit = id, limits, admit
        self._share = share or Share(limits.subscriptions_per_address_max)
        self.phase = Phase.NEW
        self.subscriptions: dict[str, int] = {}  # the bytes of what was asked
        self._bytes = 0
        self.acked: dict[str, int] = {}

    def receive(self, data: bytes | str) -> list[Action]:
        """What to do about a frame. A wrong message costs the sender an `error`, and nobody else anything."""
        if self.phase is Phase.ENDED:
            return []
        size = byte_size(data)
        if size > self._limits.message_bytes_max:
            error = LimitExceeded(f"expected messages of at most {self._limits.message_bytes_max} bytes")
            return self._hang_up(TOO_LARGE, error)
        try:
            message = decode_from_client(data)
        except ProtocolError as error:
            return [Send(error_message(error))]
        if self.phase is not Phase.OPEN:
            return self._new(message)
        refused = excess(message, size, self._limits)
        if refused is not None:
            return [Send(error_message(refused, _id_of(message, self._limits.id_bytes_max)))]
        return self._opened(message, size)

    def ended(self, id: str) -> None:
        """The subscription is over from our side."""
        size = self.subscriptions.pop(id, None)
        if size is not None:
            self._bytes -= size
            self._share.held -= 1
        self.acked.pop(id, None)

    def leave(self) -> None:
        """The session is over, and with it all that it held."""
        self.phase = Phase.ENDED
        for id in list(self.subscriptions):
            self.ended(id)

    def _hang_up(self, code: int, error: HeadwaterError) -> list[Action]:
        self.phase = Phase.ENDED
        return [Send(error_message(error)), HangUp(code, error.message)]

    def _new(self, message: Message) -> list[Action]:
        match message:
            case Hello(token):
                if self._admit is not None and not self._admit(token):
                    return self._hang_up(UNADMITTED, _NO_TOKEN)
                self.phase = Phase.OPEN
                return [Send(self._welcome())]
            case Ping():
                return [Send(Pong())]
            case _:
                return self._hang_up(UNEXPECTED, _NO_HELLO)

    def _opened(self, message: Message, size: int) -> list[Action]:
        match message:
            case Subscribe():
                return [self._subscribe(message, size)]
            case Unsubscribe(id, forget):
                if id not in self.subscriptions:
                    return [Send(Error("unknown_subscription", f"no subscription has the id {id!r}", id))]
                self.ended(id)
                return [Drop(id, forget)]
            case Ack(id, seq):
                if id in self.subscriptions:
                    self.acked[id] = max(seq, self.acked.get(id, 0))
                return []
            case Await(position):
                return [Reach(position)]
            case Ping():
                return [Send(Pong())]
            case _:
                return [Send(error_message(_HELLO_AGAIN))]

    def _subscribe(self, subscribe: Subscribe, size: int) -> Action:
        refusal = self._refusal(subscribe) or self._shortage(size)
        if refusal is not None:
            return Send(error_message(refusal, subscribe.id))
        self.subscriptions[subscribe.id] = size
        self._bytes += size
        self._share.held += 1
        return Open(subscribe)

    def _refusal(self, subscribe: Subscribe) -> HeadwaterError | None:
        if subscribe.id in self.subscriptions:
            return ProtocolError(f"the id {subscribe.id!r} is in use", hint="unsubscribe it first")
        if subscribe.mode not in _MODES:
            return ProtocolError(f"expected mode {' or '.join(_MODES)}, found {subscribe.mode[:100]!r}")
        return None

    def _shortage(self, size: int) -> LimitExceeded | None:
        """What this client has used up. Others may wait as well as it can: it is told when to ask again."""
        most, bytes_max = self._limits.subscriptions_per_session_max, self._limits.subscriptions_bytes_max
        wait_ms = self._limits.retry_ms
        if len(self.subscriptions) >= most:
            hint = "unsubscribe some, or open another session"
            return LimitExceeded(
                f"too many subscriptions: at most {most} per session", hint=hint, retry_after_ms=wait_ms
            )
        if self._bytes + size > bytes_max:
            said = f"subscriptions too large: at most {bytes_max} bytes per session, SQL and parameters together"
            return LimitExceeded(said, hint="unsubscribe some", retry_after_ms=wait_ms)
        if self._share.held >= self._share.most:
            said = f"too many subscriptions: at most {self._share.most} for all sessions of one client"
            return LimitExceeded(said, hint="unsubscribe some", retry_after_ms=wait_ms)
        return None

    def _welcome(self) -> Welcome:
        limits = {
            "subscriptions": self._limits.subscriptions_per_session_max,
            "message_bytes": self._limits.message_bytes_max,
            "sql_bytes": self._limits.sql_bytes_max,
            "id_bytes": self._limits.id_bytes_max,
            "params": self._limits.params_max,
            "params_bytes": self._limits.params_bytes_max,
        }
        return Welcome(self.id, PROTOCOL, self._limits.heartbeat_ms, limits)


def error_message(error: HeadwaterError, id: str | None = None) -> Error:
    at = error.at if isinstance(error, SqlError) else None
    wait_ms = error.retry_after_ms if isinstance(error, LimitExceeded) else None
    return Error(error.code, error.message, id, error.hint, at, wait_ms)


def _id_of(message: Message, bytes_max: int) -> str | None:
    """Whom a refusal is for; an id that is itself too long is not sent back."""
    id = getattr(message, "id", None)
    return id if isinstance(id, str) and byte_size(id) <= bytes_max else None
