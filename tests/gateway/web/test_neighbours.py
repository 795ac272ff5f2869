"""Who asks for much does not hold up who asks for little: subscribes take turns, and do not fill the log."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.engine.emissions.reader import read_emissions
from headwater.gateway.hub import hub
from headwater.gateway.web import outbox, socket_sink
from headwater.gateway.web.call_batcher import BATCH_MAX, FairQueue
from headwater.gateway.web.limits.bounded_protocols import BoundedWebSocket
from headwater.model.limits import DEFAULT
from headwater.pipeline.records import diff_record
from headwater.pipeline.records.control import AnswerRecord
from headwater.pipeline.requery.requery import LANES
from headwater.plan.planner import Planned
from headwater.protocol.emissions import encode_body
from tests.support.databases import WAYS, place
from tests.support.neighbours import neighbour, raw
from tests.support.processes import eventually


def test_owners_take_turns() -> None:
    queue: FairQueue[str] = FairQueue()
    for n in range(5):
        queue.put("greedy", f"g{n}")
    queue.put("modest", "m0")
    assert queue.take(3) == ["g0", "m0", "g1"]
    queue.put("late", "l0")
    assert queue.take(2) == ["g2", "l0"] and queue
    assert queue.take(9) == ["g3", "g4"] and not queue


def test_a_commit_finds_few_subscriptions_before_it_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are asked for at once: the next are logged when the cells have taken those before."""
    monkeypatch.setattr(hub, "_SETTLE_S", 600.0)
    asked, batches = 500, list[tuple[int, bool]]()
    with place("ws", tmp_path) as here, raw(here) as greedy:
        pipeline, cells, last = here.server.pipeline, here.server.hub, 0
        subscribe = pipeline.subscribe

        def noted(*planned: Planned, **options: Any) -> None:
            nonlocal last
            batches.append((len(planned), cells.cells.slowest >= last))
            subscribe(*planned, **options)
            last = pipeline.log_offset - 1

        monkeypatch.setattr(pipeline, "subscribe", noted)
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        for n in range(asked):
            greedy.say({"type": "subscribe", "id": f"q{n}", "sql": "SELECT id FROM t WHERE id = ?", "params": [n]})
        eventually(lambda: sum(count for count, _ in batches) == asked)
    assert max(count for count, _ in batches) <= BATCH_MAX
    assert all(taken for _, taken in batches)


def test_a_commit_finds_few_answers_before_it_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many re-queried windows are asked for at once: each lane logs when the cells have taken those before."""
    monkeypatch.setattr(hub, "_SETTLE_S", 600.0)
    asked, go, settling, logged = 40, threading.Event(), list[int](), list[int]()
    with place("ws", tmp_path) as here, raw(here) as greedy:
        pipeline, reader = here.server.pipeline, here.server.hub
        refresh, reached, settle = pipeline._requery._refresh, pipeline.capture.reached, reader.settle
        log = refresh._log

        def noted(answers: Sequence[AnswerRecord]) -> list[int]:
            logged.extend(answer.instance for answer in answers)
            return log(answers)

        def settled() -> None:
            settling.append(len(logged))
            settle()

        monkeypatch.setattr(refresh, "_logged", lambda position: go.wait(600) and reached(position))
        monkeypatch.setattr(refresh, "_log", noted)
        monkeypatch.setattr(pipeline, "settle", settled)
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        for n in range(asked):
            sql = f"SELECT id, count(*) OVER () AS c{n} FROM t"
            greedy.say({"type": "subscribe", "id": f"q{n}", "sql": sql})
        eventually(lambda: len(pipeline._requery.windows.asked) == asked)
        with reader._lock:  # which keeps it from hearing of the cells
            go.set()
            eventually(lambda: len(settling) >= LANES)
            assert len(logged) <= LANES
        eventually(lambda: len(logged) >= asked)


def test_a_socket_whose_messages_wait_is_not_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a ping stands behind the messages that we do not read yet."""
    go, pings = threading.Event(), list[float]()
    ping = BoundedWebSocket.send_keepalive_ping

    def often(self: BoundedWebSocket) -> None:
        self.ping_interval = 0.01
        self.ping_timeout = None if self.ping_timeout is None else 0.01
        pings.append(0.0)
        ping(self)

    monkeypatch.setattr(BoundedWebSocket, "send_keepalive_ping", often)
    monkeypatch.setattr(BoundedWebSocket, "schedule_ping", lambda self: self.loop.call_later(0.01, often, self))
    with place("ws", tmp_path, limits=replace(DEFAULT, subscribes_under_way_max=1)) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        plan = here.server.pipeline.plan
        monkeypatch.setattr(here.server.pipeline, "plan", lambda *given: plan(*given) if go.wait(600) else None)
        with raw(here) as patient:
            for n in range(20):
                patient.say({"type": "subscribe", "id": f"q{n}", "sql": "SELECT id FROM t"})
            eventually(lambda: len(pings) > 50)
            go.set()
            assert [patient.hear("ready")["id"] for _ in range(20)]


