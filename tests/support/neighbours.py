"""Someone who minds their own business: a second subscriber that must not notice what befalls others."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from websockets.sync.client import ClientConnection, connect

import headwater
from tests.support.databases import Place, values


class Neighbour:
    """A live query over a socket of its own, on a table of its own, that was never anything but ready."""

    def __init__(self, here: Place, live: headwater.LiveResult) -> None:
        self._here, self._live, self._count = here, live, 0
        self._told: list[Any] = []
        live.listen(self._told.append)

    def lives(self) -> None:
        """Still there, still in time, and nothing ever told twice or taken back."""
        self._count += 1
        assert self._live.wait(self._here.write("INSERT INTO calm VALUES (?)", self._count))
        assert self._live.state == "ready" and self._live.resyncs == 0
        assert sorted(values(self._live)) == list(range(1, self._count + 1))
        assert not any(emission is None or isinstance(emission, headwater.Result) for emission in self._told)
        assert self._here.db.status()["failure"] is None


@contextlib.contextmanager
def neighbour(here: Place) -> Iterator[Neighbour]:
    here.write("CREATE TABLE calm (id INTEGER PRIMARY KEY)")
    with headwater.connect(here.url) as db:
        found = Neighbour(here, db.query("SELECT id FROM calm", live=True))
        found.lives()
        yield found
        found.lives()


class Raw:
    """A socket and nothing else: says what no client would."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def say(self, message: Any) -> None:
        self._socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def hear(self, *kinds: str) -> dict[str, Any]:
        """The next message of one of these types; the others are passed over."""
        while True:
            message: dict[str, Any] = json.loads(self._socket.recv(timeout=120))
            if message["type"] in kinds:
                return message

    def hear_where(self, **fields: Any) -> dict[str, Any]:
        """The next message with these fields."""
        while True:
            message: dict[str, Any] = json.loads(self._socket.recv(timeout=120))
            if fields.items() <= message.items():
                return message


@contextlib.contextmanager
def raw(here: Place, *, hello: bool = True) -> Iterator[Raw]:
    with connect(here.url + "/v1/ws", max_size=None, close_timeout=1) as socket:
        speaker = Raw(socket)
        if hello:
            speaker.say({"type": "hello"})
            speaker.hear("welcome")
        yield speaker
