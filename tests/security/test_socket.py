"""Hostile clients on the gateway's port: too much, too slow, too often, or no sense at all. Each is refused or let go;
the server stays up, its memory bounded, and a quiet subscriber never notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import headwater
from headwater.client.database import Database
from headwater.gateway.web.limits import wide_queries
from headwater.gateway.web.limits.socket_limits import SocketLimits
from headwater.gateway.web.limits.token_bucket import TokenBucket
from headwater.model.limits import DEFAULT, Limits
from headwater.protocol.session import ServerSession
from tests.support.databases import Place, place
from tests.support.neighbours import Neighbour, Raw, neighbour, raw
from tests.support.processes import eventually
from tests.support.wire import BINARY, CLOSE, CONT, PING, PONG, TEXT, frame, wire

HASTY = replace(DEFAULT, request_ms_max=300, heartbeat_ms=50, session_idle_ms_max=600)
REQUERIED = "SELECT id, row_number() OVER (ORDER BY id) AS place FROM t WHERE n <> {}"
GROWTH_BYTES_MAX = 64 << 20


@contextlib.contextmanager
def opened(data_dir: Path, limits: Limits = DEFAULT) -> Iterator[Place]:
    with place("ws", data_dir, limits=limits) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, name TEXT)")
        here.write("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")
        yield here


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("data")) as found:
        yield found


@pytest.fixture(scope="module")
def other(here: Place) -> Iterator[Neighbour]:
    with neighbour(here) as found:
        yield found


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Little patience."""
    with opened(tmp_path_factory.mktemp("data"), HASTY) as found:
        yield found


def subscribe(id: str = "a", sql: str = "SELECT id FROM t WHERE n = ?", params: Any = (10,)) -> dict[str, Any]:
    return {"type": "subscribe", "id": id, "sql": sql, "params": params}


def open_sockets(here: Place) -> int:
    assert here.gateway is not None
    return len(here.gateway.bounds.connections)


def memory_bytes() -> int:
    return int(re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) << 10


# — too much


@pytest.mark.parametrize(
    "message",
    [
        subscribe(id="x" * 900_000),
        subscribe(id="é" * 129),
        {"type": "unsubscribe", "id": "x" * 257},
        {"type": "ack", "id": "x" * 900_000, "seq": 1},
        subscribe(params=[1] * 10_001),
        subscribe(params=["x" * 300_000]),
        subscribe(params={"x" * 300: 1}),
        subscribe(params=[{"$array": json.loads('[{"$array": ' * 40 + "[]" + "}]" * 40)}]),
        subscribe(sql="SELECT " + "é" * 40_000),
    ],
    ids=lambda message: f"{message['type']} {len(json.dumps(message))}",
)
def test_what_is_too_large_is_refused_and_costs_nothing_else(here: Place, other: Neighbour, message: Any) -> None:
    with raw(here) as speaker:
        speaker.say(message)
        error = speaker.hear("error", "result", "ready")
        assert (error["type"], error["code"]) == ("error", "limit_exceeded")
        assert len(json.dumps(error)) < 1_000, "what was too large is not sent back"
        speaker.say(subscribe())
        assert speaker.hear("result")["rows"] == [[1]]
    other.lives()


def test_a_session_may_ask_for_so_many_bytes(tmp_path: Path) -> None:
    with opened(tmp_path, replace(DEFAULT, subscriptions_bytes_max=2_000)) as here, raw(here) as speaker:
        speaker.say(subscribe("a", params=["x" * 1_200]))
        speaker.hear_where(type="result", id="a")
        speaker.say(subscribe("b", params=["x" * 1_200]))
        refused = speaker.hear("error", "result")
        assert (refused["id"], refused["code"], refused["retry_after_ms"]) == ("b", "limit_exceeded", 1_000)
        speaker.say({"type": "unsubscribe", "id": "a"})
        speaker.say(subscribe("b", params=["x" * 1_200]))
        assert speaker.hear("result", "error")["type"] == "result", "there is room again"


