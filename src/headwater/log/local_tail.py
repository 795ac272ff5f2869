"""Hands what a writer has just appended to readers in the same process, which read no file for it.

The log on disk stays the truth: these are the bytes that were written to it. A reader that falls behind reads files
again; one that hears nothing looks at them, so a ring that was lost costs time and never a record.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from headwater.log.record import Record

_UNREAD_BYTES_MAX = 4 << 20  # of one reader; then it reads files


class Handed(NamedTuple):
    """A record, and where it stands: the segment's first offset, and the byte after it."""

    record: Record
    segment: int
    end: int


class Mailbox:
    """What one reader has not taken yet. One thread puts, another one takes."""

    __slots__ = ("_put", "_queue", "_taken", "is_broken")

    def __init__(self) -> None:
        self._queue: SimpleQueue[Sequence[Handed]] = SimpleQueue()
        self._put = self._taken = 0  # bytes; each is written by one thread
        self.is_broken = False  # something is missing from here on

    def put(self, handed: Sequence[Handed], size: int) -> None:
        if self._put - self._taken > _UNREAD_BYTES_MAX:
            self.end()
        elif not self.is_broken:
            self._put += size
            self._queue.put(handed)

    def end(self) -> None:
        self.is_broken = True
        self._queue.put(())

    def take(self, timeout_s: float = 0.0) -> Sequence[Handed] | None:
        """The next ones; None where nothing comes in time, nothing where it ended."""
        try:
            handed = self._queue.get(timeout_s > 0, timeout_s)
        except Empty:
            return None
        self._taken += sum(len(one.record.payload) for one in handed)
        return handed


class LocalTail:
    """The mailboxes of one log, whose writer is in this process."""

    def __init__(self) -> None:
        self._mailboxes: list[Mailbox] = []

    @property
    def is_read(self) -> bool:
        return bool(self._mailboxes)

    def hand(self, handed: Sequence[Handed]) -> None:
        size = sum(len(one.record.payload) for one in handed)
        for mailbox in self._mailboxes:
            mailbox.put(handed, size)
        if any(mailbox.is_broken for mailbox in self._mailboxes):
            with _lock:
                self._mailboxes = [one for one in self._mailboxes if not one.is_broken]

    def attach(self, mailbox: Mailbox) -> None:
        self._mailboxes = [*self._mailboxes, mailbox]

    def end(self) -> None:
        for mailbox in self._mailboxes:
            mailbox.end()


_lock = threading.Lock()
_tails: dict[str, LocalTail] = {}


def open_tail(directory: Path) -> LocalTail:
    """That of a new writer. Readers of one before it read files until they wait the next time."""
    tail = LocalTail()
    with _lock:
        before, _tails[tail_name(directory)] = _tails.get(tail_name(directory)), tail
    if before is not None:
        before.end()
    return tail


def close_tail(directory: Path, tail: LocalTail) -> None:
    with _lock:
        if _tails.get(tail_name(directory)) is tail:
            del _tails[tail_name(directory)]
    tail.end()


def attach(name: str) -> Mailbox | None:
    """A mailbox for what is appended from now on; None where the writer is not in this process."""
    with _lock:
        tail = _tails.get(name)
        if tail is None:
            return None
        mailbox = Mailbox()
        tail.attach(mailbox)
        return mailbox


def tail_name(directory: Path) -> str:
    """By which readers and writers of one log find each other."""
    return os.path.realpath(directory)
