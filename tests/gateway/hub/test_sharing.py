"""Sharing (law 9), coherence (law 8) and limits (law 11): ten thousand subscriptions to one template, two cells, late
subscribers, and what happens when there are too many or they are too far behind."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.client.remote import Remote
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader
from headwater.model.limits import DEFAULT
from headwater.pipeline import retention
from headwater.pipeline.cell.cell import Cell
from tests.support.databases import WAYS, Place, place, rows, values
from tests.support.neighbours import raw
from tests.support.processes import eventually

ASKED = ("snapshot", "query", "prepare", "tables")
ROWS = 10_000


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place("ws", tmp_path) as opened:
        fill(opened)
        yield opened


def fill(here: Place, count: int = ROWS) -> None:
    here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, name TEXT)")
    here.write(
        f"INSERT INTO t WITH RECURSIVE s(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM s WHERE x < {count - 1}) "
        "SELECT x, x, 'n' || x FROM s"
    )


def count_questions(here: Place, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the origin is asked something, from now on."""
    counted: Counter[str] = Counter()
    source = here.server.pipeline.source

    def counting(name: str) -> Any:
        ask = getattr(source, name)

        def asked(*args: Any, **options: Any) -> Any:
            counted[name] += 1
            return ask(*args, **options)

        return asked

    for name in ASKED:
        monkeypatch.setattr(source, name, counting(name))
    return counted


