"""LiveResult and its session alone: what a hub or a socket may say, and what a user may see of it."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from headwater.client.live import LiveResult
from headwater.client.operations import operations
from headwater.client.session import ClientSession
from headwater.model.emission import Diff, Emission, Fields, Result, RowChange, State, Swap, apply
from headwater.model.errors import HeadwaterError
from tests.support.databases import play, values
from tests.support.fuzz import tries
from tests.support.processes import eventually
from tests.support.states import Move, diff, moves, shown


class Desk:
    """A session with live results `a` and `b`, spoken to as a hub would."""

    def __init__(self, *, ready: bool = True, callback: Any = None) -> None:
        self.gaps: list[str] = []
        self.session = ClientSession(self.gaps.append)
        self.a, self.b = (self._live(id, callback) for id in "ab")
        if ready:
            for id in "ab":
                self.session.emit(id, result(1, 10, 1, 2))
                self.session.ready(id, 10)
            self.session.progress(10)

    def _live(self, id: str, callback: Any) -> LiveResult:
        session = self.session
        live = LiveResult(
            id,
            "SELECT n FROM t",
            ("n",),
            session.changed,
            lambda: session.position,
            callback=callback,
            reach=lambda position: None,
            abort=lambda forget: session.remove(id),
            explain=lambda: "a plan",
        )
        session.add(live)
        return live

    def change(self, id: str, seq: int, position: int, *numbers: int, prev: int = 1) -> None:
        inserts = tuple(RowChange("insert", None, {"n": n}, None, f"h{n}") for n in numbers)
        self.session.emit(id, Diff(seq, prev, 1, position, inserts))


def result(seq: int, position: int, *numbers: int) -> Result:
    return Result(seq, 0, 1, position, tuple({"n": n} for n in numbers), tuple(f"h{n}" for n in numbers), ("n",))


def later(desk: Desk, *calls: Callable[[], object]) -> threading.Thread:
    """On a thread, once somebody has begun to wait."""

    def call_all() -> None:
        eventually(lambda: desk.session.changed._waiters)  # type: ignore[attr-defined]
        for call in calls:
            call()

    thread = threading.Thread(target=call_all)
    thread.start()
    return thread


# — laws 2 and 8: nothing is seen before its position is complete


def test_nothing_is_seen_before_the_first_progress() -> None:
    desk = Desk(ready=False)
    desk.session.emit("a", result(1, 10, 1, 2))
    desk.session.ready("a", 10)
    assert (desk.a.state, list(desk.a.rows), desk.a.position) == ("initializing", [], 0)
    desk.session.progress(10)
    assert (desk.a.state, values(desk.a), desk.a.position) == ("ready", [1, 2], 10)
    assert desk.b.state == "initializing"


def test_a_heartbeat_of_an_older_position_between_result_and_progress_changes_nothing() -> None:
    desk = Desk(ready=False)
    desk.session.emit("a", result(1, 10, 1, 2))
    desk.session.ready("a", 10)
    desk.session.progress(9)
    assert (desk.a.state, list(desk.a.rows)) == ("initializing", [])
    desk.session.progress(10)
    assert (desk.a.state, values(desk.a)) == ("ready", [1, 2])


def test_all_queries_of_a_session_move_together() -> None:
    desk = Desk()
    seen: list[tuple[list[Any], list[Any]]] = []
    desk.b.listen(lambda _: None)
    desk.change("a", 2, 11, 3)
    assert (values(desk.a), values(desk.b)) == ([1, 2], [1, 2])
    desk.change("b", 2, 11, 3)
    with desk.session.changed:
        seen.append((values(desk.a), values(desk.b)))
        desk.session.progress(11)
        seen.append((values(desk.a), values(desk.b)))
    assert seen == [([1, 2], [1, 2]), ([1, 2, 3], [1, 2, 3])]


def test_what_belongs_to_a_later_position_waits_for_it() -> None:
    desk = Desk()
    desk.change("a", 2, 11, 3)
    desk.change("a", 3, 12, 4, prev=2)
    desk.session.progress(11)
    assert (values(desk.a), desk.a.seq, desk.a.position) == ([1, 2, 3], 2, 11)
    desk.session.progress(12)
    assert (values(desk.a), desk.a.seq, desk.a.position) == ([1, 2, 3, 4], 3, 12)


def test_an_older_list_of_rows_stays_whole() -> None:
    desk = Desk()
    before, hashes = desk.a.rows, desk.a.hashes
    desk.change("a", 2, 11, 3)
    desk.session.progress(11)
    assert [dict(row) for row in before] == [{"n": 1}, {"n": 2}] and list(hashes) == ["h1", "h2"]
    assert desk.a.rows is not before


def test_a_snapshot_is_of_one_moment() -> None:
    desk = Desk()
    desk.change("a", 2, 11, 3)
    desk.session.progress(12)
    now = desk.a.snapshot
    assert (len(now.rows), list(now.hashes), now.seq, now.position) == (3, ["h1", "h2", "h3"], 2, 11)


# — wait


def test_wait_with_nothing_is_for_the_next_change() -> None:
    desk = Desk()
    assert desk.a.wait(timeout=0.01) is False
    thread = later(desk, partial(desk.change, "a", 2, 11, 3), partial(desk.session.progress, 11))
    assert desk.a.wait(timeout=120)
    assert values(desk.a) == [1, 2, 3]
    thread.join()


def test_wait_for_a_position_needs_no_change() -> None:
    desk = Desk()
    assert desk.a.wait(10, timeout=0)
    assert desk.a.wait(12, timeout=0.01) is False
    thread = later(desk, lambda: desk.session.progress(13))
    assert desk.a.wait(12, timeout=120)
    thread.join()


def test_wait_for_a_seq() -> None:
    desk = Desk()
    assert desk.a.wait(seq=1, timeout=0)
    thread = later(desk, partial(desk.change, "a", 5, 11, 3), partial(desk.session.progress, 11))
    assert desk.a.wait(seq=4, timeout=120)
    assert desk.a.seq == 5
    thread.join()


def test_wait_for_a_position_means_nothing_before_the_result_is_here() -> None:
    desk = Desk(ready=False)
    desk.session.progress(50)
    assert desk.a.wait(10, timeout=0.01) is False


def test_wait_raises_when_the_query_is_or_becomes_closed() -> None:
    desk = Desk()
    thread = later(desk, lambda: desk.session.closed("a", "the table is gone"))
    with pytest.raises(HeadwaterError, match="the table is gone"):
        desk.a.wait(99, timeout=120)
    with pytest.raises(HeadwaterError, match="the table is gone"):
        desk.a.wait(1)
    thread.join()
    assert (desk.a.state, desk.b.state) == ("closed", "ready")
    assert values(desk.a) == [1, 2], "the last rows can still be read"


# — gaps, staleness, errors


def test_an_emission_that_does_not_follow_asks_for_a_fresh_result() -> None:
    desk = Desk()
    desk.change("a", 9, 11, 3, prev=7)
    desk.change("b", 2, 11, 3)
    desk.session.progress(11)
    assert desk.gaps == ["a"]
    assert (desk.a.state, values(desk.a), desk.a.resyncs) == ("stale", [1, 2], 1)
    assert (desk.b.state, values(desk.b)) == ("ready", [1, 2, 3])
    assert desk.a.wait(11, timeout=0) is False
    desk.session.emit("a", result(9, 11, 5))
    desk.session.ready("a", 11)
    desk.session.progress(12)
    assert (desk.a.state, values(desk.a), desk.a.position) == ("ready", [5], 12)


def test_a_lost_connection_leaves_rows_that_say_they_are_stale() -> None:
    desk = Desk()
    desk.session.stale()
    assert (desk.a.state, values(desk.a), desk.a.position) == ("stale", [1, 2], 10)
    desk.session.ready("a", 10)
    desk.session.progress(10)
    assert (desk.a.state, desk.a.position, desk.b.state) == ("ready", 10, "stale")


def test_after_a_lost_connection_the_position_is_what_the_new_one_says() -> None:
    desk = Desk()
    desk.session.progress(100)
    desk.session.stale()
    desk.session.ready("a", 20)
    desk.session.progress(20)
    assert desk.a.position == 20


def test_a_query_in_error_is_stale_with_the_reason_and_comes_back() -> None:
    desk = Desk()
    desk.session.failed("a", "integer overflow")
    assert (desk.a.state, desk.a.reason, values(desk.a)) == ("stale", "integer overflow", [1, 2])
    desk.session.emit("a", result(5, 12, 7))
    desk.session.progress(12)
    assert (desk.a.state, desk.a.reason, values(desk.a)) == ("ready", None, [7])


def test_a_query_in_error_from_the_start_does_not_keep_its_user_waiting() -> None:
    desk = Desk(ready=False)
    thread = later(desk, lambda: desk.session.failed("a", "integer overflow"))
    assert desk.a.wait_ready(120)
    thread.join()
    assert (desk.a.state, desk.a.reason, list(desk.a.rows)) == ("stale", "integer overflow", [])
    desk.session.emit("a", result(1, 10, 1))
    desk.session.ready("a", 10)
    desk.session.progress(10)
    assert (desk.a.state, values(desk.a)) == ("ready", [1])


# — events, observers, callbacks


def test_events_begin_where_they_were_asked_for() -> None:
    desk = Desk()
    desk.change("a", 2, 11, 3)
    desk.session.progress(11)
    events = desk.a.events(timeout=0)
    desk.change("a", 3, 12, 4, prev=2)
    desk.change("a", 4, 13, 5, prev=3)
    desk.session.progress(12)
    desk.session.progress(13)
    assert [event.seq for event in events] == [3, 4]


def test_events_end_with_the_query() -> None:
    desk = Desk()
    events = desk.a.events()
    desk.change("a", 2, 11, 3)
    desk.session.progress(11)
    desk.a.abort()
    assert [event.seq for event in events] == [2]
    assert list(desk.a.events()) == []


def test_events_that_nobody_reads_are_not_kept() -> None:
    desk = Desk()
    desk.a.events()
    gc.collect()
    assert desk.a._listeners == []
    iterator = desk.a.events(timeout=0)
    assert list(iterator) == []
    assert desk.a._listeners == []


@tries(150)
@given(moves())
def test_operations_lead_from_the_rows_before_to_the_rows_after(move: Move) -> None:
    emission = diff(move)
    after = apply(move.before, emission)
    rows: list[Any] = list(move.before.rows)
    play(rows, operations(move.before, emission, after))
    assert shown(rows) == shown(after.rows)


@pytest.mark.parametrize("emission", [Swap(2, 1, 1, 11, ((0, 1), (1, 0), (0, 1))), result(2, 11, 7, 8, 9)])
def test_operations_of_swaps_and_results(emission: Emission) -> None:
    before = apply(State(), result(1, 10, 1, 2))
    after = apply(before, emission)
    rows: list[Fields] = list(before.rows)
    play(rows, operations(before, emission, after))
    assert shown(rows) == shown(after.rows)


def test_an_observer_gets_one_list_of_operations_per_transaction() -> None:
    desk = Desk()
    lists: list[Any] = []
    stop = desk.a.observe(lists.append)
    desk.change("a", 2, 11, 3, 4)
    desk.change("a", 3, 12, 5, prev=2)
    desk.session.progress(12)
    assert [[(one.type, one.index) for one in each] for each in lists] == [
        [("insert", 2), ("insert", 3)],
        [("insert", 4)],
    ]
    stop()
    stop()
    desk.change("a", 4, 13, 6, prev=3)
    desk.session.progress(13)
    assert len(lists) == 2


def test_with_a_callback_the_rows_stay_as_they_were_at_first() -> None:
    told: list[tuple[str, int]] = []
    desk = Desk(callback=lambda name, emission: told.append((name, emission.seq)))
    assert told == [], "the first result is what `rows` holds"
    desk.change("a", 2, 11, 3)
    desk.session.progress(11)
    assert told == [("diff", 2)]
    assert values(desk.a) == [1, 2] and list(desk.a.hashes) == ["h1", "h2"]
    assert desk.a.seq == 2


def test_a_callback_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    seen: list[Any] = []

    def raising(*_: object) -> None:
        raise ValueError("a user's mistake")

    desk.a.listen(raising)
    desk.a.observe(raising)
    desk.a.listen(seen.append)
    desk.b.listen(seen.append)
    desk.change("a", 2, 11, 3)
    desk.change("b", 2, 11, 3)
    with caplog.at_level(logging.CRITICAL, "headwater.client"):
        desk.session.progress(11)
        desk.session.closed("a", "over")
    assert (values(desk.a), values(desk.b)) == ([1, 2, 3], [1, 2, 3])
    assert len(seen) == 3 and seen[-1] is None


def test_a_listener_may_stop_itself() -> None:
    desk = Desk()
    seen: list[str] = []

    def once(_: object) -> None:
        seen.append("once")
        stop()

    stop = desk.a.listen(once)
    desk.a.listen(lambda _: seen.append("always"))
    desk.change("a", 2, 11, 3)
    desk.change("a", 3, 12, 4, prev=2)
    desk.session.progress(12)
    assert seen == ["once", "always", "always"]


# — the end


def test_abort_ends_it_once_and_what_comes_later_is_ignored() -> None:
    desk = Desk()
    ends: list[Any] = []
    desk.a.listen(ends.append)
    desk.a.abort()
    desk.a.abort()
    desk.session.closed("a", "again")
    desk.change("a", 2, 11, 3)
    desk.session.progress(11)
    assert (desk.a.state, desk.a.reason, ends, values(desk.a)) == ("closed", "aborted", [None], [1, 2])


def test_a_session_ignores_what_is_said_of_strangers() -> None:
    desk = Desk()
    desk.change("zz", 2, 11, 3)
    for say in (desk.session.ready, desk.session.resync, desk.session.failed, desk.session.closed):
        say("zz", 1)  # type: ignore[arg-type]
    desk.session.progress(11)
    assert desk.gaps == []


def test_a_position_is_not_told_before_its_rows_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks without waiting, from another thread, while the rows are being made."""
    desk = Desk()
    seen: list[int] = []

    def watched(state: State, emission: Emission) -> State:
        seen.extend((desk.a.position, desk.b.position))
        return apply(state, emission)

    monkeypatch.setattr("headwater.client.live.apply", watched)
    desk.change("a", 2, 20, 3)
    desk.session.progress(20)
    assert seen == [10, 10]
    assert (desk.a.position, desk.b.position) == (20, 20)
