"""A dataflow with a query open over traffic, and what its steps cost. It never times the making of the changes."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.traffic import TABLES, Traffic
from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.rows.delta import Delta
from headwater.model.limits import DEFAULT
from headwater.model.schema import Table
from headwater.plan.planner import Planned, plan

Deltas = Mapping[str, Sequence[Delta]]
_LIMITS = replace(DEFAULT, result_rows_max=4_000_000)  # a join of a million rows grows past the default while it runs
_STEPS_MIN, _WARM_STEPS = 5, 3


@dataclass(slots=True)
class Flowing:
    traffic: Traffic
    planned: Planned
    flow: Dataflow
    hydrated_s: float
    first: EmissionBatch

    def step(self, deltas: Deltas) -> tuple[float, EmissionBatch]:
        """Seconds of CPU, and what came out."""
        before = time.process_time()
        self.flow.step(deltas)
        emitted = self.flow.take()
        return time.process_time() - before, emitted

    def costs(self, seconds: float, changes: int, customers: int = 0) -> list[float]:
        """Of each step of so many changes, in seconds of CPU, until they add up to `seconds`."""
        for _ in range(_WARM_STEPS):
            self.step(self.traffic.step(changes, customers))
        gc.collect()
        costs: list[float] = []
        while len(costs) < _STEPS_MIN or sum(costs) < seconds:
            costs.append(self.step(self.traffic.step(changes, customers))[0])
        return costs


def opened(sql: str, traffic: Traffic, subscriptions: int = 1, tables: Sequence[Table] = TABLES) -> Flowing:
    """The query live over the rows there are; each further subscription has a customer of its own."""
    return followed(plan(sql, tables), traffic, subscriptions, tables)


def followed(planned: Planned, traffic: Traffic, subscriptions: int, tables: Sequence[Table]) -> Flowing:
    rows = {name: batches for name, batches in traffic.rows().items() if name in planned.template.tables}
    flow = Dataflow(limits=_LIMITS)
    for table in tables:
        flow.define(table)
    before = time.process_time()
    flow.activate(planned.template, rows)
    for n in range(subscriptions):
        flow.subscribe(
            replace(planned.instance, id=n + 1, values=(n,)) if planned.template.keys else planned.instance, 1
        )
    first = flow.take()
    return Flowing(traffic, planned, flow, time.process_time() - before, first)
