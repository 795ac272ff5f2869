"""Group commit, without a disk."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.log import writer as writer_module
from headwater.log.group_commit import GroupCommit
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader, SegmentWriter


class Gate:
    """A commit that waits at its first call, until it is opened."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def commit(self, items: list[int]) -> list[int]:
        self.calls.append(items)
        self.entered.set()
        assert self.opened.wait(60)
        return [item * 10 for item in items]


def test_who_comes_during_a_commit_shares_the_next() -> None:
    gate = Gate()
    group: GroupCommit[int, int] = GroupCommit(gate.commit, threading.Lock())
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(group, 1)
        assert gate.entered.wait(60)
        others = [pool.submit(group, item) for item in range(2, 10)]
        while len(group._waiting) < 8:
            pass
        gate.opened.set()
        assert [future.result() for future in (first, *others)] == [item * 10 for item in range(1, 10)]
    assert gate.calls[0] == [1]
    assert sorted(gate.calls[1]) == list(range(2, 10)) and len(gate.calls) == 2


def test_an_error_is_everyones_error_and_the_next_commit_is_new() -> None:
    def commit(items: list[int]) -> list[int]:
        if 0 in items:
            raise ZeroDivisionError
        return items

    group: GroupCommit[int, int] = GroupCommit(commit, threading.Lock())
    with pytest.raises(ZeroDivisionError):
        group(0)
    assert group(1) == 1


def test_appends_of_many_threads_share_fsyncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    monkeypatch.setattr(writer_module, "fdatasync", lambda file: gate.commit([file]))
    with SegmentWriter(tmp_path) as writer, ThreadPoolExecutor(9) as pool:
        offsets = [pool.submit(writer.append, Kind.TICK, b"0")]
        assert gate.entered.wait(60)
        offsets += [pool.submit(writer.append, Kind.TICK, b"%d" % n) for n in range(1, 9)]
        while len(writer._group._waiting) < 8:
            pass
        gate.opened.set()
        assert sorted(future.result() for future in offsets) == list(range(1, 10))
        assert len(gate.calls) == 2
        with SegmentReader(tmp_path) as reader:
            payloads = {record.offset: record.payload for record in reader.poll()}
        assert all(payloads[future.result()] == b"%d" % n for n, future in enumerate(offsets))
