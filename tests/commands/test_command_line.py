"""The command line as its user meets it: what is wrong is said in a sentence, and the exit code tells."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

import headwater.commands.watch
from headwater.cli import main
from headwater.client.database import Database
from headwater.client.live import LiveResult

SELECT = "SELECT id FROM t"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--source", "memory://", "--port", "99999"], "expected a number from 0 to 65535, found 99999"),
        (["serve", "--source", "memory://", "--port", "-1"], "expected a number from 0 to 65535, found -1"),
        (["watch", SELECT, "--source", "memory://", "--count", "-3"], "expected a number from 0, found -3"),
        (["watch", SELECT, "--source", "memory://", "--epoch", "-1"], "expected a number from 0, found -1"),
        (["watch", SELECT, "--source", "memory://", "--count", "few"], "'few'"),
        (["explain", SELECT, "--source", "memory://", "--count", "1"], "unrecognized arguments: --count"),
    ],
)
def test_numbers_that_cannot_be(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_a_data_directory_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "t.db").touch()
    assert (
        main(["watch", SELECT, "--source", f"sqlite:///{tmp_path}/t.db", "--runner", "inline", "--data-dir", str(file)])
        == 1
    )
    assert "as the data directory" in capsys.readouterr().err
    assert file.read_text() == "mine"


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_watch_ends_with_the_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, json: list[str]
) -> None:
    """For programs too: they were told nothing."""

    def connected(args: object) -> Database:
        db = headwater.connect(f"sqlite:///{tmp_path}/t.db", runner="inline", data_dir=tmp_path / "data")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        monkeypatch.setattr(db, "query", dropping(db, db.query))
        return db

    def dropping(db: Database, query: Callable[..., LiveResult]) -> Callable[..., LiveResult]:
        def asked(*words: str, live: bool) -> LiveResult:
            shown = query(*words, live=live)
            db.execute("DROP TABLE t")
            return shown

        return asked

    monkeypatch.setattr(headwater.commands.watch, "connected", connected)
    assert main(["watch", SELECT, "--source", "sqlite:///t.db", *json]) == 1
    assert "the live query is closed: table t was dropped" in capsys.readouterr().err


def test_watch_draws_into_a_pipe_as_changes_come(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as writer:
        writer.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        words = ["watch", SELECT, "--runner", "inline", "--source", f"sqlite:///{tmp_path}/t.db", "--count", "2"]
        command = [sys.executable, "-m", "headwater.cli", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
            assert watch.stdout is not None
            for rows in ("0 rows", "1 row", "2 rows"):
                assert any(f"· {rows} ·" in line for line in watch.stdout)
                writer.execute("INSERT INTO t DEFAULT VALUES")
        assert watch.returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["watch", SELECT, "--runner", "inline"],
        ["explain", SELECT],
        ["verify", SELECT, "--runner", "inline"],
        ["serve", "--runner", "inline", "--port", "0"],
        ["detach"],
    ],
)
def test_a_mistyped_file_is_not_created(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop.db").touch()
    assert main([*words, "--source", f"sqlite:///{tmp_path}/shpo.db"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"no such file: {tmp_path}/shpo.db" in said
    assert f"did you mean sqlite:///{tmp_path}/shop.db?" in said
    assert main([*words, "--source", f"sqlite:///{tmp_path}/nowhere/shop.db"]) == 1
    assert "sqlite:///relative.db" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["shop.db"]


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"headwater {version('headwater')}\n"
