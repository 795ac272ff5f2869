"""A file that stays open for its readers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.fs.reopening_file import ReopeningFile


def test_a_file_is_opened_once_and_again_when_it_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "head"
    file = ReopeningFile(path)
    with pytest.raises(FileNotFoundError):
        file.fileno()
    path.write_text("old")
    first = os.fstat(file.fileno()).st_ino
    path.write_text("overwritten")
    assert os.fstat(file.fileno()).st_ino == first
    assert os.pread(file.fileno(), 99, 0) == b"overwritten"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        file.fileno()
    path.write_text("new")
    assert os.pread(file.fileno(), 99, 0) == b"new"
    path.with_suffix(".new").write_text("replaced")
    path.with_suffix(".new").replace(path)
    assert os.pread(file.fileno(), 99, 0) == b"replaced"
    file.close()
