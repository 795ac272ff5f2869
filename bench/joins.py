"""The order of joins: counted work of the order we choose, beside the best there is and the one as written.

Work is the pairs that joins look at and the rows that they keep, at hydration and when the first subscriber comes. The
best order is found with the true cardinalities: of all there are up to 9 tables, step by step beyond. Chains and stars
are written in several orders, of which the worst counts. CPU time is that of the hydration in the engine; `ready` is
what a client waits for its first result, and the CPU of the whole process meanwhile.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table as Shown

import headwater
from bench.join_queries import (
    Counted,
    World,
    asked,
    bound,
    chain,
    random_tree,
    star,
    twice_joined,
    world,
    written,
)
from headwater.engine.operators.demand import DemandChange, DemandOperator
from headwater.engine.operators.derived import Derived
from headwater.engine.rows.work import Work
from headwater.engine.state.bag import Bag
from headwater.model.errors import OverBudget
from headwater.model.limits import Limits
from headwater.pipeline.activation.row_statistics import row_profiler
from headwater.plan.join_order.choice import chosen
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.join_order.search import as_order, cheapest
from headwater.plan.planner import Planned, plan
from tests.engine.world import batch_of

_LIMITS = Limits(work_pairs_max=200_000)
_RESULT_MAX = 20_000
_WRITTEN = 5  # orders of a chain or star
_READY_TABLES, _READY_ROWS = 17, 10
KINDS = ("skewed", "hot", "related", "asked")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, default=200, help="how many generated queries of a kind (default 200)")


def run(seconds: float, out: Path, queries: int) -> None:
    Console(width=160).print(_shapes())
    wall_ms, cpu_ms = ready()
    tables = f"a chain of {_READY_TABLES} tables of {_READY_ROWS} rows"
    Console().print(f"{tables}: ready after {wall_ms:.0f} ms, {cpu_ms:.0f} ms of CPU")
    shown = Shown("generated", "queries", "within 1.5×", "50 %", "95 %", "99 %", "worst")
    for kind in KINDS:
        ratios = sorted(case.ratio for case in cases(queries, kind))
        within = sum(ratio <= 1.5 for ratio in ratios) / len(ratios)
        at = (ratios[min(int(share * len(ratios)), len(ratios) - 1)] for share in (0.5, 0.95, 0.99, 1.0))
        shown.add_row(kind, str(len(ratios)), f"{within:.1%}", *(f"{ratio:.2f}×" for ratio in at))
    Console(width=160).print(shown)


def _shapes() -> Shown:
    shapes = Shown("shape", "tables", "worst chosen", "of the best", "of the written", "CPU ms", "best CPU ms")
    for shape, conditions in (("chain", chain), ("star", star)):
        for count in range(2, 18):
            found = list(orders_of(count, conditions, (10, 100), _WRITTEN))
            shapes.add_row(shape, str(count), *_shown(max(found, key=lambda case: case.ratio)))
    return shapes


def orders_of(count: int, shape: Callable[[int], list[str]], sizes: tuple[int, ...], orders: int) -> Iterator[Case]:
    """One world, and its tables written in several orders."""
    random, conditions = Random(count), shape(count)
    made = world(random, [random.choice(sizes) for _ in range(count)], 0.5)
    for _ in range(orders):
        yield Case.over(made, written(random, count, conditions), conditions)


def ready() -> tuple[float, float]:
    """From the call to the first result, through a whole server: milliseconds, and those of CPU."""
    conditions = chain(_READY_TABLES)
    made = world(Random(17), [_READY_ROWS] * _READY_TABLES, 0.5)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "chain.db"
        with closing(sqlite3.connect(path)) as database:
            made.database.backup(database)
        with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=Path(name) / "data") as db:
            db.query("SELECT id FROM t0 WHERE id = 1", live=True)  # the server is up
            began, cpu = time.monotonic(), time.process_time()
            db.query(written(Random(1), _READY_TABLES, conditions), live=True)
            return (time.monotonic() - began) * 1000, (time.process_time() - cpu) * 1000


@dataclass(frozen=True, slots=True)
class Measured:
    """`work` is infinite where it is over the limit."""

    work: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Case:
    chosen: Measured
    best: Measured
    written: Measured

    @property
    def ratio(self) -> float:
        return self.chosen.work / max(self.best.work, 1.0)

    @classmethod
    def over(cls, made: World, sql: str, conditions: list[str]) -> Case:
        if len(made.tables) == 2:
            return cls(*[measured(made, plan(sql, made.tables), None)] * 3)
        planned, cluster = bound(made, sql)
        relation = planned.template.relation
        assert relation is not None
        counted = Counted(cluster, made, conditions)
        best = JoinOrder((as_order(counted, cheapest(counted, len(made.tables))),))
        profiler = row_profiler(
            (table, len(rows), [batch_of(table, rows)]) for table, rows in zip(made.tables, made.rows, strict=True)
        )
        own, optimal = (measured(made, planned, order) for order in (chosen(relation, profiler), best))
        return cls(own, optimal, measured(made, planned, None))


def cases(count: int, kind: str = "skewed") -> Iterator[Case]:
    """Generated ones, of three to six tables, whose results are not too large. In hot ones a few values are those of
    most rows; in related ones columns of a table follow from each other, and tables meet in two of them; in asked ones
    a subscriber asks for values."""
    found = 0
    for seed in range(10 * count):
        random = Random(f"joins {seed}" if kind == "skewed" else f"{kind} {seed}")
        tables = random.choice((3, 4, 5, 6))
        sizes = [random.choice((20, 100, 400)) for _ in range(tables)]
        skew = random.choice((3.0, 5.0) if kind == "hot" else (0.0, 1.0, 2.0))
        made = world(random, sizes, skew, 0.8 if kind == "related" else 0.0)
        conditions = twice_joined(random, tables) if kind == "related" else random_tree(random, tables)
        conditions += asked(random, made) if kind == "asked" else []
        names = ", ".join(table.name for table in made.tables)
        few = f"SELECT count(*) FROM (SELECT 1 FROM {names} WHERE {' AND '.join(conditions)} LIMIT {_RESULT_MAX + 1})"
        if made.count(few) <= _RESULT_MAX:
            yield Case.over(made, written(random, tables, conditions), conditions)
            found += 1
        if found == count:
            return


def measured(made: World, planned: Planned, order: JoinOrder | None) -> Measured:
    """The better of two tries: what is compiled at first is compiled once."""
    one, other = _hydrated(made, planned, order), _hydrated(made, planned, order)
    return one if one.cpu_ms < other.cpu_ms else other


def _hydrated(made: World, planned: Planned, order: JoinOrder | None) -> Measured:
    counters, relation = Work(), planned.template.relation
    assert relation is not None
    derived = Derived("d", relation, {table.name: table for table in made.tables}, counters, _LIMITS, order=order)
    rows = {table.name: [batch_of(table, rows)] for table, rows in zip(made.tables, made.rows, strict=True)}
    began = time.process_time()
    try:
        list(derived.load(rows))
        pairs = counters.budget.pairs_max - counters.budget.pairs
        if derived.on_demand:
            derived.demand(DemandChange(planned.instance.values, 1, 1))
            pairs += counters.budget.pairs_max - counters.budget.pairs
    except OverBudget:
        return Measured(float("inf"), float("inf"))
    cpu_ms = (time.process_time() - began) * 1000
    return Measured(pairs + _kept(derived), cpu_ms)


def _kept(derived: Derived) -> int:
    """The rows that joins keep. Those of the tables themselves, by what is asked for, are kept in any order."""
    joins = (each for each in derived._tree.operators() if not isinstance(each, DemandOperator))
    bags = (state for each in joins for state in each.state() if isinstance(state, Bag))
    return sum(len(run) for bag in bags for run in bag.runs)


def _shown(case: Case) -> list[str]:
    own, best, as_written = case.chosen, case.best, case.written
    return [
        f"{own.work:,.0f}",
        f"{case.ratio:.2f}×",
        f"{own.work / as_written.work:.4f}×" if as_written.work != float("inf") else "the written one is over 200,000",
        f"{own.cpu_ms:.1f}",
        f"{best.cpu_ms:.1f}",
    ]
