"""The command line as its user meets it: what is wrong is said in a sentence, and the exit code tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headwater.cli
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
    assert (
        main(["watch", SELECT, "--source", f"sqlite:///{tmp_path}/t.db", "--runner", "inline", "--data-dir", str(file)])
        == 1
    )
    assert "expected a directory to keep data in" in capsys.readouterr().err
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

    monkeypatch.setattr(headwater.cli, "_connected", connected)
    assert main(["watch", SELECT, "--source", "sqlite:///t.db", *json]) == 1
    assert "the live query is closed: table t was dropped" in capsys.readouterr().err
