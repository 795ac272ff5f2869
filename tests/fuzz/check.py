"""Runs a case: maintained == SQLite's answer at every transaction, and the laws about emissions on the way."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.engine.dataflow import Dataflow
from headwater.engine.delta import Delta
from headwater.engine.edits import Emitted, Entry, decode, encode, read_emissions
from headwater.model.change import Change, Transaction
from headwater.model.emission import Diff, Result
from headwater.model.errors import UnsupportedQuery
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.plan.planner import Planned, effective_sql, plan
from tests.engine.world import Subscriber, batch_of, delta_of
from tests.fuzz.case import Case, Commit, Reload, Rows, Subscribe, Unsubscribe
from tests.fuzz.oracle import Oracle
from tests.fuzz.tally import operators

_ADDING = frozenset({"sum", "avg", "total"})
_REAL = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+")
_OVERFLOW = "integer overflow"  # SQLite may go on with a REAL; to us an INTEGER column stays one
SMALL = Limits(run_rows_min=8)
Told = tuple[Entry, Result | Diff | None]


class Wrong(AssertionError):
    """What went wrong, with which query, after which event."""


@dataclass(slots=True)
class Report:
    """What a case showed. `changed` are the checks at which the answer was another than before."""

    checks: int = 0
    changed: int = 0
    queries: int = 0
    refused: int = 0
    seen: Counter[str] = field(default_factory=Counter)


def planned_of(case: Case) -> list[Planned | None]:
    """None for what we refuse to follow, and for another spelling of a query that is there."""
    found: list[Planned | None] = []
    known: set[int] = set()
    for query in case.queries:
        try:
            planned = plan(query.sql, case.tables)
        except UnsupportedQuery:
            found.append(None)
            continue
        found.append(None if planned.instance.id in known else planned)
        known.add(planned.instance.id)
    return found


def refused(case: Case) -> list[str]:
    """Why, for each query that is not followed."""
    reasons = []
    for query in case.queries:
        try:
            plan(query.sql, case.tables)
        except UnsupportedQuery as error:
            reasons.append(error.message)
    return reasons


def tx_of(event: int) -> int:
    return event + 1


@dataclass(slots=True)
class Running:
    """The cells of all query partitions, moved through a case in steps of `cut` commits."""

    case: Case
    planned: Sequence[Planned | None]
    directory: Path
    cut: int
    flows: list[Dataflow] = field(init=False)
    waiting: list[tuple[int, Commit]] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)

    def run(self) -> list[bytes]:
        """What was emitted: by cell, each time before something else than a commit."""
        count = self.case.partitions
        self.flows = [Dataflow(partition=(q, count), limits=SMALL) for q in range(count)]
        for flow in self.flows:
            for table in self.case.tables:
                flow.define(table)
        states = self.case.states()
        next(states)
        for place, (event, rows) in enumerate(zip(self.case.events, states, strict=True)):
            if isinstance(event, Commit):
                self._commit(place, event)
                continue
            self._settle()
            match event:
                case Subscribe(query):
                    self._subscribe(self.planned[query], rows, tx_of(place))
                case Unsubscribe(query):
                    self._unsubscribe(self.planned[query])
                case Reload():
                    self.flows = [self._reloaded(flow) for flow in self.flows]
        self._settle()
        return self.taken

    def _commit(self, place: int, commit: Commit) -> None:
        self.waiting.append((tx_of(place), commit))
        if len(self.waiting) == self.cut:
            self._step()

    def _step(self) -> None:
        deltas = deltas_of(self.case, self.waiting)
        self.waiting = []
        if deltas:
            for flow in self.flows:
                flow.step(deltas)

    def _settle(self) -> None:
        self._step()
        self.taken.extend(encode(flow.take()) for flow in self.flows)

    def _subscribe(self, planned: Planned | None, rows: Rows, tx: int) -> None:
        if planned is None:
            return
        for flow in self.flows:
            if not flow.knows(planned.template.id):
                flow.activate(planned.template, self._whole(rows) if flow.needs_rows(planned.template) else None)
        if sum(flow.subscribe(planned.instance, tx) for flow in self.flows) != 1:
            raise Wrong("an instance lives in one cell")

    def _whole(self, rows: Rows) -> dict[str, list[object]]:
        return {t.name: [batch_of(t, list(rows.of_table[t.name].values()))] for t in self.case.tables}

    def _unsubscribe(self, planned: Planned | None) -> None:
        for flow in self.flows if planned is not None else ():
            flow.unsubscribe(planned.instance.id)  # type: ignore[union-attr]

    def _reloaded(self, flow: Dataflow) -> Dataflow:
        saved = flow.save(self.directory)
        return Dataflow.load(self.directory, saved.document, partition=flow.partition, limits=SMALL)


def deltas_of(case: Case, commits: Sequence[tuple[int, Commit]]) -> dict[str, list[Delta]]:
    deltas = {}
    for table in case.tables:
        mine = [(tx, _of(table.name, commit)) for tx, commit in commits]
        if any(changes for _, changes in mine):
            deltas[table.name] = [delta_of(table, [(tx, Transaction(0, changes)) for tx, changes in mine])]
    return deltas


def _of(table: str, commit: Commit) -> tuple[Change, ...]:
    return tuple(change for change in commit.changes if change.table == table)


# What was said, and whether it was right


@dataclass(slots=True)
class Following:
    """A query's emissions by tx, and the subscriber that applies them."""

    planned: Planned
    sql: str
    said: dict[int, list[Told]] = field(default_factory=dict)
    subscriber: Subscriber | None = None
    broken: bool = False
    before: list[str] | None = None

    @property
    def rough(self) -> bool:
        """Whether SQLite adds up reals, in an order of its own."""
        return not _ADDING.isdisjoint(operators(self.planned))


