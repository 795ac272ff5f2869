"""What a crash leaves is cut; what a disk breaks is named. The difference is what was promised to be durable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from headwater.log import head_file as head_module
from headwater.log.head_file import Head, read_head
from headwater.log.record import Kind, Record
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.log.segment_file import BEGIN, create_segment, list_segments, segment_path
from headwater.model.errors import Corrupt
from headwater.model.limits import Limits

FIRST = "00000000000000000001.segment"
SMALL = Limits(segment_bytes_max=100)


def fill(directory: Path, count: int, limits: Limits | None = None) -> None:
    with SegmentWriter(directory, limits=limits or Limits()) as writer:
        for n in range(writer.next_offset, writer.next_offset + count):
            writer.append(Kind.TICK, b"record %d" % n)


def payloads(directory: Path) -> list[bytes]:
    with SegmentReader(directory) as reader:
        return [record.payload for record in reader.poll()]


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The data with each of its bits turned over, one at a time."""
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(changed)


def torn(tmp_path: Path) -> tuple[Path, bytes, bytes]:
    """A log of two records; the bytes of its segment then, and with a third record that was never acknowledged."""
    fill(tmp_path / "log", 2)
    copytree(tmp_path / "log", tmp_path / "more")
    fill(tmp_path / "more", 1)
    return tmp_path / "log", (tmp_path / "log" / FIRST).read_bytes(), (tmp_path / "more" / FIRST).read_bytes()


def test_a_torn_tail_is_cut_at_every_byte(tmp_path: Path) -> None:
    log, durable, more = torn(tmp_path)
    head = (log / "head").read_bytes()
    for end in range(len(durable), len(more)):
        (log / "head").write_bytes(head)
        (log / FIRST).write_bytes(more[:end])
        assert payloads(log) == [b"record 1", b"record 2"]
        fill(log, 1)
        assert payloads(log) == [b"record 1", b"record 2", b"record 3"]


def test_a_whole_record_past_the_head_is_kept(tmp_path: Path) -> None:
    log, _, more = torn(tmp_path)
    (log / FIRST).write_bytes(more)
    with SegmentWriter(log) as writer:
        assert writer.next_offset == 4
        assert writer.last() == Record(3, Kind.TICK, b"record 3")


@pytest.mark.parametrize("garbage", [bytes(100), b"\xff" * 100, bytes(23), b"record 3"])
def test_garbage_past_the_head_is_cut(tmp_path: Path, garbage: bytes) -> None:
    log, durable, _ = torn(tmp_path)
    (log / FIRST).write_bytes(durable + garbage)
    fill(log, 1)
    assert payloads(log)[-1] == b"record 3"