def test_a_session_may_have_the_database_asked_so_many_queries(tmp_path: Path) -> None:
    with opened(tmp_path, replace(DEFAULT, questions_per_session_max=2)) as here, headwater.connect(here.url) as db:
        lives = [db.query(REQUERIED.format(n), live=True) for n in range(2)]
        with pytest.raises(headwater.LimitExceeded, match="at most 2 per session") as refused:
            db.query(REQUERIED.format(2), live=True)
        assert refused.value.retry_after_ms == 1_000
        assert db.query("SELECT id FROM t WHERE n = 20", live=True).rows == [{"id": 2}], (
            "what is followed is not counted"
        )
        with headwater.connect(here.url) as another:
            assert len(another.query(REQUERIED.format(2), live=True).rows) == 2, "nor is what others ask"
        lives[0].abort()
        assert len(eventually(lambda: _asked(db, REQUERIED.format(2))).rows) == 2


def _asked(db: Database, sql: str) -> headwater.LiveResult | None:
    with contextlib.suppress(headwater.LimitExceeded):
        return db.query(sql, live=True)
    return None


def test_all_sessions_of_an_address_hold_so_many_subscriptions_together(tmp_path: Path) -> None:
    with opened(tmp_path, replace(DEFAULT, subscriptions_per_address_max=3)) as here:
        with raw(here) as one, raw(here) as two:
            for id in "ab":
                one.say(subscribe(id))
                one.hear("result")
            two.say(subscribe("c"))
            two.hear("result")
            two.say(subscribe("d"))
            assert two.hear("error", "result")["retry_after_ms"] == 1_000
        with raw(here) as three:
            for id in "abc":
                eventually(partial(_admitted, three, id))


def _admitted(speaker: Raw, id: str) -> bool:
    speaker.say(subscribe(id))
    return bool(speaker.hear("error", "result")["type"] == "result")


def test_an_address_has_so_many_sockets(tmp_path: Path) -> None:
    with opened(tmp_path, replace(DEFAULT, sockets_per_address_max=4)) as here, contextlib.ExitStack() as held:
        for _ in range(3):
            held.enter_context(raw(here))
        with pytest.raises(headwater.LimitExceeded, match="too many connections") as refused:
            headwater.connect(here.url)
        assert refused.value.retry_after_ms == 1_000
        with pytest.raises(urllib.error.HTTPError) as answered:
            urllib.request.urlopen("http" + here.url.removeprefix("ws") + "/health", timeout=60)
        with answered.value as answer:
            assert (answer.code, answer.headers["Retry-After"]) == (503, "1")
        held.close()
        eventually(lambda: open_sockets(here) == 1)
        with headwater.connect(here.url) as db:
            assert db.query("SELECT id FROM t WHERE n = 10", live=True).rows == [{"id": 1}]


def test_so_many_queries_are_explained_at_once(here: Place, other: Neighbour, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(here.server, "explain", lambda *_: go.wait(120) and "a plan")
    at_once = DEFAULT.explains_max + 1
    with headwater.connect(here.url) as db, ThreadPoolExecutor(at_once) as threads:
        asked = [threads.submit(db.explain, "SELECT 1") for _ in range(at_once)]
        refused = next(as_completed(asked)).exception()  # the others wait, one of them as long as it takes
        go.set()
        assert isinstance(refused, headwater.LimitExceeded)
        assert refused.retry_after_ms == 1_000
        assert [one.result() for one in asked if not one.exception()] == ["a plan"] * DEFAULT.explains_max
        assert db.explain("SELECT 1") == "a plan"
    other.lives()


@pytest.mark.parametrize(
    "params", ["[" * 8_000, '[{"$array": ' * 100 + "[]" + "}]" * 100, "{" * 100, "[" + "1," * 5_000]
)
def test_explain_refuses_parameters_that_make_no_sense(here: Place, other: Neighbour, params: str) -> None:
    asked = urllib.parse.urlencode({"sql": "SELECT id FROM t WHERE n = ?", "params": params}, safe="[]{},")
    with pytest.raises(urllib.error.HTTPError) as answered:
        urllib.request.urlopen(f"http{here.url.removeprefix('ws')}/v1/explain?{asked}", timeout=60)
    with answered.value as answer:
        assert answer.code == 400
        assert json.load(answer)["error"]["code"] in ("protocol_error", "limit_exceeded")
    other.lives()


# — too slow


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"G",
        b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"POST /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    ],
)
def test_a_request_that_is_never_finished_is_let_go(hasty: Place, begun: bytes) -> None:
    with wire(hasty) as client:
        client.send(begun)
        assert b"408" in client.rest()


