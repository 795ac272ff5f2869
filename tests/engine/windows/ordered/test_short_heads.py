"""What is behind the head of a window is skipped; a head that runs short, at any length, changes nothing emitted."""

from __future__ import annotations

import random

import pytest

from headwater.engine.emissions.codec import encode
from headwater.engine.windows.ordered import skip_unseen
from headwater.model.change import Change, Transaction
from headwater.model.schema import Table
from headwater.plan.planner import plan
from tests.engine.test_dataflow import run_in_steps
from tests.engine.world import COLUMNS, FUZZ, Origin
from tests.support.sizes import forced

TABLE = Table("t", COLUMNS, ("id",))
QUERIES = (
    "SELECT id, a FROM t ORDER BY a, id LIMIT 3",
    "SELECT id, a FROM t ORDER BY a DESC, id LIMIT 4 OFFSET 2",
    "SELECT a FROM t ORDER BY a LIMIT 5",
)


def _transactions(origin: Origin, rng: random.Random) -> list[Transaction]:
    """Many rows leave, come and move within each: heads run short, and grow."""
    rows, last, found = dict(origin.rows), 1000, list[Transaction]()
    for _ in range(12):
        changes: list[Change] = []
        for id in rng.sample(sorted(rows), min(len(rows), 8)):
            old = rows.pop(id)
            new = None if rng.random() < 0.5 else (old[0], rng.randrange(40), *old[2:])
            changes.append(Change("t", old, new))
            if new is not None:
                rows[id] = new
        for _ in range(rng.randrange(8)):
            last += 1
            rows[last] = (last, rng.randrange(40), *next(iter(origin.rows.values()))[2:])
            changes.append(Change("t", None, rows[last]))
        found.append(Transaction(0, tuple(changes)))
    return found


@pytest.mark.parametrize("seed", range(6 * FUZZ))
def test_a_head_of_any_length_emits_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    origin = Origin(TABLE, rng)
    for id in range(60):
        origin.rows[id] = (id, rng.randrange(40), *(None for _ in COLUMNS[2:]))
    txs = _transactions(origin, rng)
    plans = [plan(sql, [TABLE]) for sql in QUERIES]
    expected = encode(run_in_steps(TABLE, origin, txs, plans, 1))
    for spare in (0, 1, 2, 32):
        monkeypatch.setattr(skip_unseen, "_SPARE", spare)
        for cut in (1, 5, 12):
            with forced("large", ["near_changes"]):
                assert encode(run_in_steps(TABLE, origin, txs, plans, cut)) == expected, (spare, cut)
