"""The fuzzer's bounded run (issue 3, bars 1 and 2), after the failures it once found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.fuzz.campaign import KEPT, Campaign, examined, kind_of, replayed, seeds
from tests.fuzz.case import Alter, Case, Commit, Reload, Subscribe, Unsubscribe, read, write
from tests.fuzz.check import Wrong, check
from tests.fuzz.invent import invented
from tests.fuzz.oracle import Oracle
from tests.fuzz.shrink import shrunk
from tests.fuzz.tally import OPERATORS
from tests.support.fuzz import MULTIPLIER

EVENTS = {Commit, Subscribe, Unsubscribe, Reload, Alter}
CHECKS = 20_000 * MULTIPLIER


def test_what_failed_once_does_not_fail_again() -> None:
    for path in sorted(KEPT.glob("*.json")):
        try:
            replayed(read(path))
        except Wrong as wrong:
            raise Wrong(f"{path.name}: {wrong}") from wrong


@pytest.mark.slow
def test_maintained_rows_equal_the_oracles_at_every_transaction(tmp_path: Path) -> None:
    campaign = Campaign(keep=tmp_path)
    for seed in seeds(0):
        campaign.run(seed)
        assert not campaign.failures, f"seed {seed}: {campaign.failures[0].read_text()}"
        if campaign.total.checks >= CHECKS:
            break
    Console().print(campaign.table())
    assert campaign.cut_cases >= 5
    assert campaign.total.seen.keys() >= OPERATORS, OPERATORS - campaign.total.seen.keys()
    assert campaign.lively >= 0.5, campaign.summary()
    assert campaign.incremental >= 0.8, campaign.summary()
    assert campaign.blind < 0.02, campaign.summary()


def test_a_case_is_its_number() -> None:
    assert invented(3) == invented(3) != invented(4)


def test_a_case_survives_being_written_down(tmp_path: Path) -> None:
    case = next(case for case in map(invented, seeds(0)) if _kinds(case) == EVENTS)
    write(case, tmp_path / "case.json", "because")
    again = read(tmp_path / "case.json")
    assert replace(again, queries=case.queries) == case
    assert [query.sql for query in again.queries] == [query.sql for query in case.queries]


def _kinds(case: Case) -> set[type]:
    return {type(event) for event in case.events}


@pytest.mark.slow
def test_a_wrong_answer_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An oracle that leaves out every row that says 'b': the fuzzer must see it, and one row must do."""
    monkeypatch.setattr("tests.fuzz.check._attempt", _answer_without_b)
    case = next(case for case in map(invented, seeds(0)) if examined(case, False)[1])
    small = shrunk(case, lambda each: kind_of(examined(each, False)[1]))
    assert len(small.queries) == 1 and len(small.tables) <= len(case.tables)
    assert sum(map(len, small.rows.values())) + sum(isinstance(event, Commit) for event in small.events) <= 3
    with pytest.raises(Wrong, match="expected"):
        check(small, tmp_path)


def _answer_without_b(oracle: Oracle, sql: str) -> list[str]:
    return [row for row in oracle.attempt(sql) or () if "'b'" not in row]
