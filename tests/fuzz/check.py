"""Runs a case: maintained == SQLite's answer at every transaction, and the laws about emissions on the way.

Equal to the bit. Where SQLite's own sum depends on the order it adds in, equal to SQLite's answer with exact sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import decode, encode
from headwater.engine.emissions.index import Entry
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.rows.delta import Delta
from headwater.model.change import Change, Transaction
from headwater.model.emission import Diff, Result
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.planner import Planned, effective_sql
from headwater.plan.template import Template
from tests.engine.world import Subscriber, batch_of, delta_of
from tests.fuzz.case import Alter, Case, Commit, Release, Reload, Rows, Subscribe, Unsubscribe
from tests.fuzz.join_orders import RandomOrders
from tests.fuzz.oracle import Oracle
from tests.fuzz.tally import operators, planned_now

_ADDING = frozenset({"sum", "avg", "total"})
OVERFLOW = "integer overflow"  # SQLite may go on with a REAL; to us an INTEGER column stays one
RAISES = "SQLite raises"
SMALL = Limits(run_rows_min=8)
EVICTED = Limits(run_rows_min=2, state_bytes_max=0, open_groups_max=1, head_rows_max=1)  # saved state leaves memory
Told = tuple[Entry, Result | Diff | None]
Plans = Mapping[int, Planned | None]  # by the place of the subscription among the events


class Wrong(AssertionError):
    """What went wrong, with which query, after which event."""


@dataclass(slots=True)
class Report:
    """What a case showed. `changed` are the checks at which the answer was another than before, `rounded` those in
    which SQLite's own sum was rounded otherwise; `answered` are the checks of queries that the origin answers.
    `lost` are transactions at which a query had nothing to compare: SQLite raised, or we said "integer overflow" where
    SQLite went on with a REAL."""

    checks: int = 0
    changed: int = 0
    rounded: int = 0
    answered: int = 0
    queries: int = 0
    refused: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Report) -> Report:
        return Report(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def plans_of(case: Case) -> Plans:
    """None for what we refuse to follow, and for another spelling of a query that is there."""
    found: dict[int, Planned | None] = {}
    owners: dict[int, int] = {}
    states = case.states()
    next(states)
    for place, (event, rows) in enumerate(zip(case.events, states, strict=True)):
        if isinstance(event, Subscribe):
            planned = planned_now(case.queries[event.query].sql, rows.tables)
            mine = planned is not None and owners.setdefault(planned.instance.id, event.query) == event.query
            found[place] = planned if mine else None
    return found


def tx_of(event: int) -> int:
    return event + 1


@dataclass(slots=True)
class Running:
    """The cells of all query partitions, moved through a case in steps of `cut` commits. `evicts`: after every step and
    every subscription all state is saved, and goes from memory where that can be."""

    case: Case
    plans: Plans
    directory: Path
    cut: int
    order: Callable[[Template], JoinOrder | None] = lambda template: None
    evicts: bool = False
    flows: list[Dataflow] = field(init=False)
    current: dict[int, Planned | None] = field(default_factory=dict)
    last: dict[int, Template] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    waiting: list[tuple[int, Commit]] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)

    def run(self) -> list[bytes]:
        """What was emitted: by cell, each time before something else than a commit."""
        count = self.case.partitions
        self.flows = [Dataflow(partition=(q, count), limits=self.limits) for q in range(count)]
        for flow in self.flows:
            for table in self.case.tables:
                flow.define(table)
        states = self.case.states()
        next(states)
        for place, (event, rows) in enumerate(zip(self.case.events, states, strict=True)):
            if isinstance(event, Commit):
                self._commit(place, event, rows)
                continue
            self._settle()
            match event:
                case Subscribe(query):
                    self.current[query] = planned = self.plans[place]
                    self.last |= {} if planned is None else {query: planned.template}
                    self._subscribe(planned, rows, tx_of(place))
                case Unsubscribe(query):
                    self._unsubscribe(self.current.pop(query), tx_of(place))
                case Release(query):
                    self._release(query, tx_of(place))
                case Reload():
                    self.flows = [self._reloaded(flow) for flow in self.flows]
                case Alter():
                    self._alter(rows.tables[event.table])
        self._settle()
        return self.taken

    @property
    def limits(self) -> Limits:
        return EVICTED if self.evicts else SMALL

    def _commit(self, place: int, commit: Commit, rows: Rows) -> None:
        self.waiting.append((tx_of(place), commit))
        self.tables = tuple(rows.tables.values())
        if len(self.waiting) == self.cut:
            self._step()

    def _step(self) -> None:
        """No step spans a change of schema."""
        deltas = deltas_of(self.tables, self.waiting)
        self.waiting = []
        if deltas:
            for flow in self.flows:
                flow.step(deltas)

    def _settle(self) -> None:
        self._step()
        self.taken.extend(encode(flow.take()) for flow in self.flows)
        for flow in self.flows if self.evicts else ():
            flow.save(self.directory)

    def _subscribe(self, planned: Planned | None, rows: Rows, tx: int) -> None:
        if planned is None:
            return
        for flow in self.flows:
            if not flow.knows(planned.template.id):
                whole = self._whole(rows) if flow.needs_rows(planned.template) else None
                flow.activate(planned.template, whole, order=self.order(planned.template))
        if sum(flow.subscribe(planned.instance, tx) for flow in self.flows) != 1:
            raise Wrong("an instance lives in one cell")

    def _whole(self, rows: Rows) -> dict[str, list[object]]:
        return {t.name: [batch_of(t, list(rows.of_table[t.name].values()))] for t in rows.tables.values()}

    def _unsubscribe(self, planned: Planned | None, tx: int) -> None:
        for flow in self.flows if planned is not None else ():
            flow.unsubscribe(planned.instance.id, tx)  # type: ignore[union-attr]

    def _release(self, query: int, tx: int) -> None:
        """The template that the query had last, where no other subscription is of it."""
        gone = self.last.get(query)
        if gone is None or any(one is not None and one.template.id == gone.id for one in self.current.values()):
            return
        for flow in self.flows:
            if flow.release(gone.id, tx):
                raise Wrong("a template that nobody subscribes to has instances")

    def _alter(self, table: Table) -> None:
        """As a cell follows a schema record; a column more ends nobody."""
        for flow in self.flows:
            if flow.reshaped(table):
                raise Wrong("a column more ends relations")
            flow.define(table)

    def _reloaded(self, flow: Dataflow) -> Dataflow:
        saved = flow.save(self.directory)
        return Dataflow.load(self.directory, saved.document, partition=flow.partition, limits=self.limits)


def deltas_of(tables: Sequence[Table], commits: Sequence[tuple[int, Commit]]) -> dict[str, list[Delta]]:
    deltas = {}
    for table in tables:
        mine = [(tx, _of(table.name, commit)) for tx, commit in commits]
        if any(changes for _, changes in mine):
            deltas[table.name] = [delta_of(table, [(tx, Transaction(0, changes)) for tx, changes in mine])]
    return deltas


def _of(table: str, commit: Commit) -> tuple[Change, ...]:
    return tuple(change for change in commit.changes if change.table == table)


# What was said, and whether it was right


@dataclass(slots=True)
class Following:
    """A subscription: who applies its emissions, why there is nothing to compare, and what was right before."""

    planned: Planned
    subscriber: Subscriber
    sql: str
    ended: bool = False
    lost: str | None = None
    before: list[str] | None = None


def adds(planned: Planned | None) -> bool:
    """Whether SQLite adds up numbers, in an order of its own."""
    return planned is not None and not _ADDING.isdisjoint(operators(planned))


def following(planned: Planned) -> Following:
    return Following(planned, Subscriber(planned), effective_sql(planned.template, planned.instance))


def said(plans: Plans, emitted: Sequence[bytes]) -> dict[tuple[int, int], list[Told]]:
    """By instance and tx."""
    found: dict[tuple[int, int], list[Told]] = {}
    by_instance = {planned.instance.id: planned for planned in plans.values() if planned is not None}
    for payload in emitted:
        for entry, emission in _told(decode(payload), by_instance):
            found.setdefault((entry.instance, entry.tx), []).append((entry, emission))
    return found


def _told(emitted: EmissionBatch, by_instance: Mapping[int, Planned]) -> Iterator[Told]:
    for id in dict.fromkeys(entry.instance for entry in emitted.index):
        mine = [entry for entry in emitted.index if entry.instance == id]
        template = by_instance[id].template
        names = [output.name for output in template.outputs]
        read = iter(read_emissions(mine, emitted.edits.get(template.id), names, lambda tx: tx))
        for entry in mine:
            yield entry, next(read) if entry.kind in ("result", "diff") else None


def check(case: Case, directory: Path) -> Report:
    """Raises `Wrong`, or whatever the engine raised."""
    plans = plans_of(case)
    emitted = said(plans, Running(case, plans, directory, case.cut).run())
    with Oracle(case.tables) as plain, Oracle(case.tables, exact=True) as exact:
        checking = Checking(case, plans, emitted, plain, exact, Rows.of(case))
        for place, rows in enumerate(case.states(), -1):
            checking.event(place, rows)
    first = [planned_now(query.sql, case.schema) for query in case.queries]
    checking.report.queries, checking.report.refused = len(first), first.count(None)
    checking.report.seen = Counter(name for each in first if each is not None for name in operators(each))
    return checking.report


@dataclass(slots=True)
class Checking:
    """Goes through a case's events a second time, with the emissions at hand and SQLite at its side."""

    case: Case
    plans: Plans
    emitted: dict[tuple[int, int], list[Told]]
    plain: Oracle
    exact: Oracle
    rows: Rows
    filled: bool = False  # `exact` has these rows: seldom asked, it gets them only then
    report: Report = field(default_factory=Report)
    followed: dict[int, Following] = field(default_factory=dict)

    def event(self, place: int, rows: Rows) -> None:
        event = self.case.events[place] if place >= 0 else None
        if isinstance(event, Alter):
            self.plain.alter(event)
            self.exact.alter(event)
        self.plain.fill(rows, rows.touched if place >= 0 else None)
        self.rows, self.filled = rows, False
        match event:
            case Subscribe(query) if (planned := self.plans[place]) is not None:
                self.followed[query] = following(planned)
            case Unsubscribe(query):
                self.followed.pop(query, None)
        for query, one in self.followed.items():
            try:
                self._check(one, tx_of(place), isinstance(event, Commit))
            except Exception as error:
                raise Wrong(f"query {query}, event {place}: {type(error).__name__} {error}\n{one.sql}") from error
        unasked = [id for id, tx in self.emitted if tx == tx_of(place)]
        if unasked:
            raise Wrong(f"event {place}: an emission that nobody asked for, of {unasked}")

    def _check(self, one: Following, tx: int, commit: bool) -> None:
        told = self.emitted.pop((one.planned.instance.id, tx), [])
        assert len(told) <= 1, "two emissions of one transaction"
        answer = self._answer(one)
        for entry, emission in told:
            _receive(one, entry, emission, answer)
        if one.lost is not None:
            assert answer is None or one.ended or one.lost == OVERFLOW, "still an error, where SQLite has an answer"
            self.report.lost[one.lost] += commit
            return
        assert answer is not None, "rows, where SQLite has an error"
        answer = listed(answer, one.planned.template.ordered)
        self._compare(one, answer)
        self.report.checks += commit
        self.report.changed += commit and one.before is not None and one.before != answer
        one.before = answer

    def _answer(self, one: Following) -> list[str] | None:
        """None where SQLite has none, in whatever order it adds."""
        answer = _attempt(self.plain, one.sql)
        return self._exactly(one) if answer is None and adds(one.planned) else answer

    def _exactly(self, one: Following) -> list[str] | None:
        if not self.filled:
            self.exact.fill(self.rows)
            self.filled = True
        return _attempt(self.exact, one.sql)

    def _compare(self, one: Following, answer: list[str]) -> None:
        ordered = one.planned.template.ordered
        found = listed([repr(row) for row in one.subscriber.rows], ordered)
        if found == answer:
            return
        expected = self._exactly(one) if adds(one.planned) else answer
        assert found == listed(expected or [], ordered), f"expected {expected}\n   found {found}"
        self.report.rounded += 1


