"""Bad input on the socket: each a clear error or a closed socket, the server stays up, no other subscriber notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

import headwater
from headwater.gateway.web.outbox import Bell, SocketOutbox
from headwater.gateway.web.serve import listen
from headwater.model.limits import DEFAULT
from tests.support.databases import Place, place, values
from tests.support.looping import run
from tests.support.neighbours import Neighbour, Raw, neighbour, raw
from tests.support.processes import eventually


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place("ws", tmp_path_factory.mktemp("data")) as opened:
        opened.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, name TEXT)")
        opened.write("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")
        yield opened


@pytest.fixture(scope="module")
def other(here: Place) -> Iterator[Neighbour]:
    with neighbour(here) as found:
        yield found


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00\xff\xfe binary junk",
        "",
        "hello",
        "[1, 2",
        "{}",
        "[]",
        "null",
        '{"type": "dance"}',
        '{"type": "subscribe"}',
        '{"type": "subscribe", "id": 4, "sql": "SELECT 1"}',
        '{"type": "subscribe", "id": "a", "sql": null}',
        '{"type": "subscribe", "id": "a", "sql": "SELECT id FROM t", "params": ' + "[" * 2000,
        '{"type": "result", "id": "a"}',
    ],
)
def test_junk_costs_an_error_and_the_session_goes_on(here: Place, other: Neighbour, junk: str | bytes) -> None:
    with raw(here) as speaker:
        speaker.say(junk)
        error = speaker.hear("error", "closed")
        assert error["code"] == "protocol_error" and error["hint"]
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id FROM t ORDER BY id"})
        assert speaker.hear("result")["rows"] == [[1], [2]]
    other.lives()


@pytest.mark.parametrize(
    "message", [{"type": "subscribe", "id": "a", "sql": "SELECT 1"}, {"type": "ack", "id": "a", "seq": 1}]
)
def test_who_speaks_before_hello_is_shown_the_door(here: Place, other: Neighbour, message: Any) -> None:
    with raw(here, hello=False) as speaker:
        speaker.say(message)
        assert speaker.hear("error")["hint"] == 'send {"type": "hello"} before anything else'
        with pytest.raises(ConnectionClosed) as gone:
            speaker.hear("never")
        assert gone.value.rcvd is not None and gone.value.rcvd.code == 4400
    other.lives()


def test_a_huge_message_closes_the_socket(here: Place, other: Neighbour) -> None:
    with raw(here) as speaker:
        with pytest.raises(ConnectionClosed) as gone:
            speaker.say({"type": "subscribe", "id": "a", "sql": "x" * (2 << 20)})
            speaker.hear("never")
        said = gone.value.rcvd  # unless the reset overtook it: the rest of the message was on its way
        assert said is None or said.code == 1009
    other.lives()


def test_long_sql_is_refused(here: Place, other: Neighbour) -> None:
    with raw(here) as speaker:
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT " + "1 + " * 20_000 + "1 FROM t"})
        assert speaker.hear("error")["code"] == "limit_exceeded"
    other.lives()


def test_sql_nested_without_end_is_refused(here: Place, other: Neighbour) -> None:
    with raw(here) as speaker:
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT " + "(" * 20_000 + "id" + ")" * 20_000 + " FROM t"})
        assert speaker.hear("error", "result")["type"] == "error"
        speaker.say({"type": "subscribe", "id": "b", "sql": "SELECT " + "1 + " * 5_000 + "1 AS n FROM t"})
        assert speaker.hear("error", "result")["id"] == "b"
    other.lives()


@pytest.mark.parametrize(
    ("sql", "code", "underlined", "hint"),
    [
        ("SELECT id FROM nowhere", "sql_error", "nowhere", None),
        ("SELECT idd FROM t", "sql_error", "idd", "id"),
        ("SELECT id FORM t", "sql_error", None, None),
        ("DELETE FROM t", "sql_error", None, None),
        ("SELECT random() FROM t", "unsupported_query", "random", None),
        ("", "sql_error", None, None),
    ],
)
def test_sql_that_is_refused_says_where_and_what_to_do(
    here: Place, other: Neighbour, sql: str, code: str, underlined: str | None, hint: str | None
) -> None:
    with raw(here) as speaker:
        speaker.say({"type": "subscribe", "id": "a", "sql": sql})
        error = speaker.hear("error", "result")
        assert (error["type"], error["id"], error["code"]) == ("error", "a", code)
        if underlined is not None:
            assert underlined in sql[slice(*error["at"])]
        assert hint is None or hint in error["hint"]
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id FROM t"})
        assert speaker.hear("error", "result")["type"] == "result", "the id is free again"
    other.lives()


@pytest.mark.parametrize("params", [[{"$int": "x"}], [[1]], [{}], [1, 2, 3], {"n": 1}, [{"$int": "9" * 30}]])
def test_wrong_parameters_are_refused(here: Place, other: Neighbour, params: Any) -> None:
    with raw(here) as speaker:
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id FROM t WHERE n = ?", "params": params})
        error = speaker.hear("error", "result")
        assert (error["type"], error["id"]) == ("error", "a")
        assert error["code"] in ("protocol_error", "sql_error")
    other.lives()


def test_ids_may_be_anything_and_are_told_apart(here: Place, other: Neighbour) -> None:
    ids = ["", "a", '"', "é🌊", "x" * 256, '","seq":1,"', "\u0000"]
    with raw(here) as speaker:
        for id in ids:
            speaker.say({"type": "subscribe", "id": id, "sql": "SELECT id FROM t WHERE n = 10"})
            assert speaker.hear("result")["id"] == id
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id FROM t"})
        assert speaker.hear("error")["message"].endswith("is in use")
    other.lives()


def test_unsubscribe_overtakes_nothing(here: Place, other: Neighbour) -> None:
    """Subscribe, unsubscribe and subscribe again in one breath: the last word counts."""
    with raw(here) as speaker:
        for n in range(20):
            speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id FROM t WHERE n = ?", "params": [n]})
            speaker.say({"type": "unsubscribe", "id": "a"})
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id FROM t WHERE n = 20"})
        while speaker.hear("result")["rows"] != [[2]]:
            pass
        speaker.say({"type": "unsubscribe", "id": "zz"})
        assert speaker.hear("error")["code"] == "unknown_subscription"
        eventually(lambda: here.server.hub.subscriptions == 2)
    eventually(lambda: here.server.hub.subscriptions == 1)
    other.lives()


def test_a_peer_that_vanishes_while_it_subscribes_leaves_nothing_behind(here: Place, other: Neighbour) -> None:
    for n in range(5):
        with raw(here) as speaker:
            for id in range(20):
                speaker.say({"type": "subscribe", "id": str(id), "sql": f"SELECT id FROM t WHERE n = {id + 20 * n}"})
    eventually(lambda: here.server.hub.subscriptions == 1)
    eventually(lambda: len(here.server.hub._sessions.all) == 2)
    other.lives()


def test_bad_addresses_are_answered(here: Place, other: Neighbour) -> None:
    base = "http" + here.url.removeprefix("ws")
    for path, code in (
        ("/nowhere", 404),
        ("/v1/explain", 400),
        ("/v1/explain?sql=SELECT", 400),
        ("/v1/explain?sql=SELECT%20id%20FROM%20t&params=5", 400),
        ("/v1/explain?sql=SELECT%20id%20FROM%20t&params=%5B", 400),
        ("/client/../../../../etc/passwd", 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as answered:
            urllib.request.urlopen(base + path, timeout=60)
        assert answered.value.code == code
        answered.value.close()
    other.lives()


# — slow readers


class Sloth:
    """A plain TCP socket that subscribes and then reads nothing at all."""

    def __init__(self, here: Place, sql: str) -> None:
        host, _, port = here.url.removeprefix("ws://").partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        key = "dGhlIHNhbXBsZSBub25jZQ=="
        self._socket.sendall(
            f"GET /v1/ws HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b"101" in self._socket.recv(1024)
        for message in ({"type": "hello"}, {"type": "subscribe", "id": "a", "sql": sql}):
            self._frame(json.dumps(message).encode())

    def _frame(self, body: bytes) -> None:
        """A masked text frame, masked with zeros."""
        assert len(body) < 126
        self._socket.sendall(bytes([0x81, 0x80 | len(body)]) + bytes(4) + body)

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def narrow(tmp_path: Path, **limits: int) -> Iterator[Place]:
    """Little room in the outbox."""
    with place("ws", tmp_path, limits=replace(DEFAULT, outbox_bytes_max=200_000, **limits)) as opened:
        opened.write("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
        yield opened


def test_who_never_reads_is_let_go_and_delays_nobody(tmp_path: Path) -> None:
    with narrow(tmp_path, heartbeat_ms=20) as here, neighbour(here) as other:
        sloth = Sloth(here, "SELECT id, body FROM t")
        eventually(lambda: here.server.hub.subscriptions == 2)
        for n in _much(lambda: here.server.hub.subscriptions == 1):
            here.write("INSERT OR REPLACE INTO t VALUES (?, ?)", n % 5, f"{n}" * 30_000)
            if n % 20 == 0:
                other.lives()
        sloth.close()


def _much(is_enough: Callable[[], bool]) -> Iterator[int]:
    """A hundred and more: sockets have room for some, which nobody knows."""
    for n in range(2000):
        if n >= 100 and is_enough():
            return
        yield n
    eventually(is_enough)


def test_who_reads_too_slowly_is_sent_a_fresh_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    floods: list[SocketOutbox] = []
    flood = SocketOutbox._flood

    def flooded(outbox: SocketOutbox) -> None:
        floods.append(outbox)
        flood(outbox)

    monkeypatch.setattr(SocketOutbox, "_flood", flooded)
    limits = {"outbox_resyncs_max": 1_000_000, "heartbeat_ms": 5_000}
    with narrow(tmp_path, **limits) as here, neighbour(here) as other, raw(here) as speaker:
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id, body FROM t ORDER BY id"})
        speaker.hear("ready")
        written: dict[int, str] = {}
        for n in _much(lambda: bool(floods)):
            written[n % 3] = f"{n}" * 50_000
            last = here.write("INSERT OR REPLACE INTO t VALUES (?, ?)", n % 3, written[n % 3])
        assert _caught_up(speaker, last) == [[n, written[n]] for n in range(3)]
        other.lives()


def test_who_is_too_slow_once_too_often_is_let_go_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.gateway.web.socket._FAREWELL_S", 60.0)
    with narrow(tmp_path, outbox_resyncs_max=0) as here, neighbour(here) as other, raw(here) as speaker:
        speaker.say({"type": "subscribe", "id": "a", "sql": "SELECT id, body FROM t"})
        speaker.hear("ready")
        for n in _much(lambda: here.server.hub.subscriptions == 1):
            here.write("INSERT OR REPLACE INTO t VALUES (?, ?)", n % 3, f"{n}" * 50_000)
        with pytest.raises(ConnectionClosed) as gone:
            speaker.hear("never")
        assert gone.value.rcvd is not None
        assert (gone.value.rcvd.code, "too slow" in gone.value.rcvd.reason) == (4408, True)
        other.lives()


def test_a_flooded_outbox_keeps_what_nothing_makes_up_for() -> None:
    async def flood() -> None:
        outbox = SocketOutbox(Bell(asyncio.get_running_loop()), bytes_max=100)
        outbox.put(b"r" * 500, renewable=True)
        assert outbox.flooded_at is None, "one message always fits"
        outbox.put(b"closed")
        outbox.put(b"d" * 101, renewable=True)
        assert outbox.flooded_at is not None
        outbox.put(b"dropped", renewable=True)
        outbox.put(b"error")
        outbox.ring()
        assert await outbox.take() == [b"closed", b"error"]
        outbox.renew()
        outbox.put(b"fresh", renewable=True)
        outbox.ring()
        assert await outbox.take() == [b"fresh"] and not outbox.hopeless

    run(flood())


def _caught_up(speaker: Raw, last: int) -> list[Any]:
    """Applies what comes, as a client does, until the last position; at least once it was told to start afresh."""
    rows: dict[int, str] = {}
    resyncs, fresh = 0, True
    while True:
        message = speaker.hear("resync", "result", "diff", "progress")
        if message["type"] == "resync":
            resyncs, fresh = resyncs + 1, False
        elif message["type"] == "result":
            rows, fresh = dict(message["rows"]), True
        elif message["type"] == "diff" and fresh:
            for change in message["changes"]:
                at = change["index"]
                rows[at] = change["new"]["body"]
        elif message["type"] == "progress" and message["position"] >= last and fresh:
            assert resyncs > 0
            return [[id, rows[id]] for id in sorted(rows)]


# — before anything is served


def test_a_port_in_use_is_a_clear_error(here: Place) -> None:
    port = int(here.url.rpartition(":")[2])
    with pytest.raises(headwater.HeadwaterError, match=f"cannot listen on 127.0.0.1 port {port}") as refused:
        listen("127.0.0.1", port)
    assert "--port" in (refused.value.hint or "")


def test_beyond_loopback_nothing_is_served_without_auth() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(headwater.HeadwaterError, match="loopback"):
            listen(host, 0)


def test_a_client_reads_values(here: Place) -> None:
    assert values(here.db.query("SELECT n FROM t ORDER BY id", live=True)) == [10, 20]
