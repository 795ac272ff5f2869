"""The order in which joins run is nobody's business: emissions are the same to the byte, errors included."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headwater.engine.emissions.codec import decode
from tests.fuzz.check import Report, Running, check, check_orders, plans_of
from tests.fuzz.many_joins import joined_case
from tests.fuzz.replans import check_replans
from tests.support.fuzz import MULTIPLIER

pytestmark = pytest.mark.slow

CASES = 12 * MULTIPLIER


def test_joins_in_any_order_emit_the_same_bytes_and_the_oracles_rows(tmp_path: Path) -> None:
    ordered, report = 0, Report()
    for seed in range(CASES):
        case = joined_case(seed)
        ordered += check_orders(case, tmp_path)
        report += check(case, tmp_path)
    print(f"{ordered} relations in other orders, {report.checks} checks, {report.changed} with a diff")
    assert ordered > 3 * CASES
    assert report.changed > report.checks / 2


def test_joins_in_any_order_fail_for_the_same_subscribers_at_the_same_transactions(tmp_path: Path) -> None:
    ordered, kinds = 0, Counter[str]()
    for seed in range(1000, 1000 + CASES // 2):
        case = joined_case(seed, fail=True)
        ordered += check_orders(case, tmp_path)
        emitted = Running(case, plans_of(case), tmp_path, case.cut).run()
        kinds.update(entry.kind for each in emitted for entry in decode(each).index)
    print(f"{ordered} relations in other orders, {dict(kinds)}")
    assert ordered > CASES
    assert kinds["error"] > CASES and kinds["diff"] > CASES


def test_joins_that_are_planned_anew_on_the_way_emit_the_same_bytes(tmp_path: Path) -> None:
    replans = sum(check_replans(joined_case(seed, fail=seed % 3 == 0), tmp_path) for seed in range(2000, 2000 + CASES))
    print(f"{replans} times another order")
    assert replans > 20 * CASES