def _receive(one: Following, entry: Entry, emission: Result | Diff | None, answer: list[str] | None) -> None:
    assert not one.ended, "an emission after the end"
    one.ended = entry.kind == "closed"
    if emission is not None:
        one.lost = None
        one.subscriber.receive(entry, emission)
        return
    one.lost = OVERFLOW if answer is not None and entry.reason.startswith(OVERFLOW) else RAISES
    assert answer is None or one.lost == OVERFLOW, f"{entry.kind}, where SQLite has an answer: {entry.reason}"
    one.subscriber.last = entry.tx


def _attempt(oracle: Oracle, sql: str) -> list[str] | None:
    return oracle.attempt(sql)


def listed(rows: list[str], ordered: bool) -> list[str]:
    return rows if ordered else sorted(rows)


def check_cuts(case: Case, directory: Path, cuts: Sequence[int] = (1, 7, 50)) -> None:
    """However the history is cut into steps, what is emitted is the same to the byte."""
    plans = plans_of(case)
    first, *others = (Running(case, plans, directory, cut).run() for cut in cuts)
    for cut, other in zip(cuts[1:], others, strict=True):
        if other != first:
            raise Wrong(f"steps of {cuts[0]} and of {cut} emit differently")


def check_orders(case: Case, directory: Path, seeds: Sequence[int] = (1, 2)) -> int:
    """In whatever order joins run, and whatever is in memory, what is emitted is the same to the byte. How many
    relations have several orders."""
    plans = plans_of(case)
    written = Running(case, plans, directory, case.cut).run()
    if Running(case, plans, directory, case.cut, evicts=True).run() != written:
        raise Wrong("with state that leaves memory after every step something else is emitted")
    for seed in seeds:
        if Running(case, plans, directory, case.cut, RandomOrders(seed)).run() != written:
            raise Wrong(f"joins in the order of seed {seed} and as written emit differently")
    return len({one.template.table for one in plans.values() if one is not None and RandomOrders(0)(one.template)})
