"""Wakes a waiter when a file changes: inotify where there is one, a backing-off look at the file elsewhere.

A ring says "look again", never what happened; a ring too many is allowed, a change without a ring is not. Never reads
the contents of what it watches, and never notices writes through a memory map: those ring nowhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import select
import struct
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _MASK_ADD = 0x400, 0x800, 0x2000_0000
_NAMES = _CREATE | _MOVED_TO | _MOVED_FROM | _DELETE | _DELETE_SELF | _MOVE_SELF | _MASK_ADD
_CONTENTS = _NAMES | _MODIFY
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_READ_BYTES = 64 << 10

_SAFETY_S = 0.5  # beneath inotify: some filesystems report only what their own machine wrote
_POLL_MIN_S, _POLL_MAX_S = 0.0005, 0.05
_TICK_NS = 20_000_000  # two writes closer than a clock tick leave one mtime

Look = tuple[tuple[int, int, int], ...]


class Doorbell:
    """Rings when one of `paths` is written, created, replaced or removed; in a directory, when anything in it is.

    A path need not exist yet, nor the directories above it. Used by one thread at a time.
    """

    def __init__(self, *paths: Path) -> None:
        self._paths = tuple(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100  (symlinks stay as named)
        self._inotify = _Inotify.open(self._paths)
        self._seen: Look | None = self._look()

    def wait(self, timeout_s: float) -> bool:
        """True as soon as it rings; what rang before and was not waited for counts. All pending rings become one."""
        return self._wait_inotify(timeout_s) if self._inotify else self._wait_polling(timeout_s)

    def fileno(self) -> int:
        """Readable when it rings: for `select` and event loops. Then `wait(0)` silences it."""
        if self._inotify is None:
            raise io.UnsupportedOperation("this doorbell has no file descriptor: inotify is not available; use wait()")
        return self._inotify.fd

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _wait_inotify(self, timeout_s: float) -> bool:
        assert self._inotify is not None
        for left_s in _until(timeout_s):
            if self._inotify.poll(min(left_s, _SAFETY_S)):
                if self._inotify.drain():
                    self._seen = None  # a look now would cost more than one ring too many later
                    return True
            elif left_s > 0 and self._changed():
                return True
        return False

    def _wait_polling(self, timeout_s: float) -> bool:
        pause_s = _POLL_MIN_S
        for left_s in _until(timeout_s):
            time.sleep(min(left_s, pause_s))
            unsure = self._seen is None
            if self._changed() or unsure:
                return True
            pause_s = min(pause_s * 1.5, _POLL_MAX_S)
        return False

    def _changed(self) -> bool:
        """Whether the files look otherwise than when this was last asked."""
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> Look | None:
        """What the files look like from outside; None while one more write could leave them looking the same."""
        found = tuple(stats for path in self._paths for stats in _stats(path))
        if self._inotify is not None:
            return found
        now_ns = time.time_ns()
        return None if any(abs(now_ns - modified_ns) < _TICK_NS for _, _, modified_ns in found) else found


class _Inotify:
    """One inotify instance with a watch on every path, and on the directory above it, where replacements appear."""

    def __init__(self, libc: Any, fd: int, paths: tuple[Path, ...]) -> None:
        self.fd = fd
        self._libc = libc
        self._paths = paths
        self._poller = select.poll()
        self._poller.register(fd, select.POLLIN)
        self._targets: set[int] = set()
        self._names: dict[int, set[bytes]] = {}
        self._arm()

    @classmethod
    def open(cls, paths: tuple[Path, ...]) -> _Inotify | None:
        """None where the system has no inotify, or has no more of it to give."""
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None, use_errno=True)
            fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if fd >= 0:
                return cls._armed(libc, fd, paths)
        return None

    @classmethod
    def _armed(cls, libc: Any, fd: int, paths: tuple[Path, ...]) -> _Inotify:
        try:
            return cls(libc, fd, paths)
        except OSError:
            os.close(fd)
            raise

    def poll(self, timeout_s: float) -> bool:
        return bool(self._poller.poll(timeout_s * 1000))

    def drain(self) -> bool:
        """Takes all pending events. True if one of them concerns a path."""
        rung = renamed = False
        with contextlib.suppress(BlockingIOError):
            while events := os.read(self.fd, _READ_BYTES):
                for watch, mask, name in _events(events):
                    rung |= watch in self._targets or watch < 0 or name in self._names.get(watch, ())
                    renamed |= mask != _MODIFY
        if renamed:
            with contextlib.suppress(OSError):  # no watches left: the look beneath goes on
                self._arm()
        return rung

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _arm(self) -> None:
        """Watches what is there by now. A watch that is still there is kept, so that no event falls in between."""
        targets: set[int] = set()
        names: dict[int, set[bytes]] = {}
        for path in self._paths:
            self._watch_above(path, names)
            if (watch := self._watch(path, _CONTENTS)) is not None:
                targets.add(watch)
        self._targets, self._names = targets, names

    def _watch_above(self, path: Path, names: dict[int, set[bytes]]) -> None:
        """Watches the nearest directory above, for the name that leads to `path`; then any that appeared meanwhile."""
        way = [*reversed(path.parents), path]
        nearest = len(way) - 1
        while nearest > 0 and self._watch(way[nearest - 1], _NAMES) is None:
            nearest -= 1
        for directory, below in pairwise(way[max(nearest - 1, 0) :]):
            if (watch := self._watch(directory, _NAMES)) is None:
                return
            names.setdefault(watch, set()).add(os.fsencode(below.name))

    def _watch(self, path: Path, mask: int) -> int | None:
        watch: int = self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask)
        if watch >= 0:
            return watch
        code = ctypes.get_errno()
        if code in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return None
        raise OSError(code, os.strerror(code), str(path))


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield watch, mask, data[at : at + length].rstrip(b"\0")
        at += length


def _until(timeout_s: float) -> Iterator[float]:
    """The seconds left, again and again; 0 the last time, which is also the first where there is no time."""
    deadline = time.monotonic() + timeout_s
    while (left_s := deadline - time.monotonic()) > 0:
        yield left_s
    yield 0.0


def _stats(path: Path) -> list[tuple[int, int, int]]:
    """Inode, size and time of the file, or of the directory and all in it; nothing where there is nothing."""
    try:
        with os.scandir(path) as entries:
            found = [path.stat(), *(entry.stat(follow_symlinks=False) for entry in entries)]
    except NotADirectoryError:
        found = _stat(path)
    except OSError:
        found = []
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]


def _stat(path: Path) -> list[os.stat_result]:
    try:
        return [path.stat()]
    except OSError:
        return []
