"""A row has one sort key, however many others are looked at with it: so it is found again where it was put."""

from __future__ import annotations

import random
from bisect import insort

import numpy as np
import pytest

from headwater.engine.subscriptions import ranked_of
from headwater.engine.windows.template_program import Program
from headwater.model.schema import Column, Table
from headwater.model.value import Type, Value
from headwater.plan.planner import plan
from tests.engine.ranges.test_ranges import VALUES
from tests.engine.world import batch_of

_DECLARED = {
    Type.INTEGER: "bigint",
    Type.REAL: "double precision",
    Type.TIMESTAMP: "timestamp without time zone",
    Type.TIMESTAMPTZ: "timestamp with time zone",
}
_COUNT = 1100  # from here on keys of one length are packed


def program(type: Type, order: str) -> tuple[Program, Table]:
    columns = Column("id", Type.INTEGER, "bigint"), Column("c", type, _DECLARED.get(type, type.value))
    table = Table("t", columns, ("id",), dialect="postgres")
    return Program(plan(f"SELECT id, c FROM t ORDER BY c {order}", [table]).template, table), table


@pytest.mark.parametrize("order", ["ASC", "DESC NULLS LAST"])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("type", [type for type in VALUES if type is not Type.TEXT])
def test_each_row_is_found_where_it_was_put(type: Type, nulls: bool, order: str) -> None:
    """NaN, both zeros, numbers of several scales and NULL; packed or not."""
    rng, (made, table) = random.Random(type.value), program(type, order)
    values: list[Value] = [*VALUES[type], None] if nulls else VALUES[type]
    rows = batch_of(table, [(n, rng.choice(values)) for n in range(_COUNT)])
    ids = np.array([rng.getrandbits(64) for _ in range(_COUNT)], np.uint64)
    alone = [made.see(rows.slice(n, 1), ids[n : n + 1]).keys[0] for n in range(_COUNT)]
    assert list(made.see(rows, ids).keys) == list(made.see(rows, ids, to_sort=True).keys) == alone
    ranked, plain = ranked_of(made.see(rows, ids, to_sort=True)), sorted(alone)
    for key in rng.sample(alone, _COUNT):
        assert ranked.rank(key) == plain.index(key)
        ranked.remove(key)
        plain.remove(key)
        if rng.random() < 0.1:
            ranked.insert(key)
            insort(plain, key)
    assert ranked.slice(0, _COUNT) == plain