@pytest.fixture(autouse=True)
def whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it is counted: nothing of it goes."""
    monkeypatch.setattr(retention, "_SEGMENT_BYTES_MIN", sys.maxsize)


def records(here: Place) -> Counter[Kind]:
    """What the log holds, by kind."""
    with SegmentReader(here.server.pipeline.layout.log) as reader:
        found: Counter[Kind] = Counter()
        while read := reader.poll():
            found.update(record.kind for record in read)
    return found


# — bar 6


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_subscriptions_to_one_template_ask_the_origin_once(
    here: Place, monkeypatch: pytest.MonkeyPatch, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    counted, sql = count_questions(here, monkeypatch), "SELECT id, name FROM t WHERE n = ?"
    with raw(here) as speaker:
        began = time.perf_counter()
        for n in range(count):
            speaker.say({"type": "subscribe", "id": str(n), "sql": sql, "params": [n]})
        results = {message["id"]: message["rows"] for message in (speaker.hear("result") for _ in range(count))}
        took = time.perf_counter() - began
        with capsys.disabled():
            print(f"\n{count} subscriptions to one template: {took:.1f} s, {took / count * 1e6:.0f} µs each")
        assert results == {str(n): [[n, f"n{n}"]] for n in range(count)}
        assert counted == {"tables": counted["tables"], "prepare": 1, "snapshot": 1}
        logged = records(here)
        assert (logged[Kind.CAPTURE], logged[Kind.ACTIVATE], logged[Kind.SUBSCRIBE]) == (1, 1, count)
        asked_before = counted.copy()
        here.write("UPDATE t SET name = 'new' WHERE n = 7")
        change = speaker.hear("diff")
        assert (change["id"], change["changes"][0]["new"]) == ("7", {"name": "new"})
        assert here.db.query(sql, -1, live=True).state == "ready"
        assert counted - asked_before == {}, "a new subscriber to a known template asks nothing"


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT id, name FROM t WHERE n < ? ORDER BY n DESC LIMIT 1", lambda n: [n + 1]),
        ("SELECT id, name FROM t WHERE n >= ? AND n < ?", lambda n: [n, n + 1]),
        ("SELECT id, name FROM t WHERE n IN (?, ?)", lambda n: [n, -n - 1]),
    ],
)
def test_subscriptions_that_differ_in_a_list_or_a_bound_ask_the_origin_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, params: Callable[[int], list[int]]
) -> None:
    count = 200
    with place("ws", tmp_path) as here:
        fill(here, count)
        counted = count_questions(here, monkeypatch)
        with raw(here) as speaker:
            for n in range(count):
                speaker.say({"type": "subscribe", "id": str(n), "sql": sql, "params": params(n)})
            results = {message["id"]: message["rows"] for message in (speaker.hear("result") for _ in range(count))}
            assert results == {str(n): [[n, f"n{n}"]] for n in range(count)}
            assert counted == {"tables": counted["tables"], "prepare": 1, "snapshot": 1}
            assert (records(here)[Kind.ACTIVATE], records(here)[Kind.SUBSCRIBE]) == (1, count)
            here.write("UPDATE t SET name = 'new' WHERE n = 7")
            change = speaker.hear("diff")
            assert (change["id"], change["changes"][0]["new"]) == ("7", {"name": "new"})


def test_queries_that_mean_the_same_share_one_window(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = count_questions(here, monkeypatch)
    texts: list[tuple[str, tuple[Any, ...]]] = [
        ("SELECT id, name FROM t WHERE n = 5", ()),
        ("select id, name from t where 5 = n", ()),
        ("SELECT t.id, t.name FROM t AS t WHERE n = ?", (5,)),
        ('SELECT "id", [name] FROM `t` WHERE (n = :n) -- the same', ({"n": 5},)),
    ]
    lives = [here.db.query(sql, *params, live=True) for sql, params in texts]
    assert here.server.hub.windows == 1 and counted["snapshot"] == 1
    for _ in range(3):
        position = here.write("UPDATE t SET name = name || '!' WHERE n = 5")
        assert all(live.wait(position) for live in lives)
        assert len({(repr(rows(live)), tuple(live.hashes), live.seq, live.gen) for live in lives}) == 1


def test_many_subscribers_of_one_instance_hear_the_same(here: Place) -> None:
    with raw(here) as speaker:
        for n in range(500):
            speaker.say({"type": "subscribe", "id": str(n), "sql": "SELECT id, name FROM t WHERE n = 3"})
        results = [speaker.hear("result") for _ in range(500)]
        assert records(here)[Kind.SUBSCRIBE] == 1 and here.server.hub.windows == 1
        here.write("UPDATE t SET name = 'x' WHERE id = 3")
        diffs = [speaker.hear("diff") for _ in range(500)]
    for messages in (results, diffs):
        assert {message.pop("id") for message in messages} == {str(n) for n in range(500)}
        assert all(message == messages[0] for message in messages)


# — law 9


@pytest.mark.parametrize("tail", ["", "ORDER BY name DESC LIMIT 5", "ORDER BY n, id LIMIT 3 OFFSET 2"])
def test_a_late_subscriber_sees_what_an_early_one_sees(tmp_path: Path, tail: str) -> None:
    with place("ws", tmp_path) as here:
        fill(here, 20)
        early = here.db.query(f"SELECT id, name FROM t WHERE n < 100 {tail}", live=True)
        for n in range(8):
            position = here.write("INSERT OR REPLACE INTO t VALUES (?, ?, ?)", n * 3, n, f"z{n}")
            assert early.wait(position)
            with headwater.connect(here.url) as other:
                late = other.query(f"SELECT id, name FROM t WHERE n < 100 {tail}", live=True)
                assert late.wait(position)
                assert sorted(zip(late.hashes, map(repr, rows(late)), strict=True)) == sorted(
                    zip(early.hashes, map(repr, rows(early)), strict=True)
                )
                assert not tail or rows(late) == rows(early)
                assert late.seq == early.seq
        assert early.resyncs == 0


# — law 8


class Gate:
    """Holds one cell back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cell: int) -> None:
        self.open = threading.Event()
        self.open.set()
        take = Cell._take

        def held(one: Cell, taken: Any) -> None:
            if one.config.number == cell:
                self.open.wait(120)
            take(one, taken)

        monkeypatch.setattr(Cell, "_take", held)


def of_cell(here: Place, cell: int) -> int:
    """A constant whose query lives in that cell."""
    pipeline = here.server.pipeline
    found = (n for n in range(100) if pipeline.cell_of(pipeline.plan("SELECT n FROM t WHERE id = ?", [n])) == cell)
    return next(found)


def opened_again(here: Place, way: str) -> Database:
    """One more session with the same server."""
    return headwater.connect(here.url) if way == "ws" else Database(lambda session: Embedded(here.server, session))


