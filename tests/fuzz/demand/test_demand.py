"""Subscribers come and go between transactions: each has the oracle's rows at every one of them, and what is emitted
depends neither on the order of joins nor on what is in memory (issue 12, bar 5)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headwater.plan.demand import demands_of
from tests.fuzz.campaign import examined, kind_of
from tests.fuzz.case import Case, Release, Reload, Subscribe, Unsubscribe, read, write
from tests.fuzz.check import Report, Wrong, check, check_cuts, check_orders, plans_of
from tests.fuzz.demand.invent import demanded_case
from tests.fuzz.replans import check_replans
from tests.fuzz.shrink import shrunk
from tests.support.fuzz import MULTIPLIER

CASES = 24 * MULTIPLIER


def test_who_comes_and_goes_has_the_oracles_rows_at_every_transaction(tmp_path: Path) -> None:
    report = Report()
    for seed in range(max(CASES // 6, 1)):
        report += _checked(seed, tmp_path)
    assert report.refused < 0.2 * report.queries


@pytest.mark.slow
def test_many_who_come_and_go(tmp_path: Path) -> None:
    report, counts = Report(), Counter[str]()
    for seed in range(100, 100 + CASES):
        report += _checked(seed, tmp_path)
        counts += _counted(demanded_case(seed))
    print(f"{report.checks} checks, {report.changed} with a diff; {dict(counts)}")
    assert report.changed > 3 * CASES
    assert counts["on demand"] > 3 * CASES and counts["held in full"] > CASES
    assert all(counts[event.__name__] > CASES / 2 for event in (Subscribe, Unsubscribe, Reload, Release))


@pytest.mark.slow
def test_in_any_order_of_joins_and_with_state_that_leaves_memory_the_same_bytes_are_emitted(tmp_path: Path) -> None:
    ordered = 0
    for seed in range(500, 500 + max(CASES // 3, 1)):
        case = demanded_case(seed)
        ordered += check_orders(case, tmp_path)
        check_cuts(case, tmp_path, (case.cut, 3))
    assert ordered > CASES // 12


@pytest.mark.slow
def test_joins_that_are_planned_anew_while_subscribers_come_and_go_emit_the_same_bytes(tmp_path: Path) -> None:
    replans = sum(check_replans(demanded_case(seed), tmp_path) for seed in range(700, 700 + max(CASES // 2, 1)))
    print(f"{replans} times another order")
    assert replans > CASES


def _checked(seed: int, directory: Path) -> Report:
    """A failure is made small, and is what the test says."""
    case = demanded_case(seed)
    report, reason = examined(case, cuts=False)
    if report is not None:
        return report
    small = shrunk(case, lambda each: kind_of(examined(each, cuts=False)[1]))
    path = directory / f"demand-{seed}.json"
    write(small, path, examined(small, cuts=False)[1])
    raise Wrong(f"seed {seed}: {reason}\nkeep as tests/regressions/fuzz/demand-{seed}.json:\n{path.read_text()}")


def _counted(case: Case) -> Counter[str]:
    counts = Counter(type(event).__name__ for event in case.events)
    for planned in plans_of(case).values():
        if planned is not None and planned.template.relation is not None:
            counts["on demand" if any(demands_of(planned.template.relation)) else "held in full"] += 1
    return counts


def test_a_case_is_its_number_and_survives_being_written_down(tmp_path: Path) -> None:
    case = demanded_case(3)
    assert case == demanded_case(3) != demanded_case(4)
    write(case, tmp_path / "case.json", "because")
    assert check(read(tmp_path / "case.json"), tmp_path).checks == check(case, tmp_path).checks
