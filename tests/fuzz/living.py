"""A case lived through a real SQLite file and a whole server: written by a connection of its own, watched by a client.

Nothing waits for anything while transactions come in. What the client was told is checked afterwards, in `witness`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import headwater
from headwater.model.change import Change
from headwater.model.emission import Diff, Emission, Result, State, apply
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.plan.planner import Planned
from tests.fuzz.case import Alter, Case, Commit, Release, Reload, Rows, Subscribe, Unsubscribe
from tests.fuzz.check import Wrong
from tests.fuzz.oracle import altered, created

Statement = tuple[str, Sequence[Any]]
JOURNAL = "CREATE TABLE journal (event INTEGER PRIMARY KEY)"


@dataclass(slots=True)
class Origin:
    """The writer. `written` are its statements, by the place of their event: what the oracle repeats."""

    db: sqlite3.Connection
    written: dict[int, list[Statement]] = field(default_factory=dict)

    @classmethod
    @contextlib.contextmanager
    def of(cls, path: Path, case: Case) -> Iterator[Origin]:
        with contextlib.closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            for statement in begun(case):
                db.execute(*statement)
            yield cls(db)

    def commit(self, place: int, commit: Commit, tables: dict[str, Table]) -> None:
        """Row by row; where two rows exchange a key, all that leave go first."""
        marker: Statement = ("INSERT INTO journal VALUES (?)", (place,))
        try:
            self._write(place, [*self._statements(commit.changes, tables), marker])
        except sqlite3.IntegrityError:
            gone = [Change(change.table, change.old, None) for change in commit.changes if change.old is not None]
            came = [Change(change.table, None, change.new) for change in commit.changes if change.new is not None]
            self._write(place, [*self._statements([*gone, *came], tables), marker])

    def alter(self, place: int, alter: Alter) -> None:
        self._write(place, [(altered(alter), ())])

    def _write(self, place: int, statements: Sequence[Statement]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                self.db.execute(*statement)
        except sqlite3.Error:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        self.written[place] = list(statements)

    def _statements(self, changes: Sequence[Change], tables: dict[str, Table]) -> list[Statement]:
        taken: set[tuple[str, int]] = set()
        return [self._statement(change, tables[change.table], taken) for change in changes]

    def _statement(self, change: Change, table: Table, taken: set[tuple[str, int]]) -> Statement:
        holes = ", ".join("?" * len(table.columns))
        if change.old is None:
            return f"INSERT INTO {table.name} VALUES ({holes})", change.new or ()
        place = self._place(table, change.old, taken)
        if change.new is None:
            return f"DELETE FROM {table.name} WHERE rowid = ?", (place,)
        changed = {
            name: new
            for name, old, new in zip(table.names, change.old, change.new, strict=True)
            if repr(old) != repr(new)
        }
        setting = ", ".join(f"{name} = ?" for name in changed)
        return f"UPDATE {table.name} SET {setting} WHERE rowid = ?", (*changed.values(), place)

    def _place(self, table: Table, row: Row, taken: set[tuple[str, int]]) -> int:
        """To the bit: SQL takes 1 for 1.0."""
        for place, *found in self.db.execute(f"SELECT rowid, * FROM {table.name}"):
            if repr(tuple(found)) == repr(row) and (table.name, place) not in taken:
                taken.add((table.name, place))
                return int(place)
        raise AssertionError(f"expected {row} in {table.name}")


def begun(case: Case) -> Iterator[Statement]:
    """The tables and rows before the first event."""
    yield JOURNAL, ()
    for table in case.tables:
        yield created(table), ()
        for row in case.rows[table.name]:
            yield f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(row))})", row


class Watched:
    """A live query as its client saw it: where it began, every emission after that, and when it failed or ended.

    `planned` is None where the origin answers it. It is right from position `began` on, `until` its client left, or
    until it had to begin again: the result after that is the first of another one, which `on_again` is told of."""

    def __init__(
        self,
        sql: str,
        live: headwater.LiveResult,
        planned: Planned | None,
        now: int,
        on_again: Callable[[Watched], None] = lambda again: None,
    ) -> None:
        self.sql, self.live, self.planned, self._on_again = sql, live, planned, on_again
        self.next_planned = planned
        self.emissions: list[Emission] = []
        self.troubles: list[str] = []
        self.until: int | None = None
        self.again: Watched | None = None
        self._paused_at: int | None = None
        with live._changed:  # nothing comes in between
            self._begin(live, now)

    def _begin(self, live: headwater.LiveResult, now: int) -> None:
        assert live._phase != "initializing", f"never ready: {self.sql}"
        self._watch_failures()
        self._stop = live.listen(self._take)
        self.first: State = live.snapshot
        self.began = self.first.position
        if live._phase == "stale" and live.resyncs:
            self._paused_at = self.began
        elif live._phase == "stale":  # a slow machine may call all rows stale for a while
            self.began = now
            self.troubles.append(str(live.reason))
        self._watch_resyncs()

    def _take(self, emission: Emission | None) -> None:
        if self._paused_at is not None and isinstance(emission, Result):
            self._begin_again(emission)
        elif emission is not None:
            self.emissions.append(emission)
        elif self.until is None:
            self.troubles.append(str(self.live.reason))

    def _begin_again(self, result: Result) -> None:
        self._stop()
        self.until = self._paused_at
        again = self.again = Watched(self.sql, self.live, self.next_planned, result.position, self._on_again)
        again.first = apply(State(), result)
        again.began = result.position
        self._on_again(again)

    def _watch_resyncs(self) -> None:
        """Up to where everything had been told when it had to begin again; which it may have to twice before it can."""
        resync = self.live.resync

        def noted(reason: str) -> None:
            if self._paused_at is None:
                waiting = [emission.position for emission in self.live._pending]
                self._paused_at = max([self.live._progress(), *waiting])
            resync(reason)
            assert self.live._phase == "stale", "ready, with rows of before"

        self.live.resync = noted  # type: ignore[method-assign]

    def _watch_failures(self) -> None:
        failed = self.live.failed

        def noted(reason: str) -> None:
            self.troubles.append(reason)
            failed(reason)

        self.live.failed = noted  # type: ignore[method-assign]

    def told(self) -> dict[int, Emission]:
        """The emissions after the first result, by their position: one for a transaction, and in order."""
        told = [emission for emission in self.emissions if emission.seq > self.first.seq]
        positions = [emission.position for emission in told]
        if positions != sorted(set(positions)):
            raise Wrong(f"two emissions of one transaction, or out of order\n{self.sql}\n{positions}")
        return dict(zip(positions, told, strict=True))

    def leave(self) -> None:
        """With the last one, where it had to begin again. What comes after that is not listened to."""
        with self.live._changed:
            last = self
            while last.again is not None:
                last = last.again
            last._stop()
            last.until = self.live.position
        self.live.abort()


@dataclass(slots=True)
class Life:
    """One case, through one server. `watched` are all subscriptions there ever were."""

    case: Case
    db: headwater.Database
    origin: Origin
    watched: list[Watched] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    current: dict[int, Watched] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def live(self, middle: Callable[[], None]) -> None:
        """All events; `middle` is called half way."""
        replanned = self.db._session.replanned

        def noted(id: str, planned: Planned) -> None:
            self._replanned(id, planned)
            replanned(id, planned)

        self.db._session.replanned = noted  # type: ignore[method-assign, assignment]
        marker = self.db.query("SELECT event FROM journal", live=True)
        marker.listen(self._mark)
        states = self.case.states()
        next(states)
        for place, (event, rows) in enumerate(zip(self.case.events, states, strict=True)):
            if place == len(self.case.events) // 2:
                middle()
            self._event(place, event, rows)
        end = self.db.position()
        assert marker.wait(end, timeout=60)
        for one in self.current.values():
            with contextlib.suppress(headwater.HeadwaterError):  # closed: its troubles say why
                one.live.wait(end, timeout=60)

    def _mark(self, emission: Emission | None) -> None:
        if emission is not None:
            assert isinstance(emission, Diff), emission
            for event in (change.new["event"] for change in emission.changes if change.new):
                assert isinstance(event, int) and emission.position not in self.positions.values(), "merged"
                self.positions[event] = emission.position

    def _event(self, place: int, event: object, rows: Rows) -> None:
        match event:
            case Commit():
                self.origin.commit(place, event, rows.tables)
            case Alter():
                self.origin.alter(place, event)
            case Subscribe(query):
                self._subscribe(query)
            case Unsubscribe(query) if query in self.current:
                self.current.pop(query).leave()
            case Reload() | Release() | Unsubscribe():
                pass

    def _subscribe(self, query: int) -> None:
        """A query that has no answer now is closed at once: then there is nothing to watch."""
        self.current.pop(query, None)
        sql = self.case.queries[query].sql
        try:
            live = self.db.query(sql, live=True)
        except headwater.HeadwaterError as error:
            self.refused.append(f"{error}")
            return
        planned = self.db._backend._planned[live.id]  # type: ignore[attr-defined]
        again = partial(self._began_again, query)
        self.current[query] = Watched(sql, live, kept(planned), self.db.position(), again)
        self.watched.append(self.current[query])

    def _began_again(self, query: int, again: Watched) -> None:
        self.watched.append(again)
        if query in self.current:
            self.current[query] = again

    def _replanned(self, id: str, planned: Planned) -> None:
        for one in self.current.values():
            if one.live.id == id:
                one.next_planned = kept(planned)


def kept(planned: Planned) -> Planned | None:
    """None where the origin answers."""
    return planned if planned.strategy == "incremental" else None