@pytest.mark.parametrize("way", WAYS)
def test_queries_in_different_cells_move_together(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, take = threading.Event(), Cell._take

    def dawdling(one: Cell, taken: Any) -> None:
        if one.config.number == 1 and slow.is_set():
            time.sleep(0.01)
        take(one, taken)

    monkeypatch.setattr(Cell, "_take", dawdling)
    with place(way, tmp_path, cells="2x1") as here:
        fill(here, 100)
        left, right = (of_cell(here, cell) for cell in (0, 1))
        lives = [here.db.query("SELECT n FROM t WHERE id = ?", id, live=True) for id in (left, right)]
        update = f"UPDATE t SET n = {{}} WHERE id IN ({left}, {right})"
        assert all(live.wait(here.write(update.format(0))) for live in lives)
        seen: list[tuple[Any, Any]] = []
        for live in lives:
            live.listen(lambda _: seen.append((values(lives[0])[0], values(lives[1])[0])))
        slow.set()
        last = [here.write(update.format(n)) for n in range(1, 20)][-1]
        assert all(live.wait(last) for live in lives)
        assert len(seen) == 38 and all(a == b for a, b in seen), seen


@pytest.mark.parametrize("way", WAYS)
def test_a_query_that_joins_from_a_cell_behind_does_not_claim_to_be_ahead(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its window is known to the hub, as of an older position than the session's: it must wait, not pretend."""
    gate = Gate(monkeypatch, 1)
    with place(way, tmp_path, cells="2x1") as here:
        fill(here, 100)
        quick, behind = (of_cell(here, cell) for cell in (0, 1))
        keeper = here.db.query("SELECT n FROM t WHERE id = ?", behind, live=True)
        with opened_again(here, "ws") if way == "ws" else _quiet(here) as other:
            ahead = other.query("SELECT n FROM t WHERE id = ?", quick, live=True)
            gate.open.clear()
            position = here.write(f"UPDATE t SET n = -1 WHERE id IN ({quick}, {behind})")
            assert ahead.wait(position) and values(ahead) == [-1]
            late = other.query("SELECT n FROM t WHERE id = ?", behind, live=True, timeout=0.3)
            assert not late.wait(position, timeout=0.1), "the cell has not got so far"
            assert late.state == "initializing" or values(late) == [-1]
            gate.open.set()
            assert late.wait(position) and values(late) == [-1]
            assert keeper.wait(position) and values(keeper) == [-1]


class _Keeping(Database):
    """A second embedded session: closing it leaves the server to the first."""

    def close(self) -> None:
        for live in list(self._session.lives.values()):
            live.abort()


def _quiet(here: Place) -> Database:
    return _Keeping(lambda session: Embedded(here.server, session))


# — law 11


def test_there_are_so_many_subscriptions_and_no_more(tmp_path: Path) -> None:
    with place("ws", tmp_path, limits=replace(DEFAULT, subscriptions_max=3)) as here:
        fill(here, 10)
        lives = [here.db.query("SELECT id FROM t WHERE n = ?", n, live=True) for n in range(3)]
        with pytest.raises(headwater.LimitExceeded, match="at most 3 on this server"):
            here.db.query("SELECT id FROM t WHERE n = 4", live=True)
        lives[0].abort()
        eventually(lambda: here.server.hub.subscriptions == 2)
        assert here.db.query("SELECT id FROM t WHERE n = 4", live=True).state == "ready"
        assert all(live.state == "ready" for live in lives[1:])


@pytest.mark.parametrize("way", WAYS)
def test_what_waits_for_a_cell_that_lags_is_bounded_and_made_up_for(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, 1)
    with place(way, tmp_path, cells="2x1", limits=replace(DEFAULT, inbox_emissions_max=10)) as here:
        fill(here, 100)
        quick, lagging = (of_cell(here, cell) for cell in (0, 1))
        lives = [here.db.query("SELECT n FROM t WHERE id = ?", id, live=True) for id in (quick, lagging)]
        [session] = [one for one in here.server.hub._sessions.all if len(one.subscriptions) == 2]
        gate.open.clear()
        for n in range(100):
            position = here.write(f"UPDATE t SET n = {-n} WHERE id IN ({quick}, {lagging})")
        cells = here.server.hub.cells
        eventually(lambda: cells[0].position >= position and session.behind is not None)
        assert len(session.inbox) <= 10 and cells[1].position < position
        gate.open.set()
        assert all(live.wait(position) for live in lives)
        assert [values(live) for live in lives] == [[-99], [-99]] and session.behind is None
        position = here.write(f"UPDATE t SET n = 7 WHERE id IN ({quick}, {lagging})")
        assert all(live.wait(position) and values(live) == [7] for live in lives)


def test_a_session_has_its_own_limit(tmp_path: Path) -> None:
    with place("ws", tmp_path, limits=replace(DEFAULT, subscriptions_per_session_max=2)) as here:
        fill(here, 10)
        for n in range(2):
            here.db.query("SELECT id FROM t WHERE n = ?", n, live=True)
        with pytest.raises(headwater.LimitExceeded, match="at most 2 per session"):
            here.db.query("SELECT id FROM t WHERE n = 4", live=True)
        with headwater.connect(here.url) as other:
            assert other.query("SELECT id FROM t WHERE n = 4", live=True).state == "ready"


@pytest.mark.parametrize(("missed", "fresh"), [(3, False), (4, True), (10, True)])
def test_who_is_further_behind_than_the_history_gets_a_fresh_result(tmp_path: Path, missed: int, fresh: bool) -> None:
    with place("ws", tmp_path, limits=replace(DEFAULT, history_emissions_max=3)) as here:
        fill(here, 5)
        keeper = here.db.query("SELECT id, n FROM t", live=True)
        with headwater.connect(here.url) as other:
            live = other.query("SELECT id, n FROM t", live=True)
            told: list[Any] = []
            live.listen(told.append)
            remote = other._backend
            assert isinstance(remote, Remote)
            with remote._lock:  # it cannot come back before it has missed something
                assert remote._socket is not None
                remote._socket.socket.shutdown(2)
                eventually(lambda: here.server.hub.subscriptions == 1)
                for n in range(missed):
                    position = here.write("UPDATE t SET n = ?", 100 + n)
                assert keeper.wait(position)
            assert live.wait(position)
            assert sorted(map(repr, rows(live))) == sorted(map(repr, rows(keeper)))
            assert [isinstance(emission, headwater.Result) for emission in told] == (
                [True] if fresh else [False] * missed
            )


def test_a_window_nobody_looks_at_lingers_then_goes(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.gateway.hub.windows._LINGER_S", 1e6)
    live = here.db.query("SELECT id FROM t WHERE n = 1", live=True)
    live.abort()
    again = here.db.query("SELECT id FROM t WHERE n = 1", live=True)
    assert records(here)[Kind.SUBSCRIBE] == 1, "it was still there"
    monkeypatch.setattr("headwater.gateway.hub.windows._LINGER_S", 0.05)
    again.abort()
    eventually(lambda: records(here)[Kind.UNSUBSCRIBE] == 1)
    assert here.server.hub._windows.held == {} and not here.server.hub._windows.idle
    assert values(here.db.query("SELECT id FROM t WHERE n = 1", live=True)) == [1]
    assert records(here)[Kind.SUBSCRIBE] == 2


def test_many_windows_that_go_are_one_write_to_the_log(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.gateway.hub.windows._LINGER_S", 0.05)
    writes: list[int] = []
    log = here.server.pipeline._log
    append_many = log.append_many

    def counted(items: Any) -> Any:
        batch = list(items)
        writes.extend([len(batch)] if batch and batch[0][0] is Kind.UNSUBSCRIBE else [])
        return append_many(batch)

    monkeypatch.setattr(log, "append_many", counted)
    with raw(here) as speaker:
        for n in range(300):
            speaker.say({"type": "subscribe", "id": str(n), "sql": "SELECT id FROM t WHERE n = ?", "params": [n]})
        for _ in range(300):
            speaker.hear("ready")
    eventually(lambda: sum(writes) == 300)
    assert len(writes) < 30
