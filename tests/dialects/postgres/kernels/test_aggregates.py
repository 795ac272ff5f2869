"""Sums on PostgreSQL: values come and go, in any order; what is saved is what was there before."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from headwater.dialects.postgres.kernels.aggregates import IntegerSum, NumericSum
from headwater.sql.evaluation import EvaluationError


def test_a_sum_of_integers_is_saved_in_the_form_that_disks_hold() -> None:
    """Six parts, as of a sum that may hold doubles: older checkpoints are read, and this one by older programs."""
    sum = IntegerSum()
    for value in (2**63 - 1, 5, None):
        sum.add(value, 1)
    assert sum.dump() == [2, 0, 0, 0, str(2**63 + 4), "0"]
    restored = IntegerSum()
    restored.load(sum.dump())
    restored.add(2**63 - 1, -1)
    assert restored.result() == 5
    restored.add(5, -1)
    assert restored.result() is None


def test_a_sum_that_is_no_bigint_is_an_error() -> None:
    sum = IntegerSum()
    sum.add(2**62, 2)
    with pytest.raises(EvaluationError, match="integer overflow"):
        sum.result()


def test_many_numbers_at_once_add_up_to_what_they_do_one_by_one() -> None:
    rng = random.Random(3)
    kinds = (["1.50", "-2.25", "0.00"], ["1", "1.5", "-0.125"], ["NaN", "1"], ["Infinity", "2.0"], ["1e60", "0.001"])
    for turn in range(200):
        texts = [rng.choice(rng.choice(kinds) if turn % 2 else kinds[turn % 5]) for _ in range(rng.randrange(6))]
        values = [rng.choice((Decimal(text), Decimal(text), None)) for text in texts] + [7] * (turn % 3)
        once, one_by_one = (NumericSum(average=turn % 2 == 0) for _ in range(2))
        once.add_all(values)
        for value in values:
            one_by_one.add(value, 1)
        assert (once.dump(), str(once.result())) == (one_by_one.dump(), str(one_by_one.result())), values
