"""The embedded log as its users see it, against a list."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log import local_tail
from headwater.log import writer as writer_module
from headwater.log.interface import LogReader, LogWriter
from headwater.log.record import Kind, Piece, Record
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.log.segment_file import list_segments, segment_path
from headwater.model.errors import LimitExceeded, LogError
from headwater.model.limits import Limits
from tests.support.fuzz import MULTIPLIER as FUZZ

SMALL = Limits(segment_bytes_max=200, record_bytes_max=1000)

items = st.tuples(st.sampled_from(Kind), st.binary(max_size=60))
steps = st.one_of(
    st.tuples(st.just("append"), items),
    st.tuples(st.just("append_many"), st.lists(items, max_size=5)),
    st.tuples(st.just("reopen"), st.booleans()),
    st.tuples(st.just("truncate"), st.floats(0, 1.2)),
    st.tuples(st.just("read"), st.integers(1, 5)),
    st.tuples(st.just("seek"), st.floats(0, 1.2)),
    st.tuples(st.just("wait"), st.none()),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("end_segment"), st.integers(0, 200)),
    st.tuples(st.just("append_later"), st.lists(items, max_size=3)),
)


class Pair:
    """A log and the list it should be, taken through the same steps. `kept` is the least offset that must be there,
    `later` what comes with the next append."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records: list[Record] = []
        self.kept = 1
        self.later: list[tuple[Kind, bytes]] = []
        self.writer = SegmentWriter(directory, limits=SMALL)
        self.reader = SegmentReader(directory)

    def append(self, item: tuple[Kind, bytes]) -> None:
        self._expect([item], [self.writer.append(*item)])

    def append_many(self, batch: list[tuple[Kind, bytes]]) -> None:
        self._expect(batch, self.writer.append_many(batch))

    def append_later(self, batch: list[tuple[Kind, bytes]]) -> None:
        first = len(self.records) + len(self.later) + 1
        assert self.writer.append_later(batch) == list(range(first, first + len(batch)))
        self.later += batch

    def _expect(self, batch: list[tuple[Kind, bytes]], offsets: list[int]) -> None:
        if not batch:
            assert not offsets
            return
        before, self.later = self.later, []
        first = len(self.records) + len(before) + 1
        assert offsets == list(range(first, first + len(batch)))
        places = enumerate([*before, *batch], len(self.records) + 1)
        self.records += [Record(offset, kind, payload) for offset, (kind, payload) in places]

    def reopen(self, durable: bool) -> None:
        self.later = []
        self.writer.close()
        self.writer = SegmentWriter(self.directory, limits=SMALL, durable=durable)

    def truncate(self, share: float) -> None:
        before = int(share * len(self.records)) + 1
        self.writer.truncate(before)
        self.kept = max(self.kept, min(before, len(self.records)))

    def read(self, count: int) -> None:
        offset = self.reader.offset
        try:
            assert self.reader.poll(max_records=count) == self.records[offset - 1 : offset - 1 + count]
        except LogError as error:
            assert "truncated" in str(error) and offset < self.writer.first_offset
            self.reader.seek(0)

    def seek(self, share: float) -> None:
        self.reader.seek(int(share * len(self.records)) + 1)

    def wait(self, _: None) -> None:
        """From here on what is appended is handed over in memory."""
        assert self.reader.wait(0) == (self.reader.offset <= len(self.records))

    def sync(self, _: None) -> None:
        self.writer.sync()

    def end_segment(self, bytes_min: int) -> None:
        self.writer.end_segment(bytes_min)

    def check(self) -> None:
        first = self.writer.first_offset
        assert first <= self.kept
        assert self.writer.next_offset == len(self.records) + 1
        assert self.writer.last() == self.reader.tail() == (self.records[-1] if self.records else None)
        with SegmentReader(self.directory) as reader:
            assert reader.offset == first
            found = [record for _ in self.records for record in reader.poll(max_records=3)]
        assert found == self.records[first - 1 :]

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


