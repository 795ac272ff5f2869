"""Which strategy is taken, as costs say: counted by the cells, measured of answers, decided by the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headwater import LiveResult
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader
from headwater.model.emission import Emission, Result
from headwater.model.errors import SqlError
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.cell.cost_meter import CostMeter
from headwater.pipeline.planning.options import PlanOptions
from headwater.pipeline.records.control import MoveRecord, decode_control
from headwater.sources.sqlite.memory import MemorySource
from tests.support.databases import WAYS, Place, place
from tests.support.processes import eventually

JOIN = "SELECT a.id, b.name FROM a JOIN b ON b.id = a.b WHERE a.g = ?"
AT_ONCE = replace(DEFAULT, move_ms_min=0, follow_ms_max=0)
FREE, NEVER = 0, 10**9  # percents of what asking costs


@contextmanager
def opened(here: Path, way: str = "embedded", limits: Limits = DEFAULT) -> Iterator[Place]:
    with place(way, here, limits=limits) as made:
        made.server.pipeline.mover.stop()  # the test looks itself
        made.write("CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER, g INTEGER)")
        made.write("CREATE TABLE b (id INTEGER PRIMARY KEY, name TEXT)")
        made.write_together("INSERT INTO b VALUES (1, 'x'), (2, 'y')", "INSERT INTO a VALUES (1, 1, 1), (2, 2, 1)")
        yield made


def weighed(here: Place, percent: int, costs_ms: float = 100.0, transactions: int = 10) -> None:
    """As if the cells had reported so much of every relation."""
    mover, catalog = here.server.pipeline.mover, here.server.pipeline._catalog
    mover.limits = replace(AT_ONCE, asking_cost_percent=percent)
    relations = {known.table for known in catalog.templates.values() if known.table.startswith("~")}
    mover.spent({name: (int(costs_ms * 1000), transactions) for name in relations})
    mover.look()


def moves_of(here: Place) -> list[MoveRecord]:
    found: list[MoveRecord] = []
    with closing(SegmentReader(here.server.pipeline.layout.log)) as reader:
        while records := reader.poll():
            moves = [decode_control(one) for one in records if one.kind is Kind.MOVE]
            found += [one for one in moves if isinstance(one, MoveRecord)]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_query_that_costs_more_than_asking_is_asked_and_followed_again_when_that_turns(
    way: str, tmp_path: Path
) -> None:
    with opened(tmp_path, way) as here:
        live, other = (here.db.query(JOIN, group, live=True) for group in (1, 2))
        told, phases = list[Emission | None](), set[str]()
        live.listen(told.append)
        live.listen(lambda _: phases.add(live.state))
        weighed(here, FREE)
        eventually(lambda: live.strategy == other.strategy == "requery")
        assert live.wait(here.write("INSERT INTO a VALUES (3, 1, 1)")) and len(live.rows) == 3
        assert "a transaction costs 10.0 ms of CPU to follow" in here.db.explain(JOIN, 1)
        weighed(here, NEVER)
        eventually(lambda: live.strategy == other.strategy == "incremental")
        assert live.wait(here.write("INSERT INTO a VALUES (4, 1, 1)")) and len(live.rows) == 4
        assert "strategy incremental" in here.db.explain(JOIN, 1)
        assert [isinstance(one, Result) for one in told] == [True, False, True, False]
        assert phases == {"ready"} and live.resyncs == 0
        assert [one.strategy for one in moves_of(here)] == ["requery", "incremental"]
        assert [row["id"] for row in live.rows] == [1, 2, 3, 4]


def test_what_is_cheap_to_follow_or_dear_to_ask_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        live = here.db.query(JOIN, 1, live=True)
        weighed(here, NEVER)
        assert live.strategy == "incremental"
        here.server.pipeline.mover.limits = replace(AT_ONCE, follow_ms_max=11, asking_cost_percent=FREE)
        relation = next(known.table for known in here.server.pipeline._catalog.templates.values())
        here.server.pipeline.mover.spent({relation: (100_000, 10)})
        here.server.pipeline.mover.look()
        assert not moves_of(here) and live.wait(here.write("INSERT INTO a VALUES (3, 1, 1)"))
        assert live.strategy == "incremental"


def test_each_move_doubles_what_has_to_add_up_before_the_next(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        live = here.db.query(JOIN, 1, live=True)
        mover = here.server.pipeline.mover
        weighed(here, FREE)
        assert live.wait(here.write("INSERT INTO a VALUES (3, 1, 1)"))
        weighed(here, NEVER)
        [relation] = mover._times
        mover.limits = replace(AT_ONCE, move_ms_min=100, asking_cost_percent=FREE)
        for spent_ms, moves in ((250, 2), (149, 2), (1, 3)):
            mover.spent({relation: (spent_ms * 1000, 1)})
            mover.look()
            assert len(moves_of(here)) == moves, spent_ms
        eventually(lambda: live.strategy == "requery")


def test_a_forced_strategy_is_never_left(tmp_path: Path) -> None:
    with place("embedded", tmp_path, options=PlanOptions("incremental")) as here:
        here.write("CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER, g INTEGER)")
        live = here.db.query("SELECT g, count(*) AS n FROM a GROUP BY g", live=True)
        weighed(here, FREE)
        assert live.wait(here.write("INSERT INTO a VALUES (1, 1, 1)"))
        assert live.strategy == "incremental" and not moves_of(here)


def test_who_comes_after_a_move_is_asked_for_too_and_shares(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        first = here.db.query(JOIN, 1, live=True)
        weighed(here, FREE)
        late = [here.db.query(JOIN, group, live=True) for group in (1, 2, 3)]
        assert {one.strategy for one in late} == {"requery"}
        assert here.db.status()["windows"] == 3
        position = here.write("INSERT INTO a VALUES (3, 1, 2)")
        assert all(one.wait(position) for one in (first, *late))
        assert [len(one.rows) for one in late] == [2, 1, 0] and first.rows == late[0].rows


def test_where_the_database_cannot_answer_it_is_followed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, limits=replace(DEFAULT, result_rows_max=3)) as here:
        live = here.db.query(JOIN, 1, live=True)
        weighed(here, FREE)
        eventually(lambda: live.strategy == "requery")
        monkeypatch.setattr(MemorySource, "query", _refuse)
        here.write("INSERT INTO a VALUES (3, 1, 1)")
        eventually(lambda: here.server.pipeline.mover._retreats)
        monkeypatch.undo()
        here.server.pipeline.mover.look()
        assert live.wait(here.db.position()) and len(live.rows) == 3
        assert (
            live.strategy == "incremental" and live.state == "ready" and not here.server.pipeline._requery.windows.asked
        )
        assert "could not answer" in moves_of(here)[-1].reason


def _refuse(*given: object, **named: object) -> None:
    raise SqlError("division by zero")


def test_a_restart_goes_on_with_what_was_decided(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    with place("embedded", tmp_path / "data", url=url) as here:
        here.write("CREATE TABLE a (id INTEGER PRIMARY KEY, g INTEGER)")
        _grouped(here)
        weighed(here, FREE)
        eventually(lambda: moves_of(here))
    with place("embedded", tmp_path / "data", url=url) as here:
        live = _grouped(here)
        assert live.strategy == "requery"
        assert live.wait(here.write("INSERT INTO a VALUES (1, 1)")) and live.rows == [{"g": 1, "n": 1}]
        weighed(here, NEVER)
        assert live.wait(here.write("INSERT INTO a VALUES (2, 1)")) and live.rows == [{"g": 1, "n": 2}]
        eventually(lambda: live.strategy == "incremental")
    with place("embedded", tmp_path / "data", url=url) as here:
        live = _grouped(here)
        assert live.strategy == "incremental" and live.rows == [{"g": 1, "n": 2}]


def _grouped(here: Place) -> LiveResult:
    return here.db.query("SELECT g, count(*) AS n FROM a GROUP BY g", live=True)


def test_a_window_in_error_moves_too_and_recovers(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        live = here.db.query("SELECT sum(a.g) AS s FROM a JOIN b ON b.id = a.b", live=True)
        here.write(f"INSERT INTO a VALUES (3, 1, {2**63 - 1}), (4, 1, 5)")
        eventually(lambda: live.state == "stale")
        weighed(here, FREE)
        eventually(lambda: here.server.pipeline.mover._retreats)
        here.server.pipeline.mover.look()
        assert live.reason == "integer overflow"
        assert live.wait(here.write("DELETE FROM a WHERE id = 3")) and live.rows == [{"s": 7}]
        assert live.state == "ready" and live.strategy == "incremental"


def test_cells_report_what_relations_cost(tmp_path: Path) -> None:
    now = iter(range(0, 10**12, 15_000_000))
    meter = CostMeter(lambda: next(now))
    with meter.of("~r", 2):
        pass
    assert meter.due() == {}
    with meter.of("~r", 3):
        pass
    assert meter.due() == {"~r": (30_000, 5)} and meter.due() == {}


def test_the_costs_reach_the_mover_through_the_diffs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.cell.cost_meter._REPORTED_US", 0)
    with opened(tmp_path) as here:
        live = here.db.query(JOIN, 1, live=True)
        assert live.wait(here.write("INSERT INTO a VALUES (3, 1, 1)"))
        eventually(lambda: sum(one.transactions for one in here.server.pipeline.mover._spent.values()) >= 1)


def test_a_running_server_moves_by_what_its_cells_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.cell.cost_meter._REPORTED_US", 0)
    with place("embedded", tmp_path, limits=replace(AT_ONCE, asking_cost_percent=FREE)) as here:
        here.write("CREATE TABLE a (id INTEGER PRIMARY KEY, g INTEGER)")
        live = here.db.query("SELECT g, count(*) AS n FROM a GROUP BY g", live=True)
        assert live.wait(here.write("INSERT INTO a VALUES (1, 1)"))
        eventually(lambda: live.strategy == "requery")
        assert live.wait(here.write("INSERT INTO a VALUES (2, 1)")) and live.rows == [{"g": 1, "n": 2}]


def test_what_following_cost_long_ago_counts_less_and_less(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        live = here.db.query(JOIN, 1, live=True)
        pipeline = here.server.pipeline
        weighed(here, FREE)  # at 10 ms for a transaction
        assert live.wait(here.write("INSERT INTO a VALUES (3, 1, 1)"))
        pipeline.mover.limits = AT_ONCE
        for moves in (1, 1, 2):
            [asked] = pipeline._requery.windows.asked.values()
            asked.spent_s, asked.transactions = 1.0, 100
            pipeline.mover.look()
            assert len(moves_of(here)) == moves
        eventually(lambda: live.strategy == "incremental")
