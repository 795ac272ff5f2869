"""`./dev profile` names the functions of a step, and writes a flame graph that a viewer can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.profile.__main__ import main
from bench.profile.scenarios import NAMES

SMALL = ("--rows", "60", "--changes", "3", "--steps", "2", "--top", "400")


@pytest.mark.parametrize("name", NAMES)
def test_the_functions_of_a_step_are_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([name, *SMALL])
    shown = capsys.readouterr().out
    assert f"{name}: " in shown and "headwater/engine" in shown


def test_a_flame_graph_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graphs" / "join.json"
    main(["join", "--rows", "2000", "--steps", "400", "--sort", "total", "--flame", str(path)])
    told = json.loads(path.read_text())
    [profile] = told["profiles"]
    assert len(profile["samples"]) == len(profile["weights"]) > 0
    assert max(frame for stack in profile["samples"] for frame in stack) < len(told["shared"]["frames"])
    assert any("headwater/engine" in frame["file"] for frame in told["shared"]["frames"])
    assert str(path) in capsys.readouterr().out.replace("\n", "")
