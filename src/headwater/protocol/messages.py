"""The messages of `/v1/ws`, both ways, as values. Field `type` tells them apart. Nothing here opens a socket."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.model.errors import ProtocolError

PROTOCOL = 1


class Message(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    pass


# — client → server


class Hello(Message, frozen=True, omit_defaults=True, tag="hello"):
    token: str | None = None


class Subscribe(Message, frozen=True, omit_defaults=True, tag="subscribe"):
    id: str
    sql: str
    params: list[Any] | dict[str, Any] = []
    mode: str = "diff"
    resume_seq: int | None = None
    resume_gen: int | None = None


class Unsubscribe(Message, frozen=True, omit_defaults=True, tag="unsubscribe"):
    id: str
    forget: bool = False


class Ack(Message, frozen=True, omit_defaults=True, tag="ack"):
    id: str
    seq: int


class Await(Message, frozen=True, omit_defaults=True, tag="await"):
    """Somebody waits for this position: a `progress` is wanted as soon as it is reached, not with the heartbeat."""

    position: int


class Ping(Message, frozen=True, omit_defaults=True, tag="ping"):
    pass


FromClient = Hello | Subscribe | Unsubscribe | Ack | Await | Ping


# — server → client


class Welcome(Message, frozen=True, omit_defaults=True, tag="welcome"):
    session: str
    protocol: int
    heartbeat_ms: int
    limits: dict[str, int]


class WireColumn(msgspec.Struct, frozen=True):
    name: str
    type: str


class Subscribed(Message, frozen=True, omit_defaults=True, tag="subscribed"):
    id: str
    query_id: str
    columns: list[WireColumn]
    key: list[str]
    strategy: str
    ordered: bool
    gen: int
    reason: str = ""  # why it has another strategy than it was planned for


class WireResult(Message, frozen=True, omit_defaults=True, tag="result"):
    id: str
    seq: int
    prev: int
    gen: int
    position: int
    rows: list[list[Any]]
    hashes: list[str]
    columns: list[str]


class WireChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """An update carries only the columns that changed."""

    type: str
    new: dict[str, Any] | None = None
    old_hash: str | None = None
    new_hash: str | None = None
    old_index: int | None = None
    index: int | None = None


class WireDiff(Message, frozen=True, omit_defaults=True, tag="diff"):
    id: str
    seq: int
    prev: int
    gen: int
    position: int
    changes: list[WireChange]


class WireSwap(Message, frozen=True, omit_defaults=True, tag="swap"):
    id: str
    seq: int
    prev: int
    gen: int
    position: int
    pairs: list[tuple[int, int]]


class Ready(Message, frozen=True, omit_defaults=True, tag="ready"):
    id: str
    position: int


class Progress(Message, frozen=True, omit_defaults=True, tag="progress"):
    position: int


class Health(Message, frozen=True, omit_defaults=True, tag="health"):
    """Changes do not come just now, and why; without a failure: they do again."""

    failure: str | None = None


class Invalidated(Message, frozen=True, omit_defaults=True, tag="invalidated"):
    id: str
    seq: int


class ResyncMessage(Message, frozen=True, omit_defaults=True, tag="resync"):
    id: str
    reason: str


class Error(Message, frozen=True, omit_defaults=True, tag="error"):
    code: str
    message: str
    id: str | None = None
    hint: str | None = None
    at: tuple[int, int] | None = None
    retry_after_ms: int | None = None


class Closed(Message, frozen=True, omit_defaults=True, tag="closed"):
    id: str
    reason: str


class Pong(Message, frozen=True, omit_defaults=True, tag="pong"):
    pass


FromServer = (
    Welcome
    | Subscribed
    | WireResult
    | WireDiff
    | WireSwap
    | Ready
    | Progress
    | Health
    | Invalidated
    | ResyncMessage
    | Error
    | Closed
    | Pong
)

_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)  # the last from values nested without end
_ENCODER = msgspec.json.Encoder()
_FROM_CLIENT = msgspec.json.Decoder(FromClient)
_FROM_SERVER = msgspec.json.Decoder(FromServer)


def encode_message(message: Message) -> bytes:
    return _ENCODER.encode(message)


def decode_from_client(data: bytes | str) -> FromClient:
    try:
        message: FromClient = _FROM_CLIENT.decode(data)
    except _UNREADABLE as error:
        raise ProtocolError(
            f"cannot decode the message: {error}",
            hint="messages are JSON objects with a type: hello, subscribe, unsubscribe, ack, await or ping",
        ) from None
    return message


def decode_from_server(data: bytes | str) -> FromServer:
    try:
        message: FromServer = _FROM_SERVER.decode(data)
    except _UNREADABLE as error:
        raise ProtocolError(f"cannot decode the message: {error}") from None
    return message
