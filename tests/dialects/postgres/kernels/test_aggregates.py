"""Sums on PostgreSQL: values come and go, in any order; what is saved is what was there before."""

from __future__ import annotations

import pytest

from headwater.dialects.postgres.kernels.aggregates import IntegerSum
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
