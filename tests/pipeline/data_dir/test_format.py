"""A data directory of another version is refused with the reason, and nothing in it is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from headwater.fs.atomic_write import read_checked
from headwater.pipeline.data_dir.format import FORMAT


def files(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize("mark", ["999", None])
def test_files_of_another_form_are_refused_and_left_alone(tmp_path: Path, mark: str | None) -> None:
    source, data = f"sqlite:///{tmp_path / 'origin.db'}", tmp_path / "data"
    with headwater.connect(source, runner="inline", data_dir=data) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        db.query("SELECT id FROM t", live=True)
    if mark is not None:
        (data / "format").write_text(mark)
    else:  # as the first form was: no mark, and a catalog without a checksum
        (data / "format").unlink()
        (data / "catalog").write_bytes(read_checked(data / "catalog"))
    before = files(data)
    with pytest.raises(
        headwater.HeadwaterError, match=f"has format '{mark or 1}', .* this version reads format {FORMAT}"
    ):
        headwater.connect(source, runner="inline", data_dir=data)
    assert files(data) == before


def test_files_of_this_form_are_taken_up_again(tmp_path: Path) -> None:
    source, data = f"sqlite:///{tmp_path / 'origin.db'}", tmp_path / "data"
    for _ in range(2):
        with headwater.connect(source, runner="inline", data_dir=data) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY)")
            db.query("SELECT id FROM t", live=True)


@pytest.mark.parametrize("mark", [b"", b"\xff\xfe", b"4 0123", b"garbage\n", None])
def test_a_mark_that_was_damaged_or_lost_is_written_again(tmp_path: Path, mark: bytes | None) -> None:
    source, data = f"sqlite:///{tmp_path / 'origin.db'}", tmp_path / "data"
    with headwater.connect(source, runner="inline", data_dir=data) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    before = (data / "format").read_bytes()
    (data / "format").unlink() if mark is None else (data / "format").write_bytes(mark)
    with headwater.connect(source, runner="inline", data_dir=data) as db:
        assert list(db.query("SELECT id FROM t", live=True).rows) == []
    assert (data / "format").read_bytes() == before
