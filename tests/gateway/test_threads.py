"""A thread of ours that ends, by whatever mistake, is named by `status`: nothing stops in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.gateway.hub.diff_reader import DiffReader
from headwater.gateway.hub.resubscribe import Resubscriber
from headwater.pipeline.capture import Capture
from headwater.pipeline.requery.requery import Requery
from headwater.pipeline.retention import Retention
from headwater.pipeline.runners.inline import InlineRunner
from tests.support.processes import eventually


@pytest.mark.parametrize("owner", [Capture, Requery, Retention, InlineRunner, DiffReader, Resubscriber])
@pytest.mark.parametrize("raises", [True, False])
def test_a_thread_that_ended_is_told(owner: Any, raises: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> None:
        if raises:
            raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(owner, "_run", end)
    with headwater.connect(f"sqlite:///{tmp_path / 'a.db'}", runner="inline", data_dir=tmp_path / "data") as db:
        failure = eventually(lambda: db.status()["failure"])
    assert failure.startswith("thread headwater-")
    assert ("a mistake of ours" in failure) == raises