def test_a_query_that_is_not_planned_for_long_holds_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the database does not tell what it reads while somebody alters the table: nobody could subscribe to
    anything, for half a minute a query."""
    with place("ws", tmp_path) as here, raw(here) as greedy:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        held, goes_on, plan = threading.Semaphore(0), threading.Event(), here.server.pipeline.plan
        here.db.query("SELECT id FROM t", live=True)

        def slowly(sql: str, *given: Any) -> Planned:
            if "greedy" in sql:
                held.release()
                assert goes_on.wait(120)
            return plan(sql, *given)

        monkeypatch.setattr(here.server.pipeline, "plan", slowly)
        for n in range(40):
            greedy.say({"type": "subscribe", "id": f"q{n}", "sql": f"SELECT id AS greedy_{n} FROM t"})
        assert held.acquire(timeout=60)
        try:
            for sql in ("SELECT id FROM t", "SELECT id AS modest FROM t", "SELECT id, rank() OVER () AS r FROM t"):
                assert here.db.query(sql, live=True, timeout=60).state == "ready"
        finally:
            goes_on.set()
        for _ in range(40):
            greedy.hear("ready")


def test_who_waits_for_many_new_queries_leaves_threads_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the database waits for somebody's transaction: four of them, and nobody else's query began."""
    with place("ws", tmp_path) as here, raw(here) as greedy:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        held, goes_on, prepare = threading.Semaphore(0), threading.Event(), here.server.hub.prepare

        def slowly(session: Any, planned: Planned) -> Planned:
            if "greedy" in planned.text:
                held.release()
                assert goes_on.wait(120)
            return prepare(session, planned)

        monkeypatch.setattr(here.server.hub, "prepare", slowly)
        for n in range(20):
            greedy.say({"type": "subscribe", "id": f"q{n}", "sql": f"SELECT id AS greedy_{n} FROM t"})
        assert held.acquire(timeout=60)
        try:
            assert here.db.query("SELECT id AS modest FROM t", live=True, timeout=60).state == "ready"
        finally:
            goes_on.set()
        for _ in range(20):
            greedy.hear("ready")


def test_a_large_result_is_encoded_by_another_thread_than_the_hubs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(emission: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return encode_body(emission)

    monkeypatch.setattr(outbox, "encode_body", noted)
    monkeypatch.setattr(socket_sink, "_MANY_VALUES", 10)
    with place("ws", tmp_path) as here, neighbour(here):
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        here.write("INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11)")
        threads.clear()
        assert len(here.db.query("SELECT id FROM t", live=True).rows) == 11
    assert [name for name in threads if name.startswith("headwater-slow")]


@pytest.mark.parametrize("columns", [3, 600])
def test_a_long_query_is_planned_in_its_turn(tmp_path: Path, columns: int) -> None:
    with place("ws", tmp_path, limits=replace(DEFAULT, sql_bytes_max=1 << 20)) as here, neighbour(here):
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        here.write("INSERT INTO t VALUES (7)")
        shown = ", ".join(f"id + {n} AS c{n}" for n in range(columns))
        [row] = here.db.query(f"SELECT {shown} FROM t", live=True).rows
        assert list(row.values()) == [7 + n for n in range(columns)]
        with raw(here) as speaker:
            speaker.say({"type": "subscribe", "id": "q", "sql": f"SELECT {shown}, nothing FROM t"})
            assert speaker.hear("error")["code"] == "sql_error"


@pytest.mark.parametrize("way", WAYS)
def test_results_that_are_read_beside_the_hub_miss_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Every first result is large here, and changes come while it is read."""
    readers: set[str] = set()

    def noted(*arguments: Any) -> Any:
        readers.add(threading.current_thread().name.rpartition("_")[0])
        return read_emissions(*arguments)

    monkeypatch.setattr(diff_record, "_MANY_VALUES", 1)
    monkeypatch.setattr(diff_record, "read_emissions", noted)
    with place(way, tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.write("INSERT INTO t VALUES (0, 0), (1, 1), (2, 2)")
        stop, last = threading.Event(), 0

        def write() -> None:
            nonlocal last
            while not stop.wait(0.005):  # a database in memory has one connection: others want it too
                last = here.write("UPDATE t SET n = n + 1")

        writer = threading.Thread(target=write)
        writer.start()
        lives = [here.db.query(f"SELECT id, n + {k} AS m FROM t WHERE id <= {k % 3}", live=True) for k in range(12)]
        stop.set()
        writer.join()
        rows = dict(here.source_rows("SELECT id, n FROM t"))
        for k, live in enumerate(lives):
            assert live.wait(last, timeout=120) and live.state == "ready"
            assert {row["id"]: row["m"] for row in live.rows} == {id: rows[id] + k for id in range(k % 3 + 1)}
            assert live.resyncs == 0
    assert "headwater-results" in readers
