"""The writer of a segment-file log: checksums, group fsync, segments, and the head that lets readers in.

Never lets a reader see what is not durable (unless opened so). What a failed write left on the disk is unknown: it was
never acknowledged, and is cut before the next one. Where something promised may be lost with it, the writer never goes
on, and the next opening finds out.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.fs.permissions import make_directory, open_to_write
from headwater.fs.sync import sync_now
from headwater.log import head_file as head_file
from headwater.log.group_commit import GroupCommit
from headwater.log.head_file import Head
from headwater.log.local_tail import Handed, LocalTail, close_tail, open_tail
from headwater.log.ownership import Claim, Exclusive, Fencing
from headwater.log.reader import read_last
from headwater.log.record import FIRST_OFFSET, HEADER_BYTES, Kind, Payload, Piece, Record, pack
from headwater.log.recovery import cut_back, recover
from headwater.log.segment_file import (
    BEGIN,
    create_segment,
    fdatasync,
    list_segments,
    segment_path,
    write_all,
)
from headwater.model.errors import LimitExceeded, LogError
from headwater.model.limits import DEFAULT, Limits

Item = tuple[Kind, Payload]


class SegmentWriter:
    """A `LogWriter` over a directory, which is made where there is none. Refused while another writer lives.

    With `durable=False` records are readable at once and durable after `sync`: after a power cut the log may end
    anywhere past the last `sync`, always at a whole record.
    """

    def __init__(
        self,
        directory: Path,
        *,
        limits: Limits = DEFAULT,
        durable: bool = True,
        claim: Callable[[Path], Claim] = Exclusive,
    ) -> None:
        make_directory(directory)
        self._directory = directory
        self._limits = limits
        self._durable = durable
        self._lock = threading.Lock()
        self._group: GroupCommit[list[Item], list[int]] = GroupCommit(self._commit, self._lock)
        self._failure: BaseException | None = None
        self._segment = self._head_file = -1
        self._is_full = False  # the next record begins a new segment
        self._later: list[Item] = []
        self._tail: LocalTail | None = None
        self._head = Head(FIRST_OFFSET, FIRST_OFFSET, BEGIN, 0, BEGIN)
        self._claim = claim(directory)
        try:
            self._open()
        except BaseException:
            self._release()
            raise

    @classmethod
    def fenced(cls, directory: Path, *, limits: Limits = DEFAULT, durable: bool = True) -> Self:
        """A writer that takes over: writers that opened the log before get `Fenced` at their next call."""
        return cls(directory, limits=limits, durable=durable, claim=Fencing)

    @property
    def generation(self) -> int:
        """Which opening of this log this is; on disk with every record."""
        return self._claim.generation

    @property
    def next_offset(self) -> int:
        return self._head.next_offset

    @property
    def first_offset(self) -> int:
        return list_segments(self._directory)[0]

    def append(self, kind: Kind, payload: Payload) -> int:
        return self.append_many([(kind, payload)])[0]

    def append_many(self, items: Iterable[Item]) -> list[int]:
        batch = self._checked(items)
        return self._group(batch) if batch else []

    def append_later(self, items: Iterable[Item]) -> list[int]:
        batch = self._checked(items)
        with self._lock:
            first = self._head.next_offset + len(self._later)
            self._later += batch
            return list(range(first, first + len(batch)))

    def sync(self) -> None:
        """Most of it before the lock is taken: who appends meanwhile does not wait for the disk."""
        before = self._synced_outside()
        with self._lock, self._writing():
            if self._head.synced < self._head.length:
                if (self._head.segment, self._head.length) != before:
                    fdatasync(self._segment)
                self._publish(replace(self._head, synced=self._head.length))

    def _synced_outside(self) -> tuple[int, int] | None:
        """The segment, and its length that is durable now; None where all of it was, or the writer is closed."""
        with self._lock:
            if self._segment < 0 or self._head.synced >= self._head.length:
                return None
            head, file = self._head, os.dup(self._segment)
        try:
            fdatasync(file)
        except OSError:
            with self._lock, self._writing():
                raise  # as if it had failed inside: what was promised may be lost
        finally:
            os.close(file)
        return head.segment, head.length

    @contextlib.contextmanager
    def fence(self) -> Iterator[None]:
        """Inside it no newer writer comes to power: for files that must change together with the log."""
        with self._lock, self._writing():
            yield

    @property
    def in_power(self) -> bool:
        """False once a newer writer has opened the log."""
        return self._segment >= 0 and self._claim.in_power

    def last(self) -> Record | None:
        return read_last(self._directory, self._head)

    def newest(self, bytes_max: int) -> int:
        """The offset from which the newest segments hold about as many bytes, and no more: for `truncate`."""
        kept = self._head.length
        first = self._head.segment
        for base in reversed(list_segments(self._directory)):
            if base < self._head.segment:
                kept += segment_path(self._directory, base).stat().st_size
                if kept > bytes_max:
                    break
                first = base
        return first

    def truncate(self, before: int) -> None:
        with self._lock, self._writing():
            bases = list_segments(self._directory)
            gone = [base for base, after in pairwise(bases) if after <= before]
            for base in gone:
                segment_path(self._directory, base).unlink()
            if gone:
                sync_now(self._directory)

    def end_segment(self, bytes_min: int) -> None:
        """The next record begins a new segment, where the last one has so many bytes: it can then go by itself."""
        with self._lock:
            self._is_full = self._head.length >= bytes_min

    def close(self) -> None:
        with self._lock:
            if self._segment < 0:
                return
            try:
                if self._failure is None and self._head.synced < self._head.length:
                    os.fsync(self._segment)
            finally:
                self._failure = LogError(f"{self._directory}: this writer was closed")
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        with self._claim.held():
            found = recover(self._directory)
            self._segment = os.open(segment_path(self._directory, found.segment), os.O_WRONLY)
            self._head_file = _open_head(self._directory, found)
            self._publish(found)
            os.fsync(self._head_file)
            self._tail = open_tail(self._directory)

    def _checked(self, items: Iterable[Item]) -> list[Item]:
        batch = list(items)
        for _, payload in batch:
            self._check_size(payload)
        return batch

    def _check_size(self, payload: Payload) -> None:
        size = len(payload) if isinstance(payload, bytes) else sum(map(len, payload))
        if size + HEADER_BYTES > self._limits.record_bytes_max:
            raise LimitExceeded(
                f"a record of {size} bytes is larger than record_bytes_max = {self._limits.record_bytes_max}",
                hint="send it in parts, or raise the limit",
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._claim.held():
            try:
                self._mend()
                yield
            except OSError as failure:
                self._failure = failure
                raise LogError(
                    f"{self._directory}: the log could not be written: {failure}",
                    hint="see to the disk: it goes on from the last durable record",
                ) from failure
            except BaseException as failure:
                self._failure = self._failure or failure
                raise

    def _mend(self) -> None:
        """Goes on after a write that failed, from the last record before it."""
        failure, head = self._failure, self._head
        if failure is None:
            return
        if not isinstance(failure, OSError) or head.synced < head.length:
            raise LogError(
                f"{self._directory}: this writer can write no more: {failure}", hint="open the log again"
            ) from failure
        cut_back(self._directory, head)
        self._failure = None

    def _commit(self, batches: list[list[Item]]) -> list[list[int]]:
        """One write and one fsync for all batches. Runs with the lock held."""
        with self._writing():
            first, generation = self._head.next_offset, self._claim.generation
            items = list(enumerate(chain(self._later, *batches), first))
            records = [pack(offset, kind, generation, payload) for offset, (kind, payload) in items]
            self._write(records)
            if self._tail is not None and self._tail.is_read:
                self._tail.hand(self._handed([_record(offset, *item) for offset, item in items]))
        offsets = iter(range(first + len(self._later), self._head.next_offset))
        self._later = []
        return [[next(offsets) for _ in batch] for batch in batches]

    def _handed(self, records: Sequence[Record]) -> list[Handed]:
        """With the places of these, which are the last that were written."""
        ends = list(accumulate(HEADER_BYTES + len(record.payload) for record in records))
        begin = self._head.length - ends[-1]
        return [Handed(one, self._head.segment, begin + end) for one, end in zip(records, ends, strict=True)]

    def _write(self, records: Sequence[Sequence[Piece]]) -> None:
        sizes = [sum(map(len, record)) for record in records]
        is_full = self._is_full or self._head.length + sum(sizes) > self._limits.segment_bytes_max
        if self._head.last and is_full:
            self._rotate()
        head = self._head
        write_all(self._segment, chain.from_iterable(records), head.length)
        if self._durable:
            fdatasync(self._segment)
        end = head.length + sum(sizes)
        synced = end if self._durable else head.synced
        self._publish(Head(head.next_offset + len(records), head.segment, end, end - sizes[-1], synced))

    def _rotate(self) -> None:
        """The head goes on naming the old segment until the new one holds a record."""
        base = self._head.next_offset
        if self._head.synced < self._head.length:
            fdatasync(self._segment)
        create_segment(self._directory, base)
        begun = os.open(segment_path(self._directory, base), os.O_WRONLY)
        os.close(self._segment)
        self._segment = begun
        self._head = Head(base, base, BEGIN, 0, BEGIN)
        self._is_full = False

    def _publish(self, head: Head) -> None:
        os.pwrite(self._head_file, head.pack(), 0)
        self._head = head

    def _release(self) -> None:
        for file in (self._segment, self._head_file):
            if file >= 0:
                os.close(file)
        self._segment = self._head_file = -1
        if self._tail is not None:
            close_tail(self._directory, self._tail)
        self._claim.close()


def _record(offset: int, kind: Kind, payload: Payload) -> Record:
    return Record(offset, kind, payload if isinstance(payload, bytes) else b"".join(payload))


def _open_head(directory: Path, head: Head) -> int:
    """Made under another name first: a reader never meets an empty head."""
    path = directory / head_file.NAME
    if not path.exists():
        draft = path.with_suffix(".new")
        with open_to_write(draft) as file:
            file.write(head.pack())
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_now(directory)
    return os.open(path, os.O_WRONLY)
