"""Log lines: warnings by default, more by HEADWATER_LOG or -v, always on standard error, also of other processes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LIVE = """
import sys, headwater
with headwater.connect("memory://logs", runner="inline", data_dir=sys.argv[1]) as db:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    live = db.query("SELECT id, n FROM t WHERE n > 0", live=True)
    ranked = db.query("SELECT id, rank() OVER (ORDER BY n) AS r FROM t", live=True)
    position = db.execute("INSERT INTO t VALUES (1, 987654)")
    assert live.wait(position) and ranked.wait(position)
"""


def ran(*words: str, level: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "HEADWATER_LOG"}
    if level:
        environment["HEADWATER_LOG"] = level
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, timeout=120)


def test_a_library_says_nothing_unless_it_is_asked(tmp_path: Path) -> None:
    done = ran("-c", LIVE, str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("level", ["debug", "DEBUG"])
def test_debug_tells_what_happens_and_shows_no_values(tmp_path: Path, level: str) -> None:
    done = ran("-c", LIVE, str(tmp_path), level=level)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for word in (
        "DEBUG headwater.pipeline",
        "planned as incremental",
        "activated template",
        "not incremental:",
        "logged 1 transactions",
        "cell 0 reads SUBSCRIBE at offset",
        "cell 0 took 1 records",
        "the source answered in",
        "logged its answer whole, 1 rows",
    ):
        assert word in done.stderr, f"{word} is not in\n{done.stderr}"
    assert "987654" not in done.stderr


def test_an_unknown_level_is_told(tmp_path: Path) -> None:
    done = ran("-m", "headwater.cli", "inspect", str(tmp_path), level="loud")
    assert "HEADWATER_LOG: expected one of debug, info, warning, error, critical, found 'loud'" in done.stderr


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_verbose_is_debug(tmp_path: Path, option: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db")) as db:
        db.execute("CREATE TABLE t (id INTEGER)")
    words = ["verify", "SELECT id FROM t", "--source", f"sqlite:///{tmp_path}/t.db", "--runner", "inline"]
    done = ran("-m", "headwater.cli", *words, "--count", "1", "--data-dir", str(tmp_path / "data"), option)
    assert done.returncode == 0, done.stderr
    assert "DEBUG headwater.cell" in done.stderr
    assert "DEBUG" not in done.stdout
