"""join alone: every kind, with and without an index, against nested loops."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from headwater.engine.operators.failures import Failures
from headwater.engine.operators.join import hot_keys
from headwater.engine.operators.join.join import JoinOperator
from headwater.engine.rows.batch import table_of
from headwater.engine.rows.work import Work
from headwater.model.value import Row, Type
from headwater.sql.ir.expr import Call, Expr
from headwater.sql.ir.relation import Join, JoinKind
from tests.engine.operators.alone import LEFT, RIGHT, Bags, L, R, check, equal, ref
from tests.engine.world import FUZZ

SAME_KEY = Call("=", (ref(LEFT[0]), ref(RIGHT[0])), Type.INTEGER)
BELOW = Call("<", (ref(LEFT[0]), ref(RIGHT[0])), Type.INTEGER)
SAME_VALUE = Call("is", (ref(RIGHT[1]), ref(LEFT[1])), Type.INTEGER)


def holds(on: Expr | None, left: Row, right: Row) -> bool:
    if on is None:
        return True
    if on == SAME_KEY:
        return bool(equal(left[0], right[0]))
    if on == SAME_VALUE:
        return left[1] == right[1]
    return left[0] is not None and right[0] is not None and left[0] < right[0]  # type: ignore[operator]


def naive(kind: JoinKind, on: Expr | None, bags: Bags) -> Counter[Row]:
    left, right = bags
    out: Counter[Row] = Counter()
    for one, n in left.items():
        for other, m in right.items():
            if holds(on, one, other):
                out[one + other] += n * m
    if kind in ("left", "full"):
        out.update({(*one, None, None): n for one, n in left.items() if not any(holds(on, one, r) for r in right)})
    if kind in ("right", "full"):
        lonely = {(None, None, *other): n for other, n in right.items() if not any(holds(on, o, other) for o in left)}
        for row, n in lonely.items():
            out[row] += n
    return out


def made(kind: JoinKind, on: Expr | None) -> JoinOperator:
    return JoinOperator(Join(kind, L, R, on), table_of(LEFT), table_of(RIGHT), Work(), Failures())


@pytest.mark.parametrize("kind", get_args(JoinKind))
@pytest.mark.parametrize("on", [SAME_KEY, SAME_VALUE, BELOW, None], ids=["key", "is", "below", "none"])
def test_a_join_is_its_nested_loops_at_every_transaction(kind: JoinKind, on: Expr | None) -> None:
    check(lambda: made(kind, on), lambda bags: naive(kind, on, bags), 2, range(6 * FUZZ))


def test_a_hot_key_gives_the_same_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_keys, "PAIRS_MAX", 2)
    check(lambda: made("full", SAME_KEY), lambda bags: naive("full", SAME_KEY, bags), 2, range(10 * FUZZ))