def followed(case: Case, planned: Sequence[Planned | None], emitted: Sequence[bytes]) -> list[Following | None]:
    every = [
        None if each is None else Following(each, effective_sql(each.template, each.instance, _table(case, each)))
        for each in planned
    ]
    by_instance = {each.planned.instance.id: each for each in every if each is not None}
    for payload in emitted:
        for following, told in _told(decode(payload), by_instance):
            following.said.setdefault(told[0].tx, []).append(told)
    return every


def _table(case: Case, planned: Planned) -> Table | None:
    return case.schema.get(planned.template.table)


def _told(emitted: Emitted, by_instance: dict[int, Following]) -> Iterator[tuple[Following, Told]]:
    for id in dict.fromkeys(entry.instance for entry in emitted.index):
        following = by_instance[id]
        mine = [entry for entry in emitted.index if entry.instance == id]
        template = following.planned.template
        names = [output.name for output in template.outputs]
        read = iter(read_emissions(mine, emitted.edits.get(template.id), names, lambda tx: tx))
        for entry in mine:
            yield following, (entry, next(read) if entry.kind in ("result", "diff") else None)


def _seen(planned: Sequence[Planned | None]) -> Counter[str]:
    return Counter(name for each in planned if each is not None for name in operators(each))


def check(case: Case, directory: Path) -> Report:
    """Raises `Wrong`, or whatever the engine raised."""
    planned = planned_of(case)
    emitted = Running(case, planned, directory, case.cut).run()
    report = Report(queries=len(planned), refused=len(refused(case)), seen=_seen(planned))
    every = followed(case, planned, emitted)
    with Oracle(case.tables) as oracle:
        for place, rows in enumerate(case.states(), -1):
            commit = place >= 0 and isinstance(case.events[place], Commit)
            oracle.fill(rows, rows.touched if commit else None if place < 0 else ())
            if place >= 0:
                _check_event(case, place, every, oracle, report)
    return report


def _check_event(case: Case, place: int, every: list[Following | None], oracle: Oracle, report: Report) -> None:
    event = case.events[place]
    match event:
        case Subscribe(query) if (one := every[query]) is not None:
            one.subscriber, one.broken, one.before = Subscriber(one.planned), False, None
        case Unsubscribe(query) if (one := every[query]) is not None:
            one.subscriber = None
        case _:
            pass
    for number, following in enumerate(every):
        if following is None:
            continue
        try:
            _check_query(following, tx_of(place), oracle, isinstance(event, Commit), report)
        except Exception as error:
            raise Wrong(f"query {number}, event {place}: {type(error).__name__} {error}\n{following.sql}") from error


def _check_query(following: Following, tx: int, oracle: Oracle, commit: bool, report: Report) -> None:
    said = following.said.get(tx, [])
    if following.subscriber is None:
        assert not said, "an emission that nobody asked for"
        return
    assert len(said) <= 1, "two emissions of one transaction"
    answer = _answer(oracle, following.sql)
    for entry, emission in said:
        _receive(following, following.subscriber, entry, emission, answer)
    if following.subscriber is not None and not following.broken:
        _compare(following, following.subscriber, answer)
        report.checks += commit
        report.changed += commit and following.before is not None and following.before != answer
        following.before = answer


def _receive(
    following: Following, subscriber: Subscriber, entry: Entry, emission: Result | Diff | None, answer: list[str] | None
) -> None:
    following.broken = emission is None
    if emission is not None:
        subscriber.receive(entry, emission)
        return
    expected = answer is None or entry.reason.startswith(_OVERFLOW)
    assert expected, f"{entry.kind}, where SQLite has an answer: {entry.reason}"
    subscriber.last = entry.tx
    following.subscriber = None if entry.kind == "closed" else subscriber


def _answer(oracle: Oracle, sql: str) -> list[str] | None:
    try:
        return oracle.answer(sql)
    except sqlite3.OperationalError:
        return None


def _compare(following: Following, subscriber: Subscriber, answer: list[str] | None) -> None:
    if answer is None and following.rough:
        return  # whether a sum overflows on the way depends on the order SQLite adds in
    assert answer is not None, "rows, where SQLite has an error"
    found = [repr(row) for row in subscriber.rows]
    if not following.planned.template.ordered:
        found.sort()
        answer.sort()
    if found != answer and following.rough:
        found, answer = ([_REAL.sub(_rounded, row) for row in rows] for rows in (found, answer))
        if not following.planned.template.ordered:
            found, answer = sorted(found), sorted(answer)
    assert found == answer, f"expected {answer}\n   found {found}"


def _rounded(real: re.Match[str]) -> str:
    return f"{float(real[0]):.9g}"


def check_cuts(case: Case, directory: Path, cuts: Sequence[int] = (1, 7, 50)) -> None:
    """However the history is cut into steps, what is emitted is the same to the byte."""
    planned = planned_of(case)
    first, *others = (Running(case, planned, directory, cut).run() for cut in cuts)
    for cut, other in zip(cuts[1:], others, strict=True):
        if other != first:
            raise Wrong(f"steps of {cuts[0]} and of {cut} emit differently")
