"""Temporary directories of a process. They go with it; where it was killed, the next Headwater removes them.

Each has a lock that its process holds for as long as it lives, so that one in use is never taken for one left behind.
What another program made in the same place is never touched.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from headwater.fs.permissions import FILE

_PREFIX = "headwater-"
_LOCK = ".owner"
_held: dict[Path, tuple[int, int]] = {}  # the lock, and the process that made it: not one forked from it


def make_scratch(purpose: str) -> Path:
    """A new directory for this process alone; what killed ones left is removed on the way."""
    remove_left_over()
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-"))
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, str(os.getpid()).encode())  # only now it may be taken for one that was left behind
    _held[path] = lock, os.getpid()
    return path


def remove_scratch(path: Path) -> None:
    """Twice is once."""
    lock, owner = _held.pop(path, (-1, -1))
    if owner == os.getpid():
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_left_over() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if path not in _held:
            with contextlib.suppress(OSError):
                _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        return
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)  # one without it is not ours
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_size:
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


@atexit.register
def _remove_all() -> None:
    for path in list(_held):
        remove_scratch(path)
