"""A start that takes long: who resumes after it gets what was missed, and what gets on is waited for. A backlog comes
out bit by bit, however slow the cell is."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headwater.pipeline.pipeline
from headwater.gateway.hub.hub import Hub
from headwater.gateway.hub.window_cache import Resume
from headwater.gateway.server import Server
from headwater.log.segment import SegmentReader
from headwater.model.emission import Emission, Result
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.cell.pace import Pace
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.diff_record import Report, decode_report
from headwater.pipeline.runners.inline import InlineRunner
from headwater.pipeline.runners.progress_timeout import ProgressTimeout
from tests.support.byhand import HUB_CLOCKS, Works
from tests.support.processes import eventually

SQL = "SELECT id, n FROM t"


class Told:
    """A session's sink that keeps what it is told."""

    def __init__(self) -> None:
        self.emissions: list[Emission] = []
        self.readies: list[int] = []

    def emit(self, subscription: str, emission: Emission) -> None:
        self.emissions.append(emission)

    def ready(self, subscription: str, position: int) -> None:
        self.readies.append(position)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def follow(server: Server, resume: Resume | None = None) -> Told:
    told = Told()
    session = server.hub.open(told)
    server.hub.subscribe(session, "q", server.pipeline.plan(SQL), resume)
    position = server.pipeline.source.position()
    eventually(lambda: told.readies and session.position >= position)
    return told


def test_who_resumes_after_a_slow_start_gets_what_was_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, data = f"sqlite:///{tmp_path / 'a.db'}", tmp_path / "data"
    first = Server(url, runner="inline", data_dir=data).start()
    first.pipeline.source.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", ())
    [before] = follow(first).emissions
    first.close()

    late = 0.0

    def slowly(runner: InlineRunner) -> None:
        nonlocal late
        late += 1000.0
        started(runner)

    started = InlineRunner.start
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late, time=time.time)
    for module in (*HUB_CLOCKS, headwater.pipeline.pipeline):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(InlineRunner, "start", slowly)
    second = Server(url, runner="inline", data_dir=data).start()
    try:
        second.pipeline.source.execute("INSERT INTO t VALUES (1, 1)", ())
        rounds = _rounds(second.hub, monkeypatch)
        eventually(lambda: next(rounds) > 2)
        second.pipeline._rest()
        missed = follow(second, Resume(before.seq, before.gen)).emissions
        assert [type(one) for one in missed if isinstance(one, Result)] == []
        assert [one.prev for one in missed] == [before.seq]
    finally:
        second.close()


def _rounds(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Counts what the hub's thread did: it has had the time to let go of what it takes for forgotten."""
    counted, original, done = itertools.count(), hub._windows.expire, [0]

    def expire() -> None:
        original()
        done[0] = next(counted)

    monkeypatch.setattr(hub._windows, "expire", expire)
    return (done[0] for _ in itertools.count())


def test_a_start_is_given_up_only_when_nothing_moves() -> None:
    patience = ProgressTimeout(still_s=100, tell_s=10, now=0)
    for moved in range(50):
        assert not patience.is_over(moved, moved * 90.0)
    assert not patience.is_over(49, 49 * 90.0 + 100)
    assert patience.is_over(49, 49 * 90.0 + 101)


def test_what_is_waited_for_is_said_now_and_then() -> None:
    patience = ProgressTimeout(still_s=100, tell_s=10, now=0)
    assert [second for second in range(35) if patience.is_due(float(second))] == [10, 20, 30]


# — a backlog


@pytest.mark.parametrize(("step_s", "most"), [(3.0, 8), (0.0, 512)])
def test_a_backlog_comes_out_bit_by_bit(step_s: float, most: int, tmp_path: Path) -> None:
    """Steps that take long become small; quick ones grow. What is emitted is the same."""
    works = Works(tmp_path / "data")
    try:
        works.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        works.subscribe(SQL)
        works.run()
        begin = works.pipeline.log_offset
        for n in range(300):
            works.write(f"INSERT INTO t VALUES ({n}, {n})")
            works.capture()
        works.crash()
        reports = [one for one in drained(works, step_s) if one.start >= begin]
        spans = [one.to - one.start + 1 for one in reports]
        assert sum(spans) == 300
        assert spans[0] <= 8, "nobody knows yet how long it takes"
        assert max(spans) <= most
        if step_s:
            assert spans[-1] == 1
        else:
            assert len(spans) < 10
        works.resume()
        works.run()
        works.check()
    finally:
        works.close()


def drained(works: Works, step_s: float) -> list[Report]:
    """A new attempt of the cell, by a clock that says that each step takes so long."""
    now = itertools.count()
    limits = replace(DEFAULT, manifest_interval_ms=1 << 40)
    config = CellConfig(Layout(works.data_dir), Grid(), 0, works.pipeline.boot, 0, 99, limits)
    cell = Cell(config, clock=lambda: next(now) * step_s)
    while cell.turn(0):
        pass
    cell.close()
    with SegmentReader(Layout(works.data_dir).diffs(0)) as reader:
        return [decode_report(one.payload) for one in iter(reader.poll(1 << 20, 1 << 30))]


def test_the_pace_stays_within_its_limits() -> None:
    limits = Limits(step_records_max=512, step_bytes_max=1 << 25, step_ms_max=500)
    pace = Pace(limits)
    for _ in range(20):
        pace.took(pace.records_max, 0, 0.0)
    assert (pace.records_max, pace.bytes_max) == (512, 1 << 25)
    for _ in range(20):
        pace.took(pace.records_max, 0, 60.0)
    assert (pace.records_max, pace.bytes_max) == (1, 1 << 16)
    for _ in range(20):
        pace.took(0, pace.bytes_max, 0.1)
    pace.rested()
    assert pace.records_max == 8