def test_a_second_request_that_is_never_finished_is_let_go(hasty: Place) -> None:
    with wire(hasty) as client:
        client.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert client.some().startswith(b"HTTP/1.1 200")
        client.send(b"GET /health HTTP/1.1\r\n")
        assert b"408" in client.rest()


def test_a_body_that_never_comes_is_let_go(hasty: Place) -> None:
    with wire(hasty) as client:
        client.send(b"POST /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        client.rest()


def test_who_opens_a_socket_and_never_says_hello_is_let_go(hasty: Place) -> None:
    with connect(hasty.url + "/v1/ws") as socket, pytest.raises(ConnectionClosed) as gone:
        while True:
            socket.send('{"type": "ping"}')
            socket.recv()
    assert gone.value.rcvd is not None
    assert (gone.value.rcvd.code, gone.value.rcvd.reason) == (4400, "no hello within 300 ms")


def test_a_message_that_is_never_finished_is_let_go(hasty: Place) -> None:
    for part in (frame(TEXT, b'{"type":', fin=False), frame(TEXT, b"x" * 1000)[:500]):
        with wire(hasty) as client:
            client.upgrade().send(part)
            assert b"a message was not complete in time" in client.rest()


def test_a_session_that_wants_nothing_is_let_go_and_one_that_does_is_not(hasty: Place) -> None:
    with raw(hasty) as wanting, raw(hasty) as idle:
        wanting.say(subscribe())
        wanting.hear("ready")
        with pytest.raises(ConnectionClosed) as gone:
            idle.hear("never")
        assert gone.value.rcvd is not None and gone.value.rcvd.code == 4408 and "idle" in gone.value.rcvd.reason
        wanting.say(subscribe("b"))
        assert wanting.hear("result")["id"] == "b"


def test_a_client_that_was_let_go_comes_back_by_itself(hasty: Place) -> None:
    with headwater.connect(hasty.url) as db:
        backend: Any = db._backend
        eventually(lambda: backend.reconnects > 0)
        assert db.query("SELECT id FROM t WHERE n = 10", live=True).rows == [{"id": 1}]


def test_many_that_are_half_open_hold_up_nobody(hasty: Place) -> None:
    with contextlib.ExitStack() as held, neighbour(hasty) as quiet:
        before = open_sockets(hasty)
        for number in range(100):
            client = held.enter_context(wire(hasty))
            if number % 2:
                client.send(b"GET / HTTP/1.1\r\n")
        quiet.lives()
        eventually(lambda: open_sockets(hasty) <= before)


def test_who_takes_nothing_of_what_it_is_sent_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.gateway.web.serve._UNREAD_MS_MAX", 500)
    with opened(tmp_path) as here, wire(here, timeout_s=1.0) as client:
        client.upgrade()
        eventually(lambda: open_sockets(here) == 2)
        client.flood(frame(TEXT, b'{"type":"' + b"x" * 100_000 + b'"}'), 1_000)
        client.flood(frame(PING, b"x" * 100) * 100, 1_000)
        eventually(lambda: open_sockets(here) == 1)


# — too often


def test_pings_and_fragments_without_end_are_let_go(here: Place, other: Neighbour) -> None:
    before = memory_bytes()
    for flood, said in (
        (frame(PING, b"x" * 100) * 100, b"too many pings"),
        (frame(CONT, fin=False) * 5_000, b"fragments"),
        (frame(CONT, b"x" * 10_000, fin=False), b""),
    ):
        with wire(here) as client:
            client.upgrade().send(frame(TEXT, b"", fin=False) if said != b"too many pings" else b"")
            client.flood(flood, 2_000)
            heard = client.rest()
            assert said in heard or not heard.endswith(b"}"), "the reset may overtake the reason"
        other.lives()
    assert memory_bytes() - before < GROWTH_BYTES_MAX


def test_a_flood_of_messages_is_slowed_down_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path, replace(DEFAULT, messages_per_s_max=200)) as here, neighbour(here) as quiet:
        with raw(here) as speaker:
            for _ in range(1_200):
                speaker.say({"type": "ping"})
            quiet.lives()
            for _ in range(1_200):
                speaker.hear("pong")


