"""What a commit costs those whom it does not concern: nothing (law 10); and who waits for its position hears of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import headwater
from headwater.gateway.hub.deadlines import Deadlines
from headwater.model.emission import Emission
from headwater.model.limits import DEFAULT
from headwater.plan.planner import Planned
from tests.support.byhand import Works
from tests.support.databases import WAYS, place, values
from tests.support.processes import eventually
from tests.support.proxy import Proxy

COMMITS = 20
NO_HEARTBEAT = replace(DEFAULT, heartbeat_ms=10**9)


@dataclass(slots=True, eq=False)
class Heard:
    """A sink that notes what it is told."""

    emissions: list[Emission] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    readies: list[str] = field(default_factory=list)

    def emit(self, subscription: str, emission: Emission) -> None:
        self.emissions.append(emission)

    def ready(self, subscription: str, position: int) -> None:
        self.readies.append(subscription)

    def resync(self, subscription: str, reason: str) -> None:
        pass

    def replanned(self, subscription: str, planned: Planned) -> None:
        pass

    def failed(self, subscription: str, reason: str) -> None:
        pass

    def closed(self, subscription: str, reason: str) -> None:
        pass

    def health(self, failure: str | None) -> None:
        pass

    def progress(self, position: int) -> None:
        self.positions.append(position)


@pytest.mark.parametrize("sessions", [3, 300])
def test_a_commit_moves_the_sessions_it_concerns_and_no_others(tmp_path: Path, sessions: int) -> None:
    works = Works(tmp_path, limits=NO_HEARTBEAT)
    works.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    sinks = [Heard() for _ in range(sessions)]
    for number, sink in enumerate(sinks):
        planned = works.pipeline.plan("SELECT n FROM t WHERE id = ?", [number])
        works.hub.subscribe(works.hub.open(sink), "q", planned)
    works.run()
    works.hub._alignment.sessions_moved, rounds = 0, 0
    before = [len(sink.positions) for sink in sinks]
    for n in range(COMMITS):
        works.write(f"INSERT OR REPLACE INTO t VALUES (1, {n})")
        works.run()
        rounds += 2  # the one eager session there is, moves in each round
    assert works.hub._alignment.sessions_moved == COMMITS + rounds
    told = [len(sink.positions) - count for sink, count in zip(sinks, before, strict=True)]
    assert told == [COMMITS if number == 1 else 0 for number in range(sessions)]
    assert len(sinks[1].emissions) == 1 + COMMITS
    works.close()


def test_a_position_that_changes_nothing_comes_with_the_heartbeat(tmp_path: Path) -> None:
    works = Works(tmp_path)
    works.write("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE other (id INTEGER PRIMARY KEY)")
    sink = Heard()
    session = works.hub.open(sink)
    works.hub.subscribe(session, "q", works.pipeline.plan("SELECT id FROM t"))
    works.subscribe("SELECT id FROM other")
    works.run()
    position = works.write("INSERT INTO other VALUES (1)")
    works.run()
    assert sink.positions[-1] < position
    for beats in (1, 2):
        works.hub.beat([session])
        assert sink.positions[-beats:] == [position] * beats and len(sink.emissions) == 1
    works.hub.close(session)
    works.hub.beat([session])
    assert sink.positions[-3:] != [position] * 3
    works.close()


@pytest.mark.parametrize("windows", [3, 60])
def test_an_answer_is_told_to_its_own_query_and_no_others(tmp_path: Path, windows: int) -> None:
    """How far the other re-queried windows of the session are right comes with the heartbeat."""
    works = Works(tmp_path, limits=NO_HEARTBEAT)
    works.write("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE other (id INTEGER PRIMARY KEY)")
    sink = Heard()
    session = works.hub.open(sink)
    for number in range(windows):
        sql = f"SELECT id, count(*) OVER () AS c{number} FROM {'t' if number else 'other'}"
        works.hub.subscribe(session, f"q{number}", works.pipeline.plan(sql))
    works.run()
    sink.readies.clear()
    for number in range(COMMITS):
        works.write(f"INSERT INTO other VALUES ({number})")
        works.run()
    assert sink.readies == ["q0"] * COMMITS
    works.hub.await_position(session, session.position)
    works.run()
    assert sorted(set(sink.readies)) == sorted(f"q{number}" for number in range(windows))
    works.close()


QUERIES = ("SELECT id FROM t", "SELECT id, max(id) OVER () AS most FROM t")


@pytest.mark.parametrize("sql", QUERIES, ids=["incremental", "requery"])
@pytest.mark.parametrize("way", WAYS)
def test_who_waits_for_a_position_that_changes_nothing_hears_of_it(tmp_path: Path, way: str, sql: str) -> None:
    """Without a heartbeat: only the wish can bring it."""
    with place(way, tmp_path, limits=NO_HEARTBEAT) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        here.write("CREATE TABLE other (id INTEGER PRIMARY KEY)")
        live, other = here.db.query(sql, live=True), here.db.query("SELECT id FROM other", live=True)
        for n in range(3):
            assert live.wait(here.write("INSERT INTO other VALUES (?)", n), timeout=120)
        assert values(other) == [0, 1, 2] and values(live) == []
        other.abort(forget=True)
        for n in range(3, 6):
            assert live.wait(here.write("INSERT INTO other VALUES (?)", n), timeout=120)


def test_a_wish_outlives_the_connection(tmp_path: Path) -> None:
    with place("ws", tmp_path, limits=NO_HEARTBEAT) as here, Proxy(int(here.url.rpartition(":")[2])) as proxy:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        here.write("CREATE TABLE other (id INTEGER PRIMARY KEY)")
        here.db.query("SELECT id FROM other", live=True)
        with headwater.connect(f"ws://127.0.0.1:{proxy.port}") as db:
            live = db.query("SELECT id FROM t", live=True)
            position = here.server.pipeline.source.position() + 1
            assert not live.wait(position, timeout=0)
            proxy.cut()
            eventually(lambda: db._backend.reconnects > 0)  # type: ignore[attr-defined]
            eventually(lambda: live.state == "ready")
            assert here.write("INSERT INTO other VALUES (1)") >= position
            eventually(lambda: live.position >= position)


def test_what_all_have_left_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows, histories, slots and leases, and the room that they took."""
    monkeypatch.setattr("headwater.gateway.hub.windows._LINGER_S", 0.0)
    works = Works(tmp_path, limits=NO_HEARTBEAT)
    works.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    session = works.hub.open(Heard())
    for number in range(200):
        planned = works.pipeline.plan("SELECT n FROM t WHERE id = ?", [number])
        works.hub.subscribe(session, f"q{number}", planned)
    works.run()
    works.write("INSERT INTO t SELECT value, value FROM json_each('[1, 2, 3, 4, 5]')")
    works.run()
    flow, budget = works.cells[0]._dataflow, works.hub._windows.budget
    [live] = flow._state.active.values()
    assert len(flow._state.windows) == len(live.instances.window_slots) == 200 and budget.bytes_held > 0
    works.hub.close(session)
    works.run()
    works.run()
    assert budget.bytes_held == 0 and not budget._held
    assert not works.hub._windows.held and not works.hub._windows.subscribed and not works.hub._windows.idle._heap
    assert not flow._state.windows and not works.cells[0]._leases.before(10**9)
    assert len(live.instances.window_slots.records) == len(live.instances.group_slots.records) == 1
    works.close()


def test_deadlines_come_in_order_and_only_the_last_of_a_key_counts() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("b", 4.0), ("d", 2.0)):
        deadlines.set(key, at)
    deadlines.drop("d")
    assert deadlines.due(0.5) == [] and len(deadlines) == 3
    assert deadlines.due(3.0) == ["c", "a"]
    assert list(deadlines) == ["b"] and "a" not in deadlines
    assert deadlines.due(9.0) == ["b"] and len(deadlines) == 0


def test_deadlines_that_were_dropped_are_let_go() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for number in range(10_000):
        deadlines.set(number, float(number))
    for number in range(9_999):
        deadlines.drop(number)
    assert len(deadlines._heap) < 200 and deadlines.due(1e9) == [9_999]
