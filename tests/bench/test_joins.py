"""Joins in any written order cost about what the best order costs, by counted work (issue 12, bar 3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.join_queries import chain, star
from bench.joins import cases, orders_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("count", [2, 3, 4, 6, 9, 13, 17])
@pytest.mark.parametrize("shape", [chain, star])
def test_a_chain_or_star_of_any_length_is_within_three_times_the_best_order(
    shape: Callable[[int], list[str]], count: int
) -> None:
    for case in orders_of(count, shape, (10, 60), 3):
        assert case.ratio <= 3


@pytest.mark.parametrize("kind", ["skewed", "hot", "asked"])
def test_of_joins_on_skewed_data_nearly_all_are_near_the_best_plan(kind: str) -> None:
    ratios = [case.ratio for case in cases(40, kind)]
    assert len(ratios) == 40
    assert sum(ratio <= 1.5 for ratio in ratios) >= 0.95 * len(ratios)
