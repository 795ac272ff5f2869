"""`headwater inspect` as its user sees it: tables for people, JSON for programs, an exit code for both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.cli import main
from tests.inspection.recorded import recorded_directory


def test_tables_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded_directory(tmp_path)
    assert main(["inspect", str(tmp_path), "--records", "3"]) == 0
    shown = capsys.readouterr().out
    for word in ("data directory", "catalog", "records by kind", "END_EPOCH", "cell 0: windows", "next offset"):
        assert word in shown, word
    assert "damaged" not in shown


def test_json_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded_directory(tmp_path, "postgres")
    assert main(["inspect", str(tmp_path), "--json", "--from", "2", "--records", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [record["offset"] for record in told["log"]["records"]] == [2, 3]
    assert told["cells"][0]["windows"][0]["instance"]


def test_damage_is_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = recorded_directory(tmp_path)
    layout.catalog.write_bytes(b"no catalog")
    assert main(["inspect", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "damaged" in shown and "catalog" in shown


def test_what_is_no_data_directory_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 1
    assert "expected a data directory" in capsys.readouterr().err
