"""Windows that begin anew: asked for until they are to be had, and no longer than somebody waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from headwater.gateway.hub import resubscribe
from headwater.gateway.hub.resubscribe import Resubscriber
from headwater.model.errors import SourceError, SqlError
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.planner import Planned, plan
from headwater.sources.source import ChangesLost, NotCaptured
from tests.support.processes import eventually

TABLE = Table("t", (Column("id", Type.INTEGER), Column("n", Type.INTEGER)), ("id",), 1)


def _planned(sql: str) -> Planned:
    return plan(sql, {"t": TABLE})


@dataclass(slots=True)
class Desk:
    """`answers` are what asking comes to, in turn; then it succeeds."""

    answers: list[Exception] = field(default_factory=list)
    is_reachable: bool = True
    wanted: bool = True
    asked: list[tuple[int, ...]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def subscribe(self, *planned: Planned) -> None:
        self.asked.append(tuple(sorted(one.instance.id for one in planned)))
        if self.answers:
            raise self.answers.pop(0)

    def running(self) -> Resubscriber:
        return Resubscriber(
            self.subscribe,
            lambda: self.is_reachable,
            lambda _: self.wanted,
            lambda _, reason: self.refused.append(reason),
        )


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Desk], Resubscriber]]:
    monkeypatch.setattr(resubscribe, "_PAUSE_S", 0.001)
    monkeypatch.setattr(resubscribe, "_PAUSE_S_MAX", 0.001)
    started: list[Resubscriber] = []

    def start(desk: Desk) -> Resubscriber:
        started.append(desk.running())
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


ONE = "SELECT id FROM t WHERE n = 1"
TWO = "SELECT id FROM t WHERE n = 2"  # of the same template
OTHER = "SELECT n FROM t"


def test_those_of_one_template_are_asked_for_together() -> None:
    desk = Desk()
    here = desk.running()
    for sql in (ONE, OTHER, TWO):
        here.add(_planned(sql))
    here.start()
    eventually(lambda: len(desk.asked) == 2)
    here.stop()
    assert sorted(map(len, desk.asked)) == [1, 2]


def test_it_waits_for_an_origin_that_cannot_be_reached(start: Callable[[Desk], Resubscriber]) -> None:
    desk = Desk([SourceError("could not be reached")] * 50, is_reachable=False)
    start(desk).add(_planned(ONE))
    eventually(lambda: len(desk.asked) == 51)
    assert desk.refused == []


def test_what_an_origin_that_answers_refuses_again_and_again_is_refused(start: Callable[[Desk], Resubscriber]) -> None:
    desk = Desk([SourceError("no such table")] * 50)
    start(desk).add(_planned(ONE))
    eventually(lambda: desk.refused)
    assert desk.refused == ["no such table"]
    assert 1 < len(desk.asked) < 50


def test_a_query_that_is_wrong_by_now_is_refused_at_once(start: Callable[[Desk], Resubscriber]) -> None:
    desk = Desk([SqlError("column n does not exist", sql=ONE)])
    start(desk).add(_planned(ONE))
    eventually(lambda: desk.refused)
    assert len(desk.asked) == 1


def test_nobody_waits_any_more(start: Callable[[Desk], Resubscriber]) -> None:
    desk = Desk([SourceError("could not be reached")] * 1_000_000, is_reachable=False)
    here = start(desk)
    here.add(_planned(ONE))
    eventually(lambda: len(desk.asked) > 2)
    desk.wanted = False
    desk.answers.clear()
    asked = len(desk.asked)
    here.add(_planned(OTHER))
    eventually(lambda: not here._lost)
    assert len(desk.asked) <= asked + 1


def test_a_loss_that_is_not_over_is_waited_for(start: Callable[[Desk], Resubscriber]) -> None:
    """Where capture was slow to begin anew, who asked four times was told of the slot, and never of the table."""
    passing = [ChangesLost("the slot was dropped"), NotCaptured("table 't' is not captured")]
    desk = Desk([*passing * 10, *[SourceError("no table 't'")] * 20])
    start(desk).add(_planned(ONE))
    eventually(lambda: desk.refused)
    assert desk.refused == ["no table 't'"]


@pytest.mark.parametrize(("times", "told"), [(1, []), (9, ["the live query could not be restarted"])])
def test_an_error_of_ours_is_tried_again_and_then_told(
    times: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was logged, and those who waited stayed stale for good."""
    monkeypatch.setattr(resubscribe, "_PAUSE_S", 0.001)
    desk = Desk([KeyError("t")] * times)
    here = desk.running()
    here.add(_planned(ONE))
    assert here.restart()
    assert desk.refused == told