@settings(max_examples=60 * FUZZ, deadline=None, derandomize=True)
@given(st.lists(steps, max_size=25))
def test_the_log_is_a_list(steps: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        pair = Pair(Path(directory) / "log")
        for name, argument in steps:
            getattr(pair, name)(argument)
            pair.check()
        pair.close()


@settings(max_examples=60 * FUZZ, deadline=None, derandomize=True)
@given(st.lists(steps, max_size=40), st.sampled_from([0, 100, 1 << 20]))
def test_a_log_that_is_handed_over_in_memory_is_the_same_list(steps: list[tuple[str, object]], unread: int) -> None:
    """Also where the reader falls behind, and reads files again."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_tail, "_UNREAD_BYTES_MAX", unread)
        pair = Pair(Path(directory) / "log")
        pair.wait(None)
        for name, argument in steps:
            getattr(pair, name)(argument)
        while pair.reader.offset <= len(pair.records):
            pair.read(3)
        pair.close()


def test_what_is_handed_over_is_not_read_from_a_file(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path) as writer, SegmentReader(tmp_path) as reader:
        assert not reader.wait(0) and not reader.poll()
        looks = reader.looks
        for number in range(5):
            writer.append_many([(Kind.TICK, b"%d" % number), (Kind.FRAME, [b"a", b"b"])])
            assert reader.wait(1.0)
            assert [record.payload for record in reader.poll()] == [b"%d" % number, b"ab"]
        assert reader.looks == looks


def test_a_reader_that_waited_for_the_log_is_handed_what_its_writer_appends(tmp_path: Path) -> None:
    with SegmentReader(tmp_path / "log") as reader:
        assert not reader.wait(0)
        with SegmentWriter(tmp_path / "log") as writer:
            assert not reader.wait(0) and not reader.poll()
            looks = reader.looks
            writer.append(Kind.TICK, b"1")
            assert reader.wait(1.0) and [record.payload for record in reader.poll()] == [b"1"]
            assert reader.looks == looks


def test_it_is_what_the_interface_says(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path) as writer, SegmentReader(tmp_path) as reader:
        as_writer: LogWriter = writer
        as_reader: LogReader = reader
        as_writer.append(Kind.TICK, b"1")
        assert as_reader.poll() == [Record(1, Kind.TICK, b"1")]


def test_nothing_is_readable_before_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Record]] = []
    with SegmentWriter(tmp_path) as writer, SegmentReader(tmp_path) as reader:
        monkeypatch.setattr(writer_module, "fdatasync", lambda file: seen.append(reader.poll()))
        writer.append(Kind.TICK, b"1")
        assert seen == [[]]
        assert [record.offset for record in reader.poll()] == [1]


def test_a_batch_is_one_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(writer_module, "fdatasync", synced.append)
    with SegmentWriter(tmp_path) as writer:
        assert writer.append_many([(Kind.TICK, b"1")] * 100) == list(range(1, 101))
        assert len(synced) == 1
        writer.sync()
        assert len(synced) == 1


def test_without_durability_only_sync_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(writer_module, "fdatasync", synced.append)
    with SegmentWriter(tmp_path, durable=False) as writer, SegmentReader(tmp_path) as reader:
        writer.append(Kind.TICK, b"1")
        assert len(reader.poll()) == 1 and not synced
        writer.sync()
        assert len(synced) == 1


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _half(file: int, pieces: Iterable[bytes], at: int) -> None:
    data = b"".join(pieces)
    os.pwrite(file, data[: len(data) // 2], at)
    _full()


def _whole(file: int, pieces: Iterable[bytes], at: int) -> None:
    os.pwrite(file, b"".join(pieces), at)
    _full()


def _begun(directory: Path, base: int) -> None:
    segment_path(directory, base).write_bytes(b"HW")
    _full()


FAULTS = [("write_all", _half), ("write_all", _whole), ("write_all", _full), ("fdatasync", _full)]
FAULTS += [("create_segment", _begun), ("create_segment", _full)]


@given(st.lists(st.sampled_from([None, None, *FAULTS]), max_size=30))
@settings(max_examples=60 * FUZZ, deadline=None, derandomize=True)
def test_after_a_failed_write_the_log_holds_what_was_acknowledged_and_goes_on(
    faults: list[tuple[str, Callable[..., None]] | None],
) -> None:
    """Whichever step fails, in a new segment or an old one: no trace of it is left, and the next write succeeds."""
    promised: list[bytes] = []
    with tempfile.TemporaryDirectory() as scratch, SegmentWriter(Path(scratch), limits=SMALL) as writer:
        directory = Path(scratch)
        for number, fault in enumerate(faults):
            payload = b"x" * (150 - number)  # two fill a segment
            with pytest.MonkeyPatch.context() as patch:
                if fault is not None:
                    patch.setattr(writer_module, *fault)
                with contextlib.suppress(LogError):
                    assert writer.append(Kind.TICK, payload) == len(promised) + 1
                    promised.append(payload)
        with SegmentReader(directory) as reader:
            assert _payloads(reader) == promised
        assert writer.append(Kind.TICK, b"last") == len(promised) + 1
        writer.close()
        with SegmentWriter(directory), SegmentReader(directory) as reader:
            assert _payloads(reader) == [*promised, b"last"]


def _payloads(reader: SegmentReader) -> list[bytes]:
    found: list[bytes] = []
    while records := reader.poll():
        found += [record.payload for record in records]
    return found


def test_a_writer_that_may_have_lost_what_it_promised_writes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SegmentWriter(tmp_path, durable=False) as writer:
        writer.append(Kind.TICK, b"1")
        with monkeypatch.context() as patch:
            patch.setattr(writer_module, "fdatasync", _full)
            with pytest.raises(LogError, match="No space left"):
                writer.sync()
        with pytest.raises(LogError, match="open the log again"):
            writer.append(Kind.TICK, b"2")


def test_a_record_over_the_limit_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, limits=SMALL) as writer:
        with pytest.raises(LimitExceeded, match="record_bytes_max"):
            writer.append(Kind.TICK, [b"x" * 500, b"x" * 500])
        assert writer.append(Kind.TICK, b"x" * 900) == 1


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(LogError, match="closed"):
        writer.append(Kind.TICK, b"")


def test_truncation_drops_whole_segments_and_keeps_the_last_record(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, limits=SMALL) as writer:
        writer.append_many([(Kind.TICK, b"x" * 100)])
        for _ in range(9):
            writer.append(Kind.TICK, b"x" * 100)
        assert len(list_segments(tmp_path)) == 10
        writer.truncate(before=4)
        assert writer.first_offset == 4
        writer.truncate(before=1000)
        assert writer.first_offset == 10 and writer.last() is not None


def test_reading_what_was_truncated_says_so(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, limits=SMALL) as writer, SegmentReader(tmp_path, 2) as reader:
        for _ in range(9):
            writer.append(Kind.TICK, b"x" * 100)
        writer.truncate(before=5)
        with pytest.raises(LogError, match="expected offset 2, but the log was truncated and begins at 5"):
            reader.poll()
        reader.seek(0)
        assert reader.offset == 5 and reader.poll()[0].offset == 5


def test_poll_gives_at_least_one_record_and_keeps_to_its_bounds(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path) as writer, SegmentReader(tmp_path) as reader:
        writer.append_many([(Kind.FRAME, b"x" * 400_000), *[(Kind.TICK, b"x" * 100)] * 9])
        assert [record.offset for record in reader.poll(max_bytes=1)] == [1]
        assert [record.offset for record in reader.poll(max_bytes=250)] == [2, 3, 4]
        assert [record.offset for record in reader.poll(max_records=2)] == [5, 6]
        assert [record.offset for record in reader.poll()] == [7, 8, 9, 10]
        assert reader.poll() == []


def test_a_reader_may_be_ahead_of_the_log(tmp_path: Path) -> None:
    with SegmentReader(tmp_path / "later", 3) as reader:
        assert reader.poll() == [] and reader.tail() is None and not reader.wait(0)
        with SegmentWriter(tmp_path / "later") as writer:
            writer.append_many([(Kind.TICK, b"")] * 2)
            assert reader.poll() == [] and not reader.wait(0)
            writer.append(Kind.TICK, b"3")
            assert reader.wait(0) and [record.payload for record in reader.poll()] == [b"3"]


def test_pieces_of_any_size_are_one_payload(tmp_path: Path) -> None:
    """Large ones are not copied together with their neighbours; nobody can tell."""
    pieces: list[Piece] = [b"a", b"", b"b" * 100_000, memoryview(b"c" * 70_000), b"d" * 9, b"e" * 100_000]
    with SegmentWriter(tmp_path) as writer, SegmentReader(tmp_path) as reader:
        writer.append_many([(Kind.TICK, b"before"), (Kind.FRAME, pieces), (Kind.TICK, b"behind")])
        assert _payloads(reader) == [b"before", b"".join(pieces), b"behind"]


def test_what_is_appended_later_survives_a_write_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with SegmentWriter(tmp_path) as writer:
        assert writer.append_later([(Kind.TICK, b"first")]) == [1]
        with monkeypatch.context() as patched:
            patched.setattr(writer_module, "fdatasync", fails)
            with pytest.raises(LogError):
                writer.append(Kind.TICK, b"lost")
        assert writer.append(Kind.TICK, b"second") == 2
    with SegmentReader(tmp_path) as reader:
        assert [record.payload for record in reader.poll()] == [b"first", b"second"]


def test_a_segment_that_was_ended_can_go(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path) as writer:
        writer.append_many([(Kind.TICK, bytes(100))] * 3)
        writer.end_segment(1_000)
        writer.append(Kind.TICK, b"")
        assert list_segments(tmp_path) == [1]
        writer.end_segment(100)
        writer.truncate(5)
        writer.append(Kind.TICK, b"")
        assert list_segments(tmp_path) == [1, 5]
        writer.truncate(5)
        assert list_segments(tmp_path) == [5]
