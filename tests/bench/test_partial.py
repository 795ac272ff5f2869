"""The bench of tables that are held by key, with fewer rows: it compares what is held with what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import partial


@pytest.mark.slow
def test_it_runs_and_counts(tmp_path: Path) -> None:
    found = partial.run(1.0, tmp_path, rows=200_000, subscribers=50, writers=2)
    assert found["questions"] <= 50
    assert found["held_rows"] == found["captured_rows"] == 50
