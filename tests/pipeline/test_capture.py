"""A capture that fails holds nobody up for ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.model.limits import DEFAULT
from tests.support.databases import place, values
from tests.support.processes import eventually


def test_who_waits_for_a_capture_that_fails_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place("embedded", tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        known = here.db.query("SELECT id FROM t", live=True)
        source = here.server.pipeline.source
        changes = source.changes

        def failing(*arguments: Any, **options: Any) -> Iterator[Any]:
            raise headwater.SourceError("the disk cannot be read")

        monkeypatch.setattr(source, "changes", failing)
        monkeypatch.setattr(here.server.pipeline.capture, "_limits", replace(DEFAULT, capture_ms_max=50))
        eventually(lambda: here.server.pipeline.capture.failure is not None)
        position = here.write("INSERT INTO t VALUES (1, 1)")
        with pytest.raises(headwater.SourceError, match="the disk cannot be read") as refused:
            here.db.query("SELECT id FROM t WHERE n = 1", live=True)
        assert "subscribe again" in (refused.value.hint or "")
        monkeypatch.setattr(source, "changes", changes)
        monkeypatch.setattr(here.server.pipeline.capture, "_limits", DEFAULT)
        assert known.wait(position) and values(known) == [1]
        assert values(here.db.query("SELECT id FROM t WHERE n = 1", live=True)) == [1]
