"""The fuzzer in PostgreSQL's dialect, on real servers (issue 4, bar 3), after the failures it once found.

Four connections write at once, with rollbacks, savepoints, deadlocks and serialization failures; the oracle repeats
their journals in the order of the commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.fuzz.campaign import seeds
from tests.fuzz.check import Wrong
from tests.fuzz.postgres.campaign import KEPT, OPERATORS, PostgresCampaign, drawn, examined, kind_of, replayed
from tests.fuzz.postgres.case import Query, read, write
from tests.fuzz.postgres.oracle import answer
from tests.fuzz.postgres.shrink import repeated, shrunk
from tests.fuzz.postgres.writers import Connection
from tests.support.fuzz import MULTIPLIER
from tests.support.postgres import VERSIONS, Postgres, Servers

pytestmark = pytest.mark.slow

CHECKS = 2_000 * MULTIPLIER
LIVELY = 0.5  # of the checks have a diff
MISHAPS = {"rollbacks", "undone actions", "refused actions", "deadlocks", "serialization failures"}


@pytest.fixture
def running(servers: Servers) -> Sequence[Postgres]:
    return [servers[version] for version in VERSIONS]


def test_what_failed_once_does_not_fail_again(running: Sequence[Postgres]) -> None:
    for path in sorted(KEPT.glob("*.json")):
        for server in running:
            try:
                replayed(read(path), server)
            except Wrong as wrong:
                raise Wrong(f"{path.name}: {wrong}") from wrong


def _complete(campaign: PostgresCampaign) -> bool:
    has_all = campaign.total.seen.keys() >= OPERATORS and campaign.counts.keys() >= MISHAPS
    return has_all and campaign.lively >= LIVELY


@pytest.mark.timeout(900)
def test_at_every_commit_of_four_connections_the_rows_are_the_oracles(
    running: Sequence[Postgres], tmp_path: Path
) -> None:
    campaign = PostgresCampaign(keep=tmp_path, servers=running)
    for seed in seeds(0):
        campaign.run(seed)
        assert not campaign.failures, f"seed {seed}: {campaign.failures[0].read_text()}"
        if (campaign.total.checks >= CHECKS and _complete(campaign)) or campaign.total.checks >= 6 * CHECKS:
            break
    Console().print(campaign.table())
    assert campaign.total.seen.keys() >= OPERATORS, OPERATORS - campaign.total.seen.keys()
    assert campaign.counts.keys() >= MISHAPS, campaign.summary()
    assert campaign.lively >= LIVELY, campaign.summary()
    assert campaign.incremental >= 0.8, campaign.summary()
    assert campaign.blind < 0.02, campaign.summary()


def test_a_case_is_its_number_and_survives_being_written_down(running: Sequence[Postgres], tmp_path: Path) -> None:
    case = drawn(3, running[0], 4, 3)
    assert case == drawn(3, running[0], 4, 3) != drawn(4, running[0], 4, 3)
    write(case, tmp_path / "case.json", "because")
    assert read(tmp_path / "case.json") == case


def test_a_wrong_answer_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch, running: Sequence[Postgres]) -> None:
    """An oracle that leaves out every row that says 'b': the fuzzer must see it, and one query must do."""
    monkeypatch.setattr("tests.fuzz.postgres.witness.answer", _answer_without_b)
    case = drawn(0, running[0], 6, 3)
    _, reason, life = examined(case, running[0])
    assert reason.startswith("Wrong: expected otherwise")
    small = shrunk(repeated(case, life.journal), lambda each: kind_of(examined(each, running[0])[1]), tries=25)
    assert len(small.queries) == 1
    assert len(small.rows) + sum(map(len, small.sessions)) < len(case.rows) // 2


def _answer_without_b(db: Connection, query: Query) -> list[tuple[Any, ...]] | None:
    return [row for row in answer(db, query) or () if "b" not in row]
