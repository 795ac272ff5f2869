"""A checked file gives back what was written, or says that it is damaged: whichever bit flips, wherever it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.fs.atomic_write import read_checked, write_checked
from headwater.model.errors import Corrupt

CONTENTS = (b"", b"\0", b"position 42", bytes(range(256)))


@pytest.mark.parametrize("content", CONTENTS)
def test_what_was_written_is_read(tmp_path: Path, content: bytes) -> None:
    write_checked(tmp_path / "file", content)
    assert read_checked(tmp_path / "file") == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("content", CONTENTS)
def test_every_flipped_bit_is_found(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    write_checked(path, content)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(Corrupt, match="checksum does not match"):
            read_checked(path)


@pytest.mark.parametrize("content", CONTENTS)
def test_every_other_length_is_found(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    write_checked(path, content)
    whole = path.read_bytes()
    for torn in (*(whole[:length] for length in range(len(whole))), whole + b"\0"):
        path.write_bytes(torn)
        with pytest.raises(Corrupt):
            read_checked(path)


def test_a_file_that_is_not_there_is_not_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_checked(tmp_path / "file")
