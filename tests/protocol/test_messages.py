"""Messages to JSON and back, both ways; and what a peer of another version may send."""

from __future__ import annotations

import json

import pytest

from headwater.model.errors import ProtocolError
from headwater.protocol.messages import (
    Ack,
    Closed,
    Error,
    Hello,
    Invalidated,
    Message,
    Ping,
    Pong,
    Progress,
    Ready,
    ResyncMessage,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Welcome,
    WireChange,
    WireColumn,
    WireDiff,
    WireResult,
    WireSwap,
    decode_from_client,
    decode_from_server,
    encode_message,
)

FROM_CLIENT: list[Message] = [
    Hello(),
    Hello("token"),
    Subscribe("a", "SELECT 1"),
    Subscribe("a", "SELECT ?", [1, None, "x", {"$bytes": ""}], "diff", 5, 2),
    Subscribe("a", "SELECT :n", {"n": 1.5}),
    Unsubscribe("a"),
    Unsubscribe("a", True),
    Ack("a", 2**60),
    Ping(),
]
FROM_SERVER: list[Message] = [
    Welcome("s", 1, 1000, {"sql_bytes": 1}),
    Subscribed("a", "q", [WireColumn("id", "integer")], ["id"], "incremental", True, 3),
    WireResult("a", 1, 0, 3, 9, [[1, None], ["x", {"$int": "9"}]], ["h", "i"], ["a", "b"]),
    WireDiff("a", 2, 1, 3, 10, [WireChange("insert", {"a": 1}, None, "h", None, 0)]),
    WireDiff("a", 2, 1, 3, 10, []),
    WireSwap("a", 3, 2, 3, 11, [(0, 1)]),
    Ready("a", 9),
    Progress(9),
    Invalidated("a", 2),
    ResyncMessage("a", "overflow"),
    Error("sql_error", "no", "a", "hint", (1, 2)),
    Error("protocol_error", "no"),
    Closed("a", "the table is gone"),
    Pong(),
]


@pytest.mark.parametrize("message", FROM_CLIENT, ids=repr)
def test_what_a_client_says_is_understood(message: Message) -> None:
    assert decode_from_client(encode_message(message)) == message
    assert decode_from_client(encode_message(message).decode()) == message


@pytest.mark.parametrize("message", FROM_SERVER, ids=repr)
def test_what_a_server_says_is_understood(message: Message) -> None:
    assert decode_from_server(encode_message(message)) == message


@pytest.mark.parametrize("message", FROM_SERVER + FROM_CLIENT, ids=repr)
def test_a_message_begins_with_its_type(message: Message) -> None:
    assert next(iter(json.loads(encode_message(message)))) == "type"


def test_fields_of_a_newer_version_are_passed_over() -> None:
    assert decode_from_client('{"type":"hello","colour":"blue"}') == Hello()
    assert decode_from_server('{"type":"progress","position":4,"lag_ms":1}') == Progress(4)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"subscribe","id":"a"}',
        '{"type":"subscribe","id":1,"sql":""}',
        '{"type":"subscribe","id":"a","sql":"","params":1}',
        '{"type":"ack","id":"a","seq":"1"}',
        '{"type":"ack","id":"a","seq":1.5}',
        '{"type":"diff","id":"a"}',
        '{"id":"a"}',
        "null",
        "",
    ],
)
def test_what_is_no_message_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ProtocolError, match="cannot decode the message"):
        decode_from_client(text)
    with pytest.raises(ProtocolError, match="cannot decode the message"):
        decode_from_server(text)
