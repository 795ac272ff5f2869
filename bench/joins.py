"""The order of joins: counted work of the order we choose, beside the best there is and the one as written.

Work is the pairs that joins look at and the rows that they keep, at hydration. The best order is found with the true
cardinalities: of all there are up to 9 tables, step by step beyond. CPU time is that of the hydration in the engine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table as Shown

from bench.join_queries import Counted, World, bound, chain, random_tree, star, world, written
from headwater.engine.operators.derived import Derived
from headwater.engine.rows.work import Work
from headwater.model.errors import OverBudget
from headwater.model.limits import Limits
from headwater.pipeline.activation.row_statistics import row_profiler
from headwater.plan.join_order.choice import chosen
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.join_order.search import as_order, cheapest
from headwater.plan.planner import plan
from headwater.sql.ir.relation import Relation
from tests.engine.world import batch_of

_LIMITS = Limits(work_pairs_max=200_000)
_RESULT_MAX = 20_000


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, default=200, help="how many generated queries (default 200)")


def run(seconds: float, out: Path, queries: int) -> None:
    shapes = Shown("shape", "tables", "chosen", "of the best", "of the written", "CPU ms", "best CPU ms")
    for shape, conditions in (("chain", chain), ("star", star)):
        for count in (2, 3, 5, 9, 12, 17):
            shapes.add_row(shape, str(count), *_shown(Case.of(Random(count), count, conditions(count), (10, 100), 0.5)))
    Console(width=160).print(shapes)
    ratios = sorted(case.chosen.work / case.best.work for case in cases(queries))
    within = sum(ratio <= 1.5 for ratio in ratios) / len(ratios)
    at = {share: ratios[min(int(share * len(ratios)), len(ratios) - 1)] for share in (0.5, 0.95, 1.0)}
    told = ", ".join(f"{share:.0%}: {ratio:.2f}" for share, ratio in at.items())
    Console().print(f"{len(ratios)} generated queries, work of the best plan: {within:.1%} within 1.5×; {told}")


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

    @classmethod
    def of(cls, random: Random, count: int, conditions: list[str], sizes: tuple[int, ...], skew: float) -> Case:
        made = world(random, [random.choice(sizes) for _ in range(count)], skew)
        return cls.over(made, written(random, count, conditions), conditions)

    @classmethod
    def over(cls, made: World, sql: str, conditions: list[str]) -> Case:
        if len(made.tables) == 2:
            relation = _planned(made, sql)
            return cls(*[measured(made, relation, None)] * 3)
        relation, cluster = bound(made, sql)
        counted = Counted(cluster, made, conditions)
        best = JoinOrder((as_order(counted, cheapest(counted, len(made.tables))),))
        profiler = row_profiler(
            (table, len(rows), [batch_of(table, rows)]) for table, rows in zip(made.tables, made.rows, strict=True)
        )
        own, optimal = (measured(made, relation, order) for order in (chosen(relation, profiler), best))
        return cls(own, optimal, measured(made, relation, None))


def cases(count: int) -> Iterator[Case]:
    """Generated ones, of three to six tables, whose results are not too large."""
    found = 0
    for seed in range(10 * count):
        random = Random(f"joins {seed}")
        tables = random.choice((3, 4, 5, 6))
        made = world(random, [random.choice((20, 100, 400)) for _ in range(tables)], random.choice((0.0, 1.0, 2.0)))
        conditions = random_tree(random, tables)
        names = ", ".join(table.name for table in made.tables)
        few = f"SELECT count(*) FROM (SELECT 1 FROM {names} WHERE {' AND '.join(conditions)} LIMIT {_RESULT_MAX + 1})"
        if made.count(few) <= _RESULT_MAX:
            yield Case.over(made, written(random, tables, conditions), conditions)
            found += 1
        if found == count:
            return


def _planned(made: World, sql: str) -> Relation:
    relation = plan(sql, made.tables).template.relation
    assert relation is not None
    return relation


def measured(made: World, relation: Relation, order: JoinOrder | None) -> Measured:
    """The better of two tries: what is compiled at first is compiled once."""
    one, other = _hydrated(made, relation, order), _hydrated(made, relation, order)
    return one if one.cpu_ms < other.cpu_ms else other


def _hydrated(made: World, relation: Relation, order: JoinOrder | None) -> Measured:
    counters = Work()
    derived = Derived("d", relation, {table.name: table for table in made.tables}, counters, _LIMITS, order=order)
    rows = {table.name: [batch_of(table, rows)] for table, rows in zip(made.tables, made.rows, strict=True)}
    began = time.process_time()
    try:
        list(derived.load(rows))
    except OverBudget:
        return Measured(float("inf"), float("inf"))
    cpu_ms = (time.process_time() - began) * 1000
    pairs = counters.budget.pairs_max - counters.budget.pairs
    kept = sum(len(run) for bag in derived.bags() for run in bag.runs)
    return Measured(pairs + kept, cpu_ms)


def _shown(case: Case) -> list[str]:
    own, best, as_written = case.chosen, case.best, case.written
    return [
        f"{own.work:,.0f}",
        f"{own.work / best.work:.2f}×",
        f"{own.work / as_written.work:.4f}×" if as_written.work != float("inf") else "the written one is over 200,000",
        f"{own.cpu_ms:.1f}",
        f"{best.cpu_ms:.1f}",
    ]
