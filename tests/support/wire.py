"""A TCP connection to a gateway that says whatever bytes it is told to: what no client library would."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

from tests.support.databases import Place

TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
_HEAD = (
    "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Wire:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def upgrade(self, *, hello: bool = True) -> Wire:
        self.send(_HEAD.encode())
        assert b"101" in self._socket.recv(4096)
        if hello:
            self.say({"type": "hello"})
        return self

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def say(self, message: Any) -> None:
        self.send(frame(TEXT, json.dumps(message).encode()))

    def some(self) -> bytes:
        return self._socket.recv(1 << 16)

    def rest(self) -> bytes:
        """All that comes until the peer has closed; a reset is an end too."""
        heard = b""
        with contextlib.suppress(ConnectionError):
            while data := self._socket.recv(1 << 16):
                heard += data
        return heard

    def flood(self, data: bytes, times: int) -> None:
        """As often as the peer takes it; without reading."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            for _ in range(times):
                self._socket.sendall(data)


def frame(opcode: int, body: bytes = b"", *, fin: bool = True) -> bytes:
    """Masked, with zeros."""
    size = len(body)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = bytes([0x80 | 126]) + size.to_bytes(2)
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8)
    return bytes([(0x80 if fin else 0) | opcode]) + length + bytes(4) + body


@contextlib.contextmanager
def wire(here: Place, timeout_s: float = 120.0) -> Iterator[Wire]:
    host, _, port = here.url.removeprefix("ws://").partition(":")
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        yield Wire(connection)
