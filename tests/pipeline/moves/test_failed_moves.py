"""A moved template that cannot be activated again: its windows restart, are told why, and have their rows again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from headwater import LiveResult
from headwater.model.errors import SourceError
from headwater.pipeline.activation.activator import Activator
from headwater.pipeline.records.control import MoveRecord
from headwater.plan.planner import Planned
from tests.pipeline.moves.test_mover import FREE, JOIN, NEVER, moves_of, opened, weighed
from tests.support.databases import WAYS, Place
from tests.support.processes import eventually

REASON = "the table could not be read"


def asked(here: Place, *groups: int) -> list[LiveResult]:
    """Live queries that were moved."""
    lives = [here.db.query(JOIN, group, live=True) for group in groups]
    weighed(here, FREE)
    eventually(lambda: all(live.strategy == "requery" for live in lives))
    return lives


def reasons_of(live: LiveResult, patch: pytest.MonkeyPatch) -> list[str]:
    """What it is told when it has to restart."""
    told: list[str] = []
    resync = LiveResult.resync

    def noted(self: LiveResult, reason: str) -> None:
        told.append(reason)
        resync(self, reason)

    patch.setattr(LiveResult, "resync", noted)
    return told


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_activated_again_restarts_and_says_why(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    activate, failures = Activator.activate, [REASON]

    def fails_once(self: Activator, planned: Planned) -> None:
        if failures:
            raise SourceError(failures.pop())
        activate(self, planned)

    with opened(tmp_path, way) as here, caplog.at_level(logging.INFO, "headwater.moves"):
        live, other = asked(here, 1, 2)
        told = reasons_of(live, monkeypatch)
        assert live.wait(here.write("INSERT INTO a VALUES (3, 1, 1)")) and len(live.rows) == 3
        monkeypatch.setattr(Activator, "activate", fails_once)
        weighed(here, NEVER)
        eventually(lambda: live.resyncs == other.resyncs == 1)
        assert live.wait(here.write("INSERT INTO a VALUES (4, 1, 1), (5, 2, 2)")) and other.wait(here.db.position())
        eventually(lambda: live.strategy == other.strategy == "incremental")
        assert [{row["id"] for row in one.rows} for one in (live, other)] == [{1, 2, 3, 4}, {5}]
        assert live.state == other.state == "ready"
        assert told == [REASON, REASON] and REASON in caplog.text and "is followed again" not in caplog.text
        assert [one.strategy for one in moves_of(here)] == ["requery"], "no move was logged that did not happen"
        assert not here.server.pipeline._requery.windows.asked and not here.server.pipeline._catalog.moved


def test_a_cell_that_has_not_the_template_lets_its_windows_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the template ended between its activation and the move."""
    with opened(tmp_path) as here:
        [live] = asked(here, 1)
        told = reasons_of(live, monkeypatch)
        pipeline: Any = here.server.pipeline
        [template] = pipeline._catalog.moved
        pipeline._catalog.release(template)
        pipeline._controls.append(MoveRecord(template, "incremental", "by a test"))
        eventually(lambda: live.resyncs == 1)
        assert live.wait(here.write("INSERT INTO a VALUES (3, 1, 1)")) and len(live.rows) == 3
        assert live.state == "ready" and "while the query was set up" in told[0]


def test_who_is_refused_when_it_restarts_is_closed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Activator, planned: Planned) -> None:
        raise SourceError(REASON)

    with opened(tmp_path) as here:
        [live] = asked(here, 1)
        monkeypatch.setattr(Activator, "activate", fails)
        monkeypatch.setattr("headwater.gateway.hub.resubscribe._PAUSE_S", 0.0)
        weighed(here, NEVER)
        eventually(lambda: live.state == "closed")
        assert live.reason == REASON and len(live.rows) == 2
