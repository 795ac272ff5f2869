"""Semi, anti and mark joins alone, with NOT IN's NULL rule, against loops; and the counts they keep."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from headwater.engine.operators.failures import Failures
from headwater.engine.operators.join.exists import ExistsOperator, MarkOperator
from headwater.engine.rows.batch import table_of
from headwater.engine.rows.work import Work
from headwater.engine.state.tally import Tally
from headwater.model.value import Row, Type, Value
from headwater.sql.ir.expr import Call
from headwater.sql.ir.relation import Exists, Mark, RelColumn
from tests.engine.operators.alone import LEFT, RIGHT, Bags, L, R, bags_at, batch, check, equal, random_updates, ref
from tests.engine.world import FUZZ

ON = Call("=", (ref(LEFT[0]), ref(RIGHT[0])), Type.INTEGER)
MARK = RelColumn("m", Type.INTEGER)


def mark_of(row: Row, right: Counter[Row], null_aware: bool) -> Value:
    truths = [equal(row[0], other[0]) for other in right]
    if any(truths):
        return 1
    return None if null_aware and None in truths else 0


def marked(bags: Bags, null_aware: bool) -> Counter[Row]:
    return Counter({(*row, mark_of(row, bags[1], null_aware)): n for row, n in bags[0].items()})


def chosen(bags: Bags, anti: bool, null_aware: bool) -> Counter[Row]:
    wanted = 0 if anti else 1
    return Counter({r: n for r, n in bags[0].items() if mark_of(r, bags[1], null_aware and anti) == wanted})


@pytest.mark.parametrize("anti", [False, True])
@pytest.mark.parametrize("null_aware", [False, True])
def test_exists_and_not_exists_and_not_in(anti: bool, null_aware: bool) -> None:
    node = Exists(L, R, ON, anti, null_aware)
    check(
        lambda: ExistsOperator(node, table_of(LEFT), table_of(RIGHT), Work(), Failures()),
        lambda bags: chosen(bags, anti, null_aware),
        2,
        range(15 * FUZZ),
    )


@pytest.mark.parametrize("null_aware", [False, True])
def test_marks(null_aware: bool) -> None:
    node = Mark(L, R, ON, MARK, null_aware)
    check(
        lambda: MarkOperator(node, table_of(LEFT), table_of(RIGHT), Work(), Failures()),
        lambda bags: marked(bags, null_aware),
        2,
        range(15 * FUZZ),
    )


def test_a_row_that_is_gone_leaves_no_count_behind() -> None:
    node = Exists(L, R, ON)
    operator = ExistsOperator(node, table_of(LEFT), table_of(RIGHT), Work(), Failures())
    updates = random_updates(random.Random(1), 2, 60)
    operator.step([batch(table_of(c), [u for u in updates if u.input == n]) for n, c in enumerate((LEFT, RIGHT))])
    left, _ = bags_at(updates, 2, updates[-1].tx)
    (tally,) = (state for state in operator.state() if isinstance(state, Tally))
    assert len(tally.all()) == len(left)
    assert sorted(tally.all().values[:, 0].tolist()) == sorted(left.values())
