"""The server's session as a table: every phase × message, every limit, and whatever bytes may come."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.model.limits import DEFAULT
from headwater.protocol.messages import Ack, Await, Error, Hello, Message, Ping, Pong, Subscribe, Unsubscribe, Welcome
from headwater.protocol.messages import encode_message as encode
from headwater.protocol.session import Action, Drop, HangUp, Open, Phase, Send, ServerSession
from tests.support.fuzz import tries

MESSAGES: dict[str, Message] = {
    "hello": Hello(),
    "subscribe": Subscribe("a", "SELECT 1"),
    "unsubscribe": Unsubscribe("a"),
    "ack": Ack("a", 3),
    "await": Await(7),
    "ping": Ping(),
}


def session(phase: Phase = Phase.NEW, **options: Any) -> ServerSession:
    made = ServerSession("s1", **options)
    if phase is not Phase.NEW:
        made.receive(encode(Hello()))
    if phase is Phase.ENDED:
        made.phase = Phase.ENDED
    return made


def said(actions: list[Action]) -> list[str]:
    """What a table would say of it."""
    return [_word(action) for action in actions]


def _word(action: Action) -> str:
    match action:
        case Send(Error(code=code)):
            return code
        case Send(message):
            return type(message).__name__.lower()
        case HangUp(code):
            return f"hang up {code}"
        case _:
            return type(action).__name__.lower()


TABLE = {
    (Phase.NEW, "hello"): (["welcome"], Phase.OPEN),
    (Phase.NEW, "subscribe"): (["protocol_error", "hang up 4400"], Phase.ENDED),
    (Phase.NEW, "unsubscribe"): (["protocol_error", "hang up 4400"], Phase.ENDED),
    (Phase.NEW, "ack"): (["protocol_error", "hang up 4400"], Phase.ENDED),
    (Phase.NEW, "await"): (["protocol_error", "hang up 4400"], Phase.ENDED),
    (Phase.NEW, "ping"): (["pong"], Phase.NEW),
    (Phase.OPEN, "hello"): (["protocol_error"], Phase.OPEN),
    (Phase.OPEN, "subscribe"): (["open"], Phase.OPEN),
    (Phase.OPEN, "unsubscribe"): (["unknown_subscription"], Phase.OPEN),
    (Phase.OPEN, "ack"): ([], Phase.OPEN),
    (Phase.OPEN, "await"): (["reach"], Phase.OPEN),
    (Phase.OPEN, "ping"): (["pong"], Phase.OPEN),
    **{(Phase.ENDED, name): ([], Phase.ENDED) for name in MESSAGES},
}


def test_the_table_has_every_cell() -> None:
    assert set(TABLE) == {(phase, name) for phase in Phase for name in MESSAGES}


@pytest.mark.parametrize(("cell", "outcome"), TABLE.items(), ids=lambda part: str(part))
def test_every_phase_knows_what_to_do_with_every_message(
    cell: tuple[Phase, str], outcome: tuple[list[str], Phase]
) -> None:
    here = session(cell[0])
    assert said(here.receive(encode(MESSAGES[cell[1]]))) == outcome[0]
    assert here.phase is outcome[1]


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("frame", [b"", b"\xff\xfe\x00", "not json", "[]", "{}", '{"type":"welcome"}', '{"type":1}'])
def test_a_frame_that_does_not_read_is_an_error_and_changes_nothing(phase: Phase, frame: Any) -> None:
    here = session(phase)
    assert said(here.receive(frame)) == ([] if phase is Phase.ENDED else ["protocol_error"])
    assert here.phase is phase


def test_the_welcome_tells_what_a_client_must_know() -> None:
    [action] = session().receive(encode(Hello()))
    assert action == Send(
        Welcome(
            "s1",
            1,
            DEFAULT.heartbeat_ms,
            {
                "subscriptions": 20_000,
                "message_bytes": 1 << 20,
                "sql_bytes": 64 << 10,
                "id_bytes": 256,
                "params": 10_000,
                "params_bytes": 256 << 10,
            },
        )
    )


def test_a_subscription_is_opened_once_dropped_once_and_its_id_is_free_again() -> None:
    here = session(Phase.OPEN)
    subscribe = Subscribe("a", "SELECT 1", [1, {"$int": "9"}], resume_seq=4, resume_gen=2)
    assert here.receive(encode(subscribe)) == [Open(subscribe)]
    assert said(here.receive(encode(subscribe))) == ["protocol_error"]
    assert here.receive(encode(Unsubscribe("a", True))) == [Drop("a", True)]
    assert said(here.receive(encode(Unsubscribe("a")))) == ["unknown_subscription"]
    assert said(here.receive(encode(subscribe))) == ["open"]
    here.ended("a")
    assert said(here.receive(encode(subscribe))) == ["open"]


def test_a_refusal_names_the_subscription_it_belongs_to() -> None:
    here = session(Phase.OPEN)
    [action] = here.receive(encode(Subscribe("a", "SELECT 1", mode="poem")))
    assert isinstance(action, Send) and isinstance(action.message, Error)
    assert action.message.id == "a" and "poem" in action.message.message
    assert not here.subscriptions


def test_acks_are_kept_for_living_subscriptions_alone_and_never_go_back() -> None:
    here = session(Phase.OPEN)
    here.receive(encode(Subscribe("a", "SELECT 1")))
    for seq in (5, 3, 9, 7):
        here.receive(encode(Ack("a", seq)))
    for n in range(100):
        here.receive(encode(Ack(f"stranger {n}", n)))
    assert here.acked == {"a": 9}
    here.receive(encode(Unsubscribe("a")))
    assert here.acked == {}


def test_a_token_is_asked_for_where_there_is_someone_to_ask() -> None:
    asked: list[str | None] = []

    def admit(token: str | None) -> bool:
        asked.append(token)
        return token == "sesame"

    for token in (None, "", "Sesame"):
        here = session(admit=admit)
        assert said(here.receive(encode(Hello(token)))) == ["permission_denied", "hang up 4401"]
        assert here.receive(encode(Hello("sesame"))) == [], "the door stays shut"
    assert said(session(admit=admit).receive(encode(Hello("sesame")))) == ["welcome"]
    assert asked == [None, "", "Sesame", "sesame"]


def test_a_session_holds_so_many_subscriptions_and_no_more() -> None:
    here = session(limits=replace(DEFAULT, subscriptions_per_session_max=2))
    here.receive(encode(Hello()))
    outcomes = [said(here.receive(encode(Subscribe(id, "SELECT 1")))) for id in "abc"]
    assert outcomes == [["open"], ["open"], ["limit_exceeded"]]
    here.receive(encode(Unsubscribe("a")))
    assert said(here.receive(encode(Subscribe("c", "SELECT 1")))) == ["open"]


def test_sql_and_messages_have_a_size() -> None:
    here = session(limits=replace(DEFAULT, sql_bytes_max=10, message_bytes_max=100))
    here.receive(encode(Hello()))
    assert said(here.receive(encode(Subscribe("a", "SELECT 'é'")))) == ["limit_exceeded"], "11 bytes"
    assert said(here.receive(encode(Subscribe("a", "SELECT 'e'")))) == ["open"]
    assert said(here.receive(b" " * 101)) == ["limit_exceeded", "hang up 1009"]
    assert here.phase is Phase.ENDED


def test_reasons_fit_into_a_close_frame() -> None:
    """A WebSocket close reason has at most 123 bytes."""
    late = session(limits=replace(DEFAULT, message_bytes_max=1 << 60))
    unlucky = session(admit=lambda token: False)
    huge = session(limits=replace(DEFAULT, message_bytes_max=5))
    for here, frame in ((late, MESSAGES["ack"]), (unlucky, MESSAGES["hello"]), (huge, MESSAGES["ack"])):
        hang_up = here.receive(encode(frame))[-1]
        assert isinstance(hang_up, HangUp) and len(hang_up.reason.encode()) <= 123


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
FRAMES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=40),
    JSON.map(json.dumps),
    st.fixed_dictionaries(
        {"type": st.sampled_from([*MESSAGES, "result", "closed", ""])},
        optional=dict.fromkeys(["id", "sql", "params", "seq", "mode", "resume_seq", "forget", "token"], JSON),
    ).map(json.dumps),
)


@tries(300)
@given(st.lists(FRAMES, max_size=6), st.booleans())
@example(["\ud800"], True)
@example([b'{"type":"subscribe","id":"a","sql":"","params":' + b"[" * 100_000], True)
@example([b'{"type":"subscribe","id":"a","sql":"","params":[' + b"9" * 5000 + b"]}"], True)
def test_no_bytes_are_raised_about(frames: list[bytes | str], opened: bool) -> None:
    """Each frame is answered, or is nothing to answer; every answer can be written down; nothing is raised."""
    here = session(Phase.OPEN if opened else Phase.NEW)
    for frame in frames:
        for action in here.receive(frame):
            if isinstance(action, Send):
                json.loads(encode(action.message))


def test_a_pong_is_all_a_ping_gets() -> None:
    assert session().receive(encode(Ping())) == [Send(Pong())]
