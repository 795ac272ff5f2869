"""Makes files and directories durable: at once, or later, by whoever collects what is to be synced.

A disk takes milliseconds for each. Who saves many files collects them, and lets another thread wait for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path


class PendingSyncs:
    """Paths that are durable once `wait` has returned, each asked for once, in the order they came."""

    def __init__(self) -> None:
        self._paths: dict[Path, None] = {}

    def add(self, path: Path) -> None:
        self._paths.pop(path, None)  # a directory is synced after the files in it
        self._paths[path] = None

    def wait(self) -> None:
        for path in self._paths:
            sync_now(path)
        self._paths.clear()


_pending: ContextVar[PendingSyncs | None] = ContextVar("pending", default=None)


def sync(path: Path) -> None:
    """Now; or, inside `pending_syncs`, when these are waited for."""
    pending = _pending.get()
    if pending is None:
        sync_now(path)
    else:
        pending.add(path)


def sync_now(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def pending_syncs() -> Iterator[PendingSyncs]:
    """What this thread syncs inside is collected."""
    pending = PendingSyncs()
    token = _pending.set(pending)
    try:
        yield pending
    finally:
        _pending.reset(token)
