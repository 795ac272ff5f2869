"""A whole server whose threads are the test's own hands: capture, cells and hub move when they are told to, by steps.

Nothing in it looks at a clock but the one given here; so a run is a function of what the hands do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headwater.client.live import LiveResult
from headwater.client.session import ClientSession
from headwater.gateway.hub import alignment, diff_reader, windows
from headwater.gateway.hub.hub import Hub
from headwater.gateway.hub.session import Session
from headwater.gateway.hub.window_cache import Resume
from headwater.model.emission import Emission, Fields, Result
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.pipeline import Pipeline
from headwater.pipeline.records.control import Expel
from headwater.pipeline.runners.runner import Job
from headwater.plan.planner import Planned, effective_sql
from headwater.plan.requery_whole import ASKED
from headwater.runtime.vital_thread import VitalThread
from headwater.sources.sqlite.memory import MemorySource

HUB_CLOCKS = (alignment, diff_reader, windows)  # the modules of the hub that read a clock


class Hands:
    """A runner that runs nothing: the cells are stepped from outside."""

    name = "hands"
    failure: str | None = None
    threads: tuple[VitalThread, ...] = ()

    def __init__(self, job: Job) -> None:
        self.job = job
        self.broken: dict[int, str] = {}
        self.on_poison: Callable[[Expel], None] = lambda expel: None

    def start(self) -> None: ...

    def stop(self, end: int) -> None: ...


@dataclass(slots=True)
class Watched:
    """A live query as its user has it, and what it was told."""

    live: LiveResult
    planned: Planned
    told: list[Emission]
    params: tuple[Any, ...] = ()


class Works:
    """One server over one source. `crash` leaves everything as a power cut would; `resume` is the next life."""

    def __init__(self, data_dir: Path, *, cells: int = 1, limits: Limits = DEFAULT, source: Any = None) -> None:
        self.source = source or MemorySource()
        self.data_dir, self.limits, self._grid = data_dir, limits, Grid(cells)
        self.now = 0.0
        self.client = ClientSession(self._again)
        self.watched: dict[str, Watched] = {}
        self._ids = (f"q{n}" for n in itertools.count(1))
        self._attempts = itertools.count(1)
        self.resume()

    # — lives

    def resume(self) -> None:
        self.pipeline = Pipeline(self.source, self.data_dir, Hands, grid=self._grid, limits=self.limits)
        self.resumed_at = self.pipeline.capture.position
        self.pipeline.capture.reached = self._reached  # type: ignore[method-assign]
        self.pipeline._requery._refresh._logged = self._reached
        self.pipeline._requery._refresh._logged_soon = lambda position, _: self._reached(position)
        self.pipeline._tables.recapture()
        self.pipeline.moves.resume()
        self.hub = Hub(self.pipeline)
        self.hub.catch_up()
        self.cells = [self.cell(number) for number in range(self._grid.cells)]
        self._session: Session = self.hub.open(self.client, eager=True)
        for id, watched in self.watched.items():
            watched.live.rewind()
            resume = None if watched.live.state == "initializing" else Resume(watched.live.seq, watched.live.gen)
            watched.planned = self.pipeline.plan(watched.live.sql, watched.params)
            self.client.replanned(id, watched.planned)  # as a gateway says that it is subscribed
            self.hub.subscribe(self._session, id, watched.planned, resume)

    def cell(self, number: int) -> Cell:
        config = CellConfig(self.pipeline.layout, self._grid, number, self.pipeline.boot, 0, next(self._attempts))
        cell = Cell(replace(config, limits=self.limits), clock=lambda: self.now)
        cell.report()
        return cell

    def crash(self) -> None:
        """No manifest, no farewell."""
        self.client.stale()
        for cell in self.cells:
            cell.close()
        self.hub.stop()
        self.pipeline._opened.close()

    def crash_cell(self, number: int) -> None:
        self.cells[number].close()
        self.cells[number] = self.cell(number)

    def close(self) -> None:
        self.crash()
        self.source.close()

    # — hands

    def write(self, *statements: str) -> int:
        with self.source.transaction() as tx:
            for statement in statements:
                tx.execute(statement)
        return int(tx.position)

    def capture(self) -> None:
        self.pipeline.capture.take(self.source.changes(self.pipeline.capture.position, 0))

    def _reached(self, position: int) -> None:
        """Nobody else captures while somebody waits for it."""
        while self.pipeline.capture.position < position:
            self.capture()

    def ask(self) -> None:
        """The source is asked for every window whose answer may be another now."""
        self.pipeline._requery.ask()

    def look(self) -> None:
        """The hub reads what the cells appended and hands it on."""
        self.hub._reader.round()

    def begin_again(self) -> bool:
        """Windows that were lost are asked for anew; whether there were any."""
        return self.hub._resubscriber.restart()

    def run(self) -> None:
        """Until nothing moves any more."""
        self._run()
        while self.begin_again():
            self._run()

    def _run(self) -> None:
        self.capture()
        self.ask()
        for cell in self.cells:
            while cell.turn(0):
                pass
        self.look()
        self.look()

    def subscribe(self, sql: str, *params: Any) -> str:
        id = next(self._ids)
        planned = self.pipeline.plan(sql, params)
        live = LiveResult(
            id,
            sql,
            tuple(output.name for output in planned.template.outputs),
            self.client.changed,
            lambda: self.client.position,
            reach=lambda position: None,
            abort=lambda forget: None,
            explain=lambda: "",
        )
        live.opened(live.columns, planned.strategy)
        told: list[Emission] = []
        live.listen(lambda emission: told.append(emission) if emission is not None else None)
        self.watched[id] = Watched(live, planned, told, params)
        self.client.add(live)
        self.hub.subscribe(self._session, id, planned)
        return id

    def unsubscribe(self, id: str, *, forget: bool = False) -> None:
        self.watched.pop(id)
        self.client.remove(id)
        self.hub.unsubscribe(self._session, id, forget=forget)

    def _again(self, id: str) -> None:
        watched = self.watched.get(id)
        if watched is not None:
            self.hub.unsubscribe(self._session, id)
            self.hub.subscribe(self._session, id, watched.planned)

    def reads(self, planned: Planned) -> frozenset[str]:
        """The tables that a query reads."""
        asked = self.pipeline._planner.requeried.get(planned.instance.id)
        return planned.template.tables if asked is None else frozenset(asked.mask)

    # — what is right

    def effective(self, planned: Planned) -> list[Fields]:
        names = [output.name for output in planned.template.outputs]
        asked = planned.strategy in ASKED and not planned.moved
        sql = planned.template.sql if asked else effective_sql(planned.template, planned.instance)
        answer = self.source.query(sql, planned.instance.values if asked else ())
        return [dict(zip(names, row, strict=True)) for row in answer.rows]

    def check(self) -> None:
        """Every live query is ready, where the source is, with the rows of the effective query; its chain unbroken."""
        for id, watched in self.watched.items():
            live = watched.live
            assert (live.state, live.reason) == ("ready", None), f"{id} is {live.state}: {live.reason}"
            assert live.position == self.source.position(), f"{id} at {live.position}, not {self.source.position()}"
            found, expected = (
                [repr(dict(row)) for row in rows] for rows in (live.rows, self.effective(watched.planned))
            )
            if not watched.planned.template.ordered:
                found, expected = sorted(found), sorted(expected)
            assert found == expected, f"{id}: {live.sql}"
            check_chain(watched.told)


def check_chain(told: list[Emission]) -> None:
    """Each emission follows from the one before, or is a result; none was applied twice."""
    for before, after in itertools.pairwise(told):
        assert after.seq > before.seq or isinstance(after, Result), "applied twice"
        assert after.prev == before.seq or isinstance(after, Result), "a gap"


def stop_the_clock(monkeypatch: Any, now: Callable[[], float]) -> None:
    """The hub's only clock is the test's."""
    for module in HUB_CLOCKS:
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=now, time=now))
