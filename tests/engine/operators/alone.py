"""One operator alone: random updates of its inputs, cut into steps, against a naive function of whole bags."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.operator import Operator
from headwater.engine.rows.batch import Batch, identified, table_of
from headwater.engine.state.bag import Bag
from headwater.model.schema import Table
from headwater.model.value import Row, Type, Value
from headwater.sql.ir.expr import ColumnRef
from headwater.sql.ir.relation import RelColumn, Scan
from tests.engine.operators.world import rows_of
from tests.engine.world import batch_of

Bags = Sequence[Counter[Row]]
Naive = Callable[[Bags], Counter[Row]]
LEFT = (RelColumn("l.k", Type.INTEGER, Affinity.INTEGER), RelColumn("l.v", Type.TEXT, Affinity.TEXT))
RIGHT = (RelColumn("r.k", Type.INTEGER, Affinity.INTEGER), RelColumn("r.v", Type.TEXT, Affinity.TEXT))
L, R = (Scan(name, ("k", "v"), columns) for name, columns in (("l", LEFT), ("r", RIGHT)))


def ref(column: RelColumn) -> ColumnRef:
    return ColumnRef(column.name, column.type, column.sql_type, column.collation)


@dataclass(frozen=True, slots=True)
class Update:
    tx: int
    input: int
    row: Row
    diff: int


def random_updates(rng: random.Random, inputs: int, count: int) -> list[Update]:
    """A bag's rows come and go, several times within a transaction too, and are never fewer than none."""
    there: list[Counter[Row]] = [Counter() for _ in range(inputs)]
    updates = []
    for at in range(count):
        input = rng.randrange(inputs)
        row: Row = (rng.choice((None, 0, 1, 2)), rng.choice(("a", "b", None)))
        if there[input] and rng.random() < 0.45:
            row = rng.choice(sorted(there[input], key=repr))
        diff = -1 if there[input][row] and rng.random() < 0.7 else 1
        there[input][row] += diff
        there[input] += Counter()
        updates.append(Update(1 + at // 3, input, row, diff))
    return updates


def batch(table: Table, updates: Sequence[Update]) -> Batch:
    rows = batch_of(table, [update.row for update in updates])
    tx = np.array([update.tx for update in updates], np.int64)
    return identified(rows, table, tx, np.array([update.diff for update in updates], np.int64))


def counted(table: Table, out: Batch) -> Counter[tuple[int, Row]]:
    """Net updates by (tx, row)."""
    found: Counter[tuple[int, Row]] = Counter()
    for row, tx, diff in zip(rows_of(table, out.rows), out.tx.tolist(), out.diff.tolist(), strict=True):
        found[tx, row] += diff
    return found


def check(make: Callable[[], Operator], naive: Naive, inputs: int, seeds: range) -> None:
    """Output up to every t is the naive function of the inputs up to t, for steps of 1, 4 and all transactions."""
    tables = [table_of(LEFT), table_of(RIGHT)][:inputs]
    for seed in seeds:
        updates = random_updates(random.Random(seed), inputs, 30)
        for cut in (1, 4, 100):
            _check_run(make(), naive, tables, updates, cut)


def _check_run(operator: Operator, naive: Naive, tables: list[Table], updates: list[Update], cut: int) -> None:
    out: Counter[tuple[int, Row]] = Counter()
    last = updates[-1].tx
    for start in range(1, last + 1, cut):
        mine = [update for update in updates if start <= update.tx < start + cut]
        batches = [batch(table, [u for u in mine if u.input == n]) for n, table in enumerate(tables)]
        for entry, diff in counted(operator.table, operator.step(batches)).items():
            out[entry] += diff
    for tx in range(1, last + 1):
        assert until(out, tx) == naive(bags_at(updates, len(tables), tx)), (tx, cut)
    check_bags(operator, bags_at(updates, len(tables), last))


def until(out: Counter[tuple[int, Row]], tx: int) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for (at, row), diff in out.items():
        rows[row] += diff if at <= tx else 0
    assert all(count >= 0 for count in rows.values())
    return +rows


def bags_at(updates: Sequence[Update], inputs: int, tx: int) -> list[Counter[Row]]:
    bags: list[Counter[Row]] = [Counter() for _ in range(inputs)]
    for update in updates:
        bags[update.input][update.row] += update.diff if update.tx <= tx else 0
    return [+bag for bag in bags]


def check_bags(operator: Operator, inputs: Sequence[Counter[Row]]) -> None:
    """The state: each bag holds its input, save rows whose key is NULL where those can match nothing."""
    bags = [state for state in operator.state() if isinstance(state, Bag) and state.runs]
    for bag, rows in zip(bags, inputs if len(bags) == len(inputs) else [], strict=False):
        held = bag.all()
        have = Counter(dict(zip(rows_of(bag.table, held.rows), held.diff.tolist(), strict=True)))
        assert have == rows or have == Counter({row: n for row, n in rows.items() if row[0] is not None})
        assert all(2 * len(b) <= len(a) for a, b in zip(bag.runs, bag.runs[1:], strict=False))


def equal(one: Value, other: Value) -> bool | None:
    return None if one is None or other is None else one == other
