"""DISTINCT and set operations alone, against counters; and which of several equal rows is shown."""

from __future__ import annotations

from collections import Counter

import pytest

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.sets import SetsOperator, distinct, set_operator
from headwater.engine.rows.batch import table_of
from headwater.engine.rows.work import Work
from headwater.model.value import Row, Type
from headwater.sql.ir.relation import RelColumn, SetKind, SetOperation
from tests.engine.operators.alone import LEFT, RIGHT, Bags, L, R, Update, batch, check, counted
from tests.engine.world import FUZZ

OUT = (RelColumn("u.k", Type.INTEGER, Affinity.INTEGER), RelColumn("u.v", Type.TEXT, Affinity.TEXT))
LOOSE = (RelColumn("u.k", Type.INTEGER, Affinity.INTEGER), RelColumn("u.v", Type.TEXT, Affinity.TEXT, "NOCASE"))


def once(rows: Counter[Row]) -> Counter[Row]:
    return Counter(dict.fromkeys(+rows, 1))


def naive(kind: SetKind, all: bool, bags: Bags) -> Counter[Row]:
    left, right = bags if all else map(once, bags)
    match kind:
        case "union":
            return left + right if all else left | right
        case "intersect":
            return left & right
        case "except":
            return left - right


@pytest.mark.parametrize("all", [False, True])
@pytest.mark.parametrize("kind", ["union", "intersect", "except"])
@pytest.mark.parametrize("columns", [OUT, LOOSE], ids=["plain", "loose"])
def test_a_set_operation_is_that_of_counters(kind: SetKind, all: bool, columns: tuple[RelColumn, ...]) -> None:
    node = SetOperation(kind, all, L, R, columns)
    check(
        lambda: set_operator(node, table_of(LEFT), table_of(RIGHT), Work()),
        lambda bags: naive(kind, all, bags),
        2,
        range(6 * FUZZ),
    )


def test_distinct_is_a_set() -> None:
    check(lambda: distinct(table_of(LEFT), Work()), lambda bags: once(bags[0]), 1, range(20 * FUZZ))


def test_of_equal_rows_that_look_different_one_is_shown_at_a_time() -> None:
    """Under NOCASE 'a' and 'A' are one; when the one shown goes, the other takes its place in the same transaction."""
    table = table_of(LOOSE)
    operator: SetsOperator = distinct(table, Work())
    come = [Update(1, 0, (1, "a"), 1), Update(1, 0, (1, "A"), 1)]
    ((_, shown),) = counted(table, operator.step([batch(table, come)]))
    hidden = next(update.row for update in come if update.row != shown)
    assert counted(table, operator.step([batch(table, [Update(2, 0, hidden, -1)])])) == {}
    assert counted(table, operator.step([batch(table, [Update(3, 0, hidden, 1)])])) == {}
    gone = counted(table, operator.step([batch(table, [Update(4, 0, shown, -1)])]))
    assert gone == {(4, shown): -1, (4, hidden): 1}
