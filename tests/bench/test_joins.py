"""Joins in any written order cost about what the best order costs, by counted work (issue 12, bar 3)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from bench.join_queries import chain, star
from bench.joins import Case, cases


@pytest.mark.parametrize("count", [2, 3, 4, 6, 9, 13, 17])
@pytest.mark.parametrize("shape", [chain, star])
def test_a_chain_or_star_of_any_length_is_within_three_times_the_best_order(
    shape: Callable[[int], list[str]], count: int
) -> None:
    case = Case.of(Random(count), count, shape(count), (10, 60), 0.5)
    assert case.chosen.work <= 3 * case.best.work


def test_of_joins_on_skewed_data_nearly_all_are_near_the_best_plan() -> None:
    ratios = [case.chosen.work / case.best.work for case in cases(40)]
    assert len(ratios) == 40
    assert sum(ratio <= 1.5 for ratio in ratios) >= 0.95 * len(ratios)
