"""A data directory of another version is refused with the reason, and nothing in it is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from headwater.pipeline.format import FORMAT


def files(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize("mark", ["999", None])
def test_files_of_another_form_are_refused_and_left_alone(tmp_path: Path, mark: str | None) -> None:
    source, data = f"sqlite:///{tmp_path / 'origin.db'}", tmp_path / "data"
    with headwater.connect(source, runner="inline", data_dir=data) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        db.query("SELECT id FROM t", live=True)
    form = data / "format"
    form.write_text(mark) if mark is not None else form.unlink()
    before = files(data)
    with pytest.raises(headwater.HeadwaterError, match=f"in form {FORMAT}, found form '{mark or 1}'"):
        headwater.connect(source, runner="inline", data_dir=data)
    assert files(data) == before


def test_files_of_this_form_are_taken_up_again(tmp_path: Path) -> None:
    source, data = f"sqlite:///{tmp_path / 'origin.db'}", tmp_path / "data"
    for _ in range(2):
        with headwater.connect(source, runner="inline", data_dir=data) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY)")
            db.query("SELECT id FROM t", live=True)
