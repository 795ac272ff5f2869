"""Who may write to a log: one process for as long as it lives, or the newest of several generations.

Two files. `lock` is flocked while someone writes, and names that process; the kernel lets go of it when the process
dies. `generation` counts the openings of the log, with a checksum. Neither is ever deleted: a lock on a deleted file
excludes no process.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from headwater.fs.permissions import FILE
from headwater.model.errors import Corrupt, Fenced, LogError

_DIGITS = 20
_EXCLUSIVE_WAIT_S = 1.0  # a process that was killed may take a moment to end
_FENCED_WAIT_S = 5.0
_PAUSE_S = 0.001
_log = logging.getLogger("headwater.log")


class Claim(Protocol):
    generation: int

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Inside it no other process writes. Raises `Fenced` where the right is gone for good."""

    @property
    def in_power(self) -> bool:
        """False where the right is gone for good."""

    def close(self) -> None: ...


class Exclusive:
    """Holds the lock for life: a second writer is refused."""

    def __init__(self, directory: Path) -> None:
        self._lock = _Lock(directory / "lock")
        try:
            self._lock.take(_EXCLUSIVE_WAIT_S)
            with contextlib.closing(_Generation(directory / "generation")) as newest:
                self.generation = newest.advance()
        except BaseException:
            self.close()
            raise

    def held(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    @property
    def in_power(self) -> bool:
        return True

    def close(self) -> None:
        self._lock.close()


class Fencing:
    """Takes the lock only to write, and then looks whether a newer generation has come.

    The newcomer counts up before it asks for the lock: the writer at work finishes, and no older one begins. An older
    writer that is stopped in the middle keeps the lock, so the newcomer is refused rather than let in.
    """

    def __init__(self, directory: Path) -> None:
        self._lock = _Lock(directory / "lock")
        self._newest = _Generation(directory / "generation")
        try:
            self.generation = self._newest.advance()
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self._lock.take(_FENCED_WAIT_S)
        try:
            self._check()
            yield
        finally:
            self._lock.release()

    @property
    def in_power(self) -> bool:
        return self._newest.read() == self.generation

    def _check(self) -> None:
        newest = self._newest.read()
        if newest != self.generation:
            raise Fenced(
                f"{self._lock.path.parent}: this writer is of generation {self.generation}, "
                f"but one of generation {newest} has opened the log",
                hint="stop this writer; the newer one goes on from the last durable record",
            )

    def close(self) -> None:
        self._lock.close()
        self._newest.close()


def fence(directory: Path) -> None:
    """No process that has the log open writes to it any more: for a log that is about to be removed."""
    with contextlib.closing(Fencing(directory)) as claim, claim.held():
        pass


class _Lock:
    """An flock that names its holder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, FILE)
        self._named = False

    def take(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while not self._try():
            if time.monotonic() > deadline:
                raise self._refusal(wait_s)
            time.sleep(_PAUSE_S)
        if not self._named:
            os.pwrite(self._file, f"{os.getpid():<{_DIGITS}}".encode(), 0)
            self._named = True

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _refusal(self, wait_s: float) -> LogError:
        holder = os.pread(self._file, _DIGITS, 0).decode(errors="replace").strip() or "unknown"
        return LogError(
            f"{self.path.parent}: expected to be the only writer, but process {holder} holds the log "
            f"and did not let go within {wait_s} s",
            hint=f"use the log through process {holder}, or end it and try again",
        )

    def release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _Generation:
    """A durable counter, shared by processes. One that is damaged goes on from the clock, in seconds: that is more than
    a log is ever opened, and fits a record."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, FILE)

    def read(self) -> int:
        text = os.pread(self._file, len(_counted(0)) + 1, 0)
        if not text:
            return 0
        digits = text[:_DIGITS]
        if not digits.isdigit() or text != _counted(int(digits)):
            raise Corrupt(
                f"{self._path}: expected a number of {_DIGITS} digits and its checksum, found {text!r}",
                hint="end every writer of this log: the next one to open it writes a higher number than any before",
            )
        return int(digits)

    def advance(self) -> int:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            generation = self._next()
            os.pwrite(self._file, _counted(generation), 0)
            os.ftruncate(self._file, len(_counted(generation)))
            os.fsync(self._file)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return generation

    def _next(self) -> int:
        try:
            return self.read() + 1
        except Corrupt as error:
            _log.error("the count of openings restarts: %s", error.message)
            return int(time.time())

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _counted(generation: int) -> bytes:
    digits = f"{generation:0{_DIGITS}d}".encode()
    return digits + f" {zlib.crc32(digits):08x}".encode()