def test_a_rate_may_be_exceeded_for_a_moment() -> None:
    bucket = TokenBucket(10.0, 5.0, now_s=100.0)
    assert [bucket.take(100.0) for _ in range(7)] == pytest.approx([0, 0, 0, 0, 0, 0.1, 0.2])
    assert bucket.take(100.3) == pytest.approx(0.0)
    assert [bucket.take(1_000.0) for _ in range(6)] == pytest.approx([0, 0, 0, 0, 0, 0.1]), "a long pause is no burst"


def test_silence_counts_from_the_last_word() -> None:
    session, allowance = ServerSession("s"), SocketLimits(DEFAULT, 0.0)
    assert allowance.farewell(session, 9.9) is None
    allowance.hear(9.9)
    assert allowance.farewell(session, 10.1) == (4400, "no hello within 10000 ms")
    session.receive('{"type": "hello"}')
    assert allowance.farewell(session, 309.0) is None
    assert (allowance.farewell(session, 310.0) or (0,))[0] == 4408
    session.receive('{"type": "subscribe", "id": "a", "sql": "SELECT 1"}')
    assert allowance.farewell(session, 1e6) is None


# — no sense


def test_random_bytes_for_a_request(here: Place, other: Neighbour) -> None:
    chance = random.Random(24)
    for _ in range(60):
        with wire(here) as client:
            start = chance.choice([b"", b"GET / HTTP/1.1\r\n", b"GET /v1/ws HTTP/1.1\r\nUpgrade: websocket\r\n"])
            client.flood(start + chance.randbytes(chance.randrange(2_000)), 1)
    other.lives()


def test_random_bytes_for_frames(here: Place, other: Neighbour) -> None:
    chance = random.Random(25)
    for _ in range(60):
        with wire(here) as client:
            client.upgrade(hello=chance.random() < 0.8)
            for _ in range(chance.randrange(1, 8)):
                client.flood(_random_frame(chance), 1)
    other.lives()


def _random_frame(chance: random.Random) -> bytes:
    """Now and then a right one; else some of its bits, or its end, are wrong."""
    opcode = chance.choice([TEXT, BINARY, CONT, CLOSE, PING, PONG, 3, 15])
    data = bytearray(
        frame(opcode, chance.randbytes(chance.choice([0, 1, 2, 125, 126, 4_000])), fin=chance.random() < 0.7)
    )
    for _ in range(chance.choice([0, 0, 1, 3])):
        data[chance.randrange(min(len(data), 14))] ^= 1 << chance.randrange(8)
    return bytes(data[: chance.choice([len(data), len(data), chance.randrange(len(data))])])


SQL = (
    "SELECT id FROM t",
    "SELECT id FROM t WHERE n = ?",
    "SELECT id FROM t WHERE n = :n AND name = ?",
    "SELECT count(*) AS n FROM t GROUP BY name",
    "SELECT",
    "",
    "\x00",
    "SELECT 'é🌊' FROM t",
    "DELETE FROM t",
)


