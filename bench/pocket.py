"""Pocket's workload, from its ADR on EventReduce: 10,000 rows, sorted, limit 100; every event falls within the limit.

EventReduce asks the database again when a row within the limit goes. Here the row that takes its place comes from the
arrangement: such refills are counted, and every result is compared with one computed from scratch. What we played is
then played by EventReduce and by TanStack DB, where there is Node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bench import javascript_peers
from bench.flowing import Flowing, opened
from bench.reruns import Reruns
from bench.traffic import AMOUNT_MAX, Traffic
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.emissions.reader import read_emissions
from headwater.model.emission import Diff, State, apply

_ROWS, _LIMIT, _EVENTS = 10_000, 100, 300
_SQL = f"SELECT id, customer, amount, status FROM orders ORDER BY amount, id LIMIT {_LIMIT}"
Event = tuple[int, tuple[int, int, int] | None]  # an order's id, and what it becomes; None: it goes


@dataclass(frozen=True, slots=True)
class Scenario:
    """`event_ms` is the mean; `asked_again` counts what came out that was not a diff; `refills` as above."""

    what: str
    events: int
    event_ms: float
    asked_again: int
    refills: int
    sqlite_ms: float
    duckdb_ms: float | None
    peers: dict[str, javascript_peers.PeerFigures] = field(default_factory=dict)


def measure(rows: int = _ROWS, events: int = _EVENTS) -> tuple[list[Scenario], str]:
    """And why the peers are missing, if they are."""
    traffic = Traffic(rows, rows // 10)
    images = [list(row) for row in zip(*np.vstack((traffic.here, traffic.order)).tolist(), strict=True)]
    tape = javascript_peers.Tape(_LIMIT, images)
    scenarios = list(_ours(traffic, tape, events))
    found, reason = javascript_peers.measured(tape)
    beside = [{name: found[name][n] for name in found} for n in range(len(scenarios))]
    return [replace(one, peers=peers) for one, peers in zip(scenarios, beside, strict=True)], reason


def _ours(traffic: Traffic, tape: javascript_peers.Tape, events: int) -> Iterator[Scenario]:
    reruns = Reruns(traffic.rows())
    sqlite_ms, duckdb_ms = (ask([_SQL] * 20) for ask in (reruns.sqlite_ms, reruns.duckdb_ms))
    reruns.close()
    pocket = _Pocket(opened(_SQL, traffic), tape)
    for what, event, together in (
        ("insert", pocket.inserted, 1),
        ("update, same place", pocket.renamed, 1),
        ("update, another place", pocket.moved, 1),
        ("delete", pocket.deleted, 1),
        ("100 rapid updates, a step each", pocket.moved, 1),
        ("100 rapid updates, one step", pocket.moved, 100),
    ):
        cost, asked, refills = pocket.play(event, events, together)
        yield Scenario(what, events, cost * 1000 / events, asked, refills, sqlite_ms or 0.0, duckdb_ms)


@dataclass(slots=True)
class _Pocket:
    flowing: Flowing
    tape: javascript_peers.Tape
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        self._follow(self.flowing.first)

    def play(self, event: Callable[[int], Event], events: int, together: int) -> tuple[float, int, int]:
        """Seconds, emissions that were no diff, and rows that entered the result though no event touched them."""
        cost, asked, refills = 0.0, 0, 0
        for start in range(0, events, together):
            chosen = [event(n) for n in range(start, min(start + together, events))]
            self.tape.step(chosen)
            spent, emitted = self.flowing.step(self.flowing.traffic.become(chosen))
            cost += spent
            asked += sum(entry.kind != "diff" for entry in emitted.index)
            refills += self._follow(emitted, {id for id, _ in chosen})
        self.tape.cut(self._first().tolist())
        return cost, asked, refills

    def _follow(self, emitted: EmissionBatch, touched: set[int] | None = None) -> int:
        names = [output.name for output in self.flowing.planned.template.outputs]
        edits = emitted.edits.get(self.flowing.planned.template.id)
        refills = 0
        for emission in read_emissions(emitted.index, edits, names, lambda tx: tx):
            self.state = apply(self.state, emission)
            if isinstance(emission, Diff) and touched is not None:
                refills += sum(c.type == "insert" and (c.new or {})["id"] not in touched for c in emission.changes)
        assert [row["id"] for row in self.state.rows] == self._first().tolist(), "not what a re-run would give"
        return refills

    def _first(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The ids within the limit, from scratch."""
        here, amount = self.flowing.traffic.here, self.flowing.traffic.order[1]
        return here[np.lexsort((here, amount[here]))][:_LIMIT]

    def _within(self, n: int) -> int:
        return int(self._first()[(7 * n) % _LIMIT])

    def _row(self, id: int) -> tuple[int, int, int]:
        customer, amount, status = self.flowing.traffic.order[:, id].tolist()
        return customer, amount, status

    def inserted(self, n: int) -> Event:
        return self.flowing.traffic.order.shape[1], (n, self._row(self._within(n))[1], 0)

    def renamed(self, n: int) -> Event:
        id = self._within(n)
        customer, amount, status = self._row(id)
        return id, (customer, amount, (status + 1) % 5)

    def moved(self, n: int) -> Event:
        """Every other one leaves the limit."""
        id = self._within(n)
        customer, amount, status = self._row(id)
        return id, (customer, AMOUNT_MAX - n if n % 2 else amount // 2, status)

    def deleted(self, n: int) -> Event:
        return self._within(n), None
