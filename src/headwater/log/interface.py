"""The log as the rest of the system sees it. The embedded log implements it with files; a networked one may too.

The comments are the contract: an implementation of these classes keeps all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headwater.log.record import Kind, Payload, Record


class LogWriter(Protocol):
    """The sequencer of one log. At most one writer is in power at a time: a second one is refused (`LogError`),
    or it takes over, and from then on every call of the older one raises `Fenced` and leaves no trace.

    All methods may be called from several threads.
    """

    @property
    def first_offset(self) -> int:
        """The offset of the oldest record kept; `next_offset` while there is none."""

    @property
    def next_offset(self) -> int:
        """One past the offset of the last record readers may see. Offsets begin at 1 and have no gaps."""

    def append(self, kind: Kind, payload: Payload) -> int:
        """The record's offset, once it is durable and readable: not before. (A log opened as not durable returns once
        it is readable.) An error means that it is neither; unless the writer ends with it, for then the next one to
        open the log decides. After a `LogError` it may be tried again: a disk that was full goes on when there is
        room. A record over `record_bytes_max` raises `LimitExceeded`.
        """

    def append_many(self, items: Iterable[tuple[Kind, Payload]]) -> list[int]:
        """As `append`, for records that follow each other with none between; they become readable together."""

    def append_later(self, items: Iterable[tuple[Kind, Payload]]) -> list[int]:
        """The offsets that these records will have: they become readable with the next record that is appended, just
        before it, and durable with it. Where none is, they are lost with the writer.
        """

    def sync(self) -> None:
        """Everything appended so far is durable when this returns."""

    def last(self) -> Record | None:
        """The last record readers may see; None while there was never one."""

    def truncate(self, before: int) -> None:
        """Allows the records before this offset to go. Some may stay; the last record always does."""

    def close(self) -> None:
        """Gives up the log, with everything appended made durable. Twice is once."""


class LogReader(Protocol):
    """Reads one log in order, in any process. It sees a record only once it is durable, and never sees two different
    records at one offset. A damaged record raises `Corrupt`, again and again, until `skip` passes it over.

    Used by one thread at a time. The log need not exist yet.
    """

    @property
    def offset(self) -> int:
        """The offset of the record that `poll` gives next."""

    def seek(self, offset: int) -> None:
        """Goes on from `offset`; 0 is the oldest record kept. One past the end is waited for."""

    def poll(self, max_records: int = ..., max_bytes: int = ...) -> list[Record]:
        """What is there now, at least one record if there is any, else nothing. Never blocks.
        An offset that was truncated raises `LogError`.
        """

    def skip(self) -> None:
        """After `poll` raised: goes on from the next record that reads. For logs that can spare one, for no others."""

    def wait(self, timeout_s: float) -> bool:
        """True as soon as `poll` has something to give; False when the time is over. Sleeps meanwhile."""

    def tail(self) -> Record | None:
        """The last readable record, wherever this reader stands; None while there was never one."""

    def close(self) -> None: ...