def test_valid_json_that_makes_no_sense(here: Place, other: Neighbour) -> None:
    """Each message is answered or is nothing to answer; the session goes on unless it was ended with a reason."""
    chance, before = random.Random(26), memory_bytes()
    for _ in range(25):
        with raw(here) as speaker, contextlib.suppress(ConnectionClosed):
            for _ in range(40):
                speaker.say(json.dumps(_nonsense(chance)))
            speaker.say({"type": "unsubscribe", "id": "the last"})
            assert speaker.hear_where(id="the last")["code"] == "unknown_subscription"
    other.lives()
    eventually(lambda: here.server.hub.subscriptions == 1)
    assert memory_bytes() - before < GROWTH_BYTES_MAX


def _nonsense(chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return _value(chance, 3)
    kinds = ["hello", "subscribe", "subscribe", "subscribe", "unsubscribe", "ack", "ping", "result", "", None, 7]
    message: dict[str, Any] = {"type": chance.choice(kinds), "id": f"n{chance.randrange(4)}", "sql": chance.choice(SQL)}
    fields = ["id", "sql", "params", "seq", "mode", "resume_seq", "resume_gen", "forget", "token", "position", "extra"]
    for name in chance.sample(fields, chance.randrange(4)):
        message[name] = _value(chance, 3)
    return message


def _value(chance: random.Random, depth: int) -> Any:
    plain = [None, True, 0, -1, 10, 2**53, 2**63, 2**64, -(2**70), 1e308, "", "a", "x" * 300, "\ud83c\udf0a", "\u0000"]
    tags = [
        "$int",
        "$float",
        "$bytes",
        "$decimal",
        "$date",
        "$timestamptz",
        "$interval",
        "$uuid",
        "$json",
        "$array",
        "$no",
    ]
    match chance.randrange(4) if depth else 0:
        case 1:
            return [_value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case 2:
            return {chance.choice(tags): _value(chance, depth - 1)}
        case 3:
            return {chance.choice(["n", "name", ""]): _value(chance, depth - 1) for _ in range(2)}
        case _:
            return chance.choice(plain)


def test_who_asks_for_very_wide_queries_waits_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Narrow ones, and wide ones that are known, go on all the while."""
    monkeypatch.setattr(wide_queries, "_WAIT_S", 0.2)
    wide, other = (f"SELECT id, {', '.join(f'n + {start + n} AS c{n}' for n in range(60))} FROM t" for start in (0, 99))
    limits = replace(DEFAULT, wide_columns_min=20, new_columns_per_s_max=1)
    with opened(tmp_path, limits) as here, headwater.connect(here.url) as db, neighbour(here) as quiet:
        assert db.query(wide, live=True).state == "ready"
        with pytest.raises(headwater.LimitExceeded, match="1 such columns per second") as refused:
            db.query(other, live=True)
        assert 0 < (refused.value.retry_after_ms or 0) <= 21_000
        assert db.query(wide, live=True).state == "ready"
        assert db.query("SELECT id, n FROM t WHERE n = 2", live=True).state == "ready"
        quiet.lives()


def test_a_wide_query_has_its_turn_when_the_last_one_is_paid_for() -> None:
    now_s = 100.0
    wide = wide_queries.WideQueries(replace(DEFAULT, wide_columns_min=20, new_columns_per_s_max=1_000), lambda: now_s)

    async def ask() -> None:
        nonlocal now_s
        await wide.admit("a", 41_000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wide.admit("a"), 0.05)
        await wide.admit("b", 19)
        now_s = 101.0
        await wide.admit("a", 20)

    with ThreadPoolExecutor(1) as thread:  # for a browser's test before this one may have left its loop to the main one
        thread.submit(asyncio.run, ask()).result()
