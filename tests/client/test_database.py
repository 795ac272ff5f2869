"""Database as users have it: in this process and over a WebSocket, on memory and on SQLite."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.client.remote import Remote
from headwater.model.emission import Diff, State, apply
from tests.support.databases import Place, place, play, rows, values
from tests.support.processes import eventually

SCHEMA = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, name TEXT, big INTEGER, raw BLOB, real REAL)"
EMBEDDED = pytest.mark.parametrize("here", ["embedded-memory"], indirect=True)


def ids(live: headwater.LiveResult) -> list[int]:
    return sorted(values(live, "id"))


@pytest.fixture(params=["embedded-memory", "ws-sqlite"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    way, _, source = request.param.partition("-")
    url = "memory://" if source == "memory" else f"sqlite:///{tmp_path / 'origin.db'}"
    with place(way, tmp_path / "data", url=url) as opened:
        opened.write(SCHEMA)
        opened.write("INSERT INTO t (id, n, name) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 20, 'c')")
        yield opened


# — live queries


def test_a_live_query_follows_every_change(here: Place) -> None:
    live = here.db.query("SELECT id, n FROM t ORDER BY n DESC, id", live=True)
    assert (live.state, live.columns) == ("ready", ("id", "n"))
    assert rows(live) == [{"id": 2, "n": 20}, {"id": 3, "n": 20}, {"id": 1, "n": 10}]
    position = here.write("UPDATE t SET n = 30 WHERE id = 1")
    assert live.wait(position)
    assert values(live) == [1, 2, 3] and live.position >= position
    assert live.wait(here.write("DELETE FROM t WHERE id = 2"))
    assert live.wait(here.write("INSERT INTO t (id, n) VALUES (9, NULL)"))
    assert rows(live) == [{"id": 1, "n": 30}, {"id": 3, "n": 20}, {"id": 9, "n": None}]


def test_values_of_every_kind_arrive_to_the_bit(here: Place) -> None:
    live = here.db.query("SELECT id, name, big, raw, real FROM t WHERE id > 100 ORDER BY id", live=True)
    insert = "INSERT INTO t VALUES (?, 1, ?, ?, ?, ?)"
    here.write(insert, 101, "ä €\0🌊", -(2**63), b"\x00\xff", 0.1)
    position = here.write(insert, 102, "", 2**53 + 1, b"", float("inf"))
    assert live.wait(position)
    assert repr(rows(live)) == repr(
        [
            {"id": 101, "name": "ä €\0🌊", "big": -(2**63), "raw": b"\x00\xff", "real": 0.1},
            {"id": 102, "name": "", "big": 2**53 + 1, "raw": b"", "real": float("inf")},
        ]
    )


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT id FROM t WHERE n = ? AND name = ?", (20, "c")),
        ("SELECT id FROM t WHERE n = $1 AND name = $2", (20, "c")),
        ("SELECT id FROM t WHERE name = $2 AND n = $1", (20, "c")),
        ("SELECT id FROM t WHERE n = :n AND name = :name", ({"n": 20, "name": "c"},)),
    ],
)
def test_parameters_in_every_style(here: Place, sql: str, params: tuple[Any, ...]) -> None:
    live = here.db.query(sql, *params, live=True)
    assert values(live) == [3]
    assert live.wait(here.write("UPDATE t SET name = 'c' WHERE id = 2"))
    assert ids(live) == [2, 3]
    assert "t" in live.explain()


def test_two_queries_move_as_one(here: Place) -> None:
    """Law 8, as a listener sees it who looks at both whenever one has changed."""
    left, right = (here.db.query("SELECT n FROM t WHERE id = ?", id, live=True) for id in (1, 2))
    assert left.wait(here.write_together("UPDATE t SET n = 0 WHERE id = 1", "UPDATE t SET n = 0 WHERE id = 2"))
    seen: list[tuple[Any, Any]] = []
    for live in (left, right):
        live.listen(lambda _: seen.append((values(left)[0], values(right)[0])))
    for n in range(1, 30):
        last = here.write_together(f"UPDATE t SET n = {n} WHERE id = 1", f"UPDATE t SET n = {n} WHERE id = 2")
    assert left.wait(last) and right.wait(last)
    assert values(left) == values(right) == [29]
    assert len(seen) == 58 and all(a == b for a, b in seen)


def test_wait_honours_positions_at_once_and_again(here: Place) -> None:
    live = here.db.query("SELECT id FROM t", live=True)
    for n in range(20):
        assert live.wait(here.write("INSERT INTO t (id) VALUES (?)", 100 + n))
        assert 100 + n in values(live), "read your own writes"
    assert live.wait(here.db.position())


def test_the_position_of_the_origin_counts_writes_made_elsewhere(here: Place) -> None:
    live = here.db.query("SELECT id FROM t", live=True)
    for n in range(20):
        here.write("INSERT INTO t (id) VALUES (?)", 200 + n)
        assert live.wait(here.db.position())
        assert 200 + n in values(live)


def test_observers_see_what_the_rows_show(here: Place) -> None:
    live = here.db.query("SELECT id, n, name FROM t ORDER BY n, id LIMIT 3", live=True)
    copy: list[Any] = rows(live)
    live.observe(lambda operations: play(copy, operations))
    for sql in (
        "INSERT INTO t (id, n) VALUES (4, 5)",
        "UPDATE t SET n = 100 WHERE id = 4",
        "UPDATE t SET id = 50 WHERE id = 1",
        "DELETE FROM t WHERE n = 20",
        "UPDATE t SET name = 'z'",
        "DELETE FROM t",
    ):
        live.wait(here.write(sql))
        assert copy == rows(live)


def test_events_replayed_give_the_rows(here: Place) -> None:
    live = here.db.query("SELECT id, n FROM t ORDER BY n, id", live=True)
    state = State(list(live.rows), list(live.hashes), live.columns, live.seq, live.gen, live.position)
    events = live.events(timeout=0.2)
    for n in range(5):
        live.wait(here.write("UPDATE t SET n = n + ? WHERE id = ?", n * 7, n % 3 + 1))
    count = 0
    for event in events:
        assert isinstance(event, Diff) and event.prev == state.seq
        state, count = apply(state, event), count + 1
    assert count == 4, "one update changed nothing"
    assert rows(state.rows) == rows(live)


def test_a_callback_gets_the_emissions_and_the_rows_stay(here: Place) -> None:
    told: list[Any] = []
    live = here.db.query("SELECT id FROM t", live=True, callback=lambda name, emission: told.append((name, emission)))
    assert ids(live) == [1, 2, 3] and told == []
    live.wait(here.write("DELETE FROM t WHERE id = 2"))
    [(name, emission)] = told
    assert name == "diff" and [change.type for change in emission.changes] == ["delete"]
    assert ids(live) == [1, 2, 3]


def test_abort_ends_one_query_and_no_other(here: Place) -> None:
    one, other = (here.db.query("SELECT id FROM t", live=True) for _ in range(2))
    one.abort()
    assert other.wait(here.write("DELETE FROM t WHERE id = 1"))
    assert ids(other) == [2, 3] and ids(one) == [1, 2, 3]
    with pytest.raises(headwater.HeadwaterError, match="aborted"):
        one.wait()
    eventually(lambda: here.server.hub.subscriptions == 1)
    again = here.db.query("SELECT id FROM t", live=True)
    assert ids(again) == [2, 3]


def test_a_window_in_error_says_so_to_everyone_and_recovers(here: Place) -> None:
    """abs(-9223372036854775808) overflows, in SQLite and here."""
    early = here.db.query("SELECT id, abs(big) AS big FROM t", live=True)
    here.write("UPDATE t SET big = -9223372036854775808 WHERE id = 2")
    eventually(lambda: early.state == "stale")
    assert "overflow" in (early.reason or "") and ids(early) == [1, 2, 3]
    late = here.db.query("SELECT id, abs(big) AS big FROM t", live=True)
    assert (late.state, late.reason, list(late.rows)) == ("stale", early.reason, [])
    assert early.wait(here.write("UPDATE t SET big = -5 WHERE id = 2"))
    assert (early.state, early.reason) == ("ready", None)
    late.wait(early.position)
    assert sorted(map(repr, rows(early))) == sorted(map(repr, rows(late)))
    assert {row["id"]: row["big"] for row in early.rows} == {1: None, 2: 5, 3: None}


def test_a_query_that_is_wrong_is_refused_with_the_place(here: Place) -> None:
    sql = "SELECT id, nam FROM t"
    with pytest.raises(headwater.SqlError, match="nam") as refused:
        here.db.query(sql, live=True)
    assert refused.value.at is not None and sql[slice(*refused.value.at)] == "nam"
    assert "name" in (refused.value.hint or "") and "^^^" in str(refused.value)
    with pytest.raises(headwater.SqlError) as explained:
        here.db.explain(sql)
    assert explained.value.at == refused.value.at
    with pytest.raises(headwater.UnsupportedQuery):
        here.db.query("SELECT random() FROM t", live=True)
    with pytest.raises(headwater.SqlError):
        here.db.query("SELECT id FROM t WHERE n = ?", live=True)
    assert ids(here.db.query("SELECT id FROM t", live=True)) == [1, 2, 3]


def test_half_a_character_is_refused_before_it_is_sent(here: Place) -> None:
    half = "SELECT id, '\ud800' AS h FROM t"
    for ask in (partial(here.db.query, live=True), here.db.explain):
        with pytest.raises(headwater.SqlError, match="character 13 is a lone surrogate"):
            ask(half)
    for ask in (partial(here.db.query, live=True), here.db.explain):
        with pytest.raises(headwater.SqlError, match="surrogate"):
            ask("SELECT id FROM t WHERE name = ?", "\udfff")
    assert ids(here.db.query("SELECT id FROM t", live=True)) == [1, 2, 3]


def test_the_status_tells_what_runs(here: Place) -> None:
    here.db.query("SELECT id FROM t", live=True)
    status = here.db.status()
    assert (status["runner"], status["grid"], status["subscriptions"], status["windows"]) == ("inline", "1x1", 1, 1)
    assert status["failure"] is None
    assert "t" in here.db.explain("SELECT id FROM t WHERE n = :n", {"n": 1})


def test_a_closed_database_closes_its_queries_and_refuses_new_ones(here: Place) -> None:
    live = here.db.query("SELECT id FROM t", live=True)
    here.db.close()
    here.db.close()
    assert (live.state, ids(live)) == ("closed", [1, 2, 3])
    with pytest.raises(headwater.HeadwaterError, match="closed"):
        live.wait()
    for ask in (lambda: here.db.query("SELECT id FROM t", live=True), lambda: here.db.query("SELECT id FROM t")):
        with pytest.raises(headwater.HeadwaterError, match="closed"):
            ask()


def test_many_threads_may_use_one_database(here: Place) -> None:
    failures: list[BaseException] = []

    def use(number: int) -> None:
        try:
            live = here.db.query("SELECT id FROM t WHERE n = ?", number % 3 * 10, live=True)
            assert live.wait(here.write("INSERT INTO t (id, n) VALUES (?, ?)", 1000 + number, number % 3 * 10))
            assert 1000 + number in values(live)
            live.abort()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# — embedded alone: the source is in reach


@EMBEDDED
def test_a_query_that_is_not_live_is_answered_by_the_origin(here: Place) -> None:
    assert here.db.query("SELECT id, name FROM t WHERE n = ?", 20) == [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}]
    assert here.db.query("SELECT count(*) AS c FROM t WHERE n = :n", {"n": 20}) == [{"c": 2}]
    assert here.db.query("SELECT count(*) AS c FROM t WHERE n = $1", 20) == [{"c": 2}]


@EMBEDDED
def test_writes_return_positions_that_wait_honours(here: Place) -> None:
    live = here.db.query("SELECT id FROM t", live=True)
    assert live.wait(here.db.execute("INSERT INTO t (id) VALUES (:id)", {"id": 7}))
    assert 7 in values(live)
    assert live.wait(here.db.executemany("INSERT INTO t (id) VALUES (?)", [(8,), (9,)]))
    assert {8, 9} <= set(values(live))
    events = live.events(timeout=0.1)
    with here.db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE id = 7")
        tx.execute("INSERT INTO t (id) VALUES (?)", (70,))
    assert live.wait(tx.position)
    assert 7 not in values(live) and 70 in values(live)
    assert len(list(events)) == 1, "one transaction, one emission"


@EMBEDDED
def test_a_transaction_that_raises_never_happened(here: Place) -> None:
    live = here.db.query("SELECT id FROM t", live=True)
    with pytest.raises(ValueError, match="no"), here.db.transaction() as tx:
        tx.execute("DELETE FROM t")
        raise ValueError("no")
    assert live.wait(here.db.execute("INSERT INTO t (id) VALUES (4)"))
    assert ids(live) == [1, 2, 3, 4]


@EMBEDDED
def test_verify_finds_nothing_wrong_while_writers_write(here: Place) -> None:
    lives = [here.db.query(f"SELECT id, n FROM t {tail}", live=True) for tail in ("", "ORDER BY n LIMIT 5")]
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            here.write("INSERT OR REPLACE INTO t (id, n) VALUES (?, ?)", number % 17, number * 7 % 23)
            if number % 50 == 0:  # for long, no faster than they can be followed
                lives[0].wait(here.db.position())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            for live in lives:
                here.db.verify(live)
    finally:
        stop.set()
        writer.join()


@EMBEDDED
@pytest.mark.parametrize(
    ("tail", "spoilt", "told"),
    [
        ("", [{"id": 1}, {"id": 2}], "missing .*'id': 3"),
        ("", [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 3}], "extra .*'id': 3"),
        ("", [{"id": 1}, {"id": 2}, {"id": 3.0}], "extra .*3.0"),
        ("ORDER BY id", [{"id": 2}, {"id": 1}, {"id": 3}], "another order"),
    ],
)
def test_verify_raises_drift_with_the_difference(here: Place, tail: str, spoilt: list[Any], told: str) -> None:
    live = here.db.query(f"SELECT id FROM t {tail}", live=True)
    here.db.verify(live)
    live._state = State(spoilt, [str(n) for n in range(len(spoilt))], live.columns, live.seq, live.gen, live.position)
    with pytest.raises(headwater.Drift, match=told):
        here.db.verify(live)


@EMBEDDED
def test_verify_of_a_stranger_is_refused(here: Place) -> None:
    live = here.db.query("SELECT id FROM t", live=True)
    live.abort()
    with pytest.raises(headwater.HeadwaterError, match="closed, or is of another database"):
        here.db.verify(live)


def test_memory_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the same program: the second must not meet the first one's log."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for _ in range(2):
        with headwater.connect("memory://again", runner="inline") as db:
            db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
            live = db.query("SELECT id FROM t", live=True)
            live.wait(db.execute("INSERT INTO t VALUES (1)"))
            assert values(live) == [1]
    assert not (tmp_path / "home").exists()


# — over a WebSocket alone


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Place]:
    with place("ws", tmp_path / "data") as opened:
        opened.write(SCHEMA)
        opened.write("INSERT INTO t (id, n) VALUES (1, 10)")
        yield opened


def test_what_a_gateway_cannot_do_is_refused_with_a_hint(gateway: Place) -> None:
    live = gateway.db.query("SELECT id FROM t", live=True)
    for ask in (
        lambda: gateway.db.query("SELECT 1"),
        lambda: gateway.db.execute("DELETE FROM t"),
        lambda: gateway.db.executemany("DELETE FROM t", []),
        lambda: gateway.db.transaction(),
        lambda: gateway.db.verify(live),
    ):
        with pytest.raises(headwater.HeadwaterError, match="this is one to a gateway") as refused:
            ask()
        assert refused.value.hint


def test_a_lost_connection_is_made_anew_and_every_query_resumes(gateway: Place) -> None:
    lives = [gateway.db.query(f"SELECT id, n FROM t {tail}", live=True) for tail in ("", "ORDER BY n LIMIT 2")]
    seen: list[Any] = []
    lives[0].listen(seen.append)
    remote = gateway.db._backend
    assert isinstance(remote, Remote)
    for n in range(2, 6):
        assert remote._socket is not None
        remote._socket.socket.shutdown(2)
        position = gateway.write("INSERT INTO t (id, n) VALUES (?, ?)", n, -n)
        assert all(live.wait(position) for live in lives)
        assert [len(live.rows) for live in lives] == [n, 2]
    assert remote.reconnects == 4
    assert [emission.prev for emission in seen[1:]] == [emission.seq for emission in seen[:-1]]
    assert len(seen) == 4 and not any(isinstance(emission, headwater.Result) for emission in seen)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\nInvalid", "a server that answers with status 400"),
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 99\r\n\r\nInvalid", "IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", "IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{", "Expecting property name"),
        (b"what?\r\n\r\n", "what?"),
        (b"", "closed connection"),
    ],
)
def test_an_answer_that_is_none_is_told_as_such(gateway: Place, answer: bytes, words: str) -> None:
    """One that was refused in other words than ours, or cut off in the middle of a refusal, came out as it was."""
    backend = gateway.db._backend
    assert isinstance(backend, Remote)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(answer)

        other = threading.Thread(target=serve, daemon=True)
        other.start()
        backend._url = f"ws://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(headwater.HeadwaterError, match=re.escape(words)):
            gateway.db.explain("SELECT 1")
        other.join(30)


def test_a_query_that_is_too_long_to_be_explained_is_refused_whatever_its_pieces(gateway: Place) -> None:
    """It depended on the pieces that its address came in, and ended in a connection that was reset."""
    with pytest.raises(headwater.LimitExceeded, match="too long to be explained through a gateway"):
        gateway.db.explain(f"SELECT id FROM t WHERE name = '{'é' * 20_000}'")
    assert "template" in gateway.db.explain(f"SELECT id FROM t WHERE name = '{'x' * 50_000}'")


def test_there_must_be_someone_at_the_address() -> None:
    with pytest.raises(headwater.HeadwaterError, match=r"cannot connect to a gateway at ws://127.0.0.1:9"):
        headwater.connect("ws://127.0.0.1:9")


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    files = len(os.listdir("/proc/self/fd"))
    with place("ws", tmp_path / "data") as opened:
        opened.write(SCHEMA)
        opened.db.query("SELECT id FROM t", live=True)
    eventually(lambda: threading.active_count() <= before)
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= files)
