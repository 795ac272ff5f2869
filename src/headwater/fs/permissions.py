"""What we write is for its owner alone: directories 0700, files 0600, whatever the umask. It never widens anything."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FILE, DIRECTORY = 0o600, 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger("headwater.fs.permissions")


def make_directory(path: Path) -> None:
    """The directory, and those above it that are missing, are made for their owner alone; what is there stays."""
    for missing in reversed([one for one in (path, *path.parents) if not one.exists()]):
        missing.mkdir(DIRECTORY, exist_ok=True)


def open_to_write(path: Path) -> IO[bytes]:
    """A new file, or an older one emptied."""
    return open(path, "wb", opener=_opener)


def touch(path: Path) -> None:
    open_to_write(path).close()


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)


def tighten(root: Path, names: frozenset[str]) -> None:
    """Takes from others what they may do with these entries of a directory, and with all below them; with the directory
    itself too, unless another program keeps something there."""
    entries = {path.name for path in root.iterdir()}
    if entries <= names:
        _tighten(root)
    for name in entries & names:
        for path in _below(root / name):
            _tighten(path)


def _below(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        for directory, directories, files in os.walk(path):
            yield from (Path(directory, name) for name in (*directories, *files))


def _tighten(path: Path) -> None:
    """Symbolic links lead to what may not be ours."""
    try:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OTHERS and not path.is_symlink():
            path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        pass  # it went meanwhile
    except OSError as error:
        _log.warning("others may read %s, and it cannot be changed: %s", path, error.strerror)