def test_readers_notice_every_flipped_bit(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    for byte, changed in flips((tmp_path / FIRST).read_bytes()):
        (tmp_path / FIRST).write_bytes(changed)
        with SegmentReader(tmp_path) as reader:
            good: list[Record] = []
            with pytest.raises(Corrupt, match=FIRST):
                good = reader.poll()
                reader.poll()
            assert [record.payload for record in good] == [b"record 1", b"record 2", b"record 3"][: len(good)]
            assert len(good) == max(0, byte - BEGIN) // 32
            with pytest.raises(Corrupt):
                reader.poll()


def test_writers_notice_every_flipped_bit_and_change_nothing(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    for _, changed in flips((tmp_path / FIRST).read_bytes()):
        (tmp_path / FIRST).write_bytes(changed)
        with pytest.raises(Corrupt, match=f"{FIRST}, byte .* expected .* found(.|\n)*hint: "):
            SegmentWriter(tmp_path)
        assert (tmp_path / FIRST).read_bytes() == changed


def test_a_durable_segment_that_became_shorter_is_corrupt_for_both(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    whole = (tmp_path / FIRST).read_bytes()
    for end in range(len(whole)):
        (tmp_path / FIRST).write_bytes(whole[:end])
        with pytest.raises(Corrupt):
            SegmentWriter(tmp_path)
        with SegmentReader(tmp_path) as reader, pytest.raises(Corrupt):
            while True:
                reader.poll()


def test_every_flipped_bit_of_the_head_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_module, "_READS_MAX", 2)
    monkeypatch.setattr(head_module, "_PAUSE_S", 0)
    fill(tmp_path, 1)
    for _, changed in flips((tmp_path / "head").read_bytes()):
        (tmp_path / "head").write_bytes(changed)
        with pytest.raises(Corrupt, match="head"):
            SegmentWriter(tmp_path)
        with SegmentReader(tmp_path) as reader, pytest.raises(Corrupt, match="head"):
            reader.poll()


def test_a_lost_head_is_found_again(tmp_path: Path) -> None:
    fill(tmp_path, 20, SMALL)
    (tmp_path / "head").unlink()
    fill(tmp_path, 1, SMALL)
    assert len(payloads(tmp_path)) == 21


def test_a_missing_segment_is_corrupt(tmp_path: Path) -> None:
    fill(tmp_path, 20, SMALL)
    bases = list_segments(tmp_path)
    segment_path(tmp_path, bases[3]).unlink()
    with SegmentReader(tmp_path) as reader:
        assert len(reader.poll()) == bases[3] - 1
        with pytest.raises(Corrupt):
            reader.poll()
    segment_path(tmp_path, bases[-1]).unlink()
    with pytest.raises(Corrupt, match=segment_path(tmp_path, bases[-1]).name):
        SegmentWriter(tmp_path)


def test_a_sealed_segment_that_became_shorter_is_corrupt(tmp_path: Path) -> None:
    fill(tmp_path, 20, SMALL)
    sealed = segment_path(tmp_path, list_segments(tmp_path)[1])
    whole = sealed.read_bytes()
    for end in range(len(whole)):
        sealed.write_bytes(whole[:end])
        with SegmentReader(tmp_path) as reader, pytest.raises(Corrupt, match=sealed.name):
            while True:
                reader.poll()


def test_a_segment_begun_for_a_record_that_never_came_goes(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    create_segment(tmp_path, 4)
    whole = segment_path(tmp_path, 4).read_bytes()
    for end in range(len(whole) + 1):
        segment_path(tmp_path, 4).write_bytes(whole[:end])
        SegmentWriter(tmp_path).close()
        assert list_segments(tmp_path) == [1]


def test_a_first_segment_that_was_not_finished_is_begun_again(tmp_path: Path) -> None:
    create_segment(tmp_path, 1)
    whole = (tmp_path / FIRST).read_bytes()
    for end in range(len(whole) + 1):
        (tmp_path / "head").unlink(missing_ok=True)
        (tmp_path / FIRST).write_bytes(whole[:end])
        with SegmentWriter(tmp_path) as writer:
            assert writer.next_offset == 1


def test_a_record_in_a_new_segment_past_the_head_is_kept(tmp_path: Path) -> None:
    fill(tmp_path, 4, SMALL)
    head = (tmp_path / "head").read_bytes()
    fill(tmp_path, 1, SMALL)
    assert (before := Head.unpack(head)) is not None and (after := read_head(tmp_path)) is not None
    assert before.segment < after.segment
    (tmp_path / "head").write_bytes(head)
    fill(tmp_path, 1, SMALL)
    assert len(payloads(tmp_path)) == 6


def test_a_power_cut_takes_only_what_was_not_synced(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, durable=False)
    writer.append(Kind.TICK, b"record 1")
    writer.sync()
    synced = (tmp_path / FIRST).stat().st_size
    writer.append(Kind.TICK, b"record 2")
    head, whole = (tmp_path / "head").read_bytes(), (tmp_path / FIRST).read_bytes()
    writer.close()
    for end in range(synced, len(whole)):
        (tmp_path / "head").write_bytes(head)
        (tmp_path / FIRST).write_bytes(whole[:end])
        SegmentWriter(tmp_path).close()
        assert payloads(tmp_path) == [b"record 1"]
    (tmp_path / "head").write_bytes(head)
    (tmp_path / FIRST).write_bytes(whole[: synced - 1])
    with pytest.raises(Corrupt):
        SegmentWriter(tmp_path)
