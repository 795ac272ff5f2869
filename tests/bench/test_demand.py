"""The bench of demand, with few rows: it compares each result with SQLite's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import demand

pytestmark = pytest.mark.slow


def test_it_runs_and_counts(tmp_path: Path) -> None:
    joined, *products = demand.run(1.0, tmp_path, rows=2_000, subscribers=3, runner="inline")
    assert joined["asked"] == 300
    assert joined["held_beyond"] == joined["places"] == joined["asked"]
    assert joined["gathered"] == 2 * joined["asked"], "a row of either table for each of the result"
    assert all(one["rows"] for one in products)
