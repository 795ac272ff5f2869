"""Logs that an earlier version recorded: a cell that replays one emits the same bytes, whatever moved in the code.

`python -m tests.recorded` records them anew. HEADWATER_GOLDEN=1 writes anew what they emit: then read the diff.
"""

from __future__ import annotations

import difflib
import itertools
import logging
import os
from pathlib import Path

import pytest

from headwater.pipeline.data_dir.layout import Layout
from tests.recorded.archive import HERE, unpack
from tests.recorded.emissions import Windows, emitted_lines, lines
from tests.support.replay import cell_config, reports, run_to_the_end

_SHOWN_MAX = 60


def replayed(name: str, root: Path, step_records_max: int) -> Layout:
    layout = Layout(root)
    layout.make(1)
    unpack(name, root)
    run_to_the_end(cell_config(layout, step_records_max))
    return layout


def told(layout: Layout) -> list[str]:
    """What all windows were told, in an order that does not depend on the cut of the steps."""
    windows = Windows.of(layout)
    return sorted(line for report in reports(layout) for line in emitted_lines(report, windows))


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_recorded_log_emits_the_same_bytes(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    found = list(lines(replayed(name, tmp_path, step_records_max=1)))
    golden = HERE / f"{name}.txt"
    if os.environ.get("HEADWATER_GOLDEN"):
        golden.write_text("\n".join(found) + "\n")
    wanted = golden.read_text().splitlines()
    assert found == wanted, f"\n{_difference(wanted, found)}"
    assert [one.getMessage() for one in caplog.records if "made up" not in one.getMessage()] == []


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_recorded_log_tells_the_same_in_larger_steps(name: str, tmp_path: Path) -> None:
    one_by_one = told(replayed(name, tmp_path / "1", step_records_max=1))
    assert told(replayed(name, tmp_path / "64", step_records_max=4096)) == one_by_one


def _difference(wanted: list[str], found: list[str]) -> str:
    """The first lines that differ, each beneath its record: `-` was expected, `+` was found."""
    lines = list(difflib.unified_diff(wanted, found, "expected", "found", lineterm="", n=1))
    more = len(lines) - _SHOWN_MAX
    shown = list(itertools.islice(lines, _SHOWN_MAX))
    return "\n".join([*shown, f"… and {more} more lines"] if more > 0 else shown)
