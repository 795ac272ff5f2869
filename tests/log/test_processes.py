"""Writers and readers in different processes. Nothing here asserts a time; it counts how often a reader looked."""

from __future__ import annotations

import selectors
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headwater.log.record import Kind
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.limits import Limits
from tests.support.fuzz import MULTIPLIER as FUZZ

Child = subprocess.Popen[str]
Start = Callable[..., Child]


def line(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_a_reader_in_another_process_is_woken(tmp_path: Path, start: Start) -> None:
    directory = tmp_path / "not" / "yet" / "there"
    child = start("read", directory, 50)
    assert line(child) == "ready"
    with SegmentWriter(directory) as writer:
        for n in range(50):
            writer.append(Kind.TICK, b"%d" % n)
            if n % 10 == 0:
                assert child.poll() is None
        looks, *payloads = line(child).split()
    assert payloads == [str(n) for n in range(50)]
    # For each record: one look that finds nothing, one when woken, one to poll. A few for the directories.
    assert int(looks) <= 3 * 50 + 20


def test_two_threads_write_while_another_process_reads(tmp_path: Path, start: Start) -> None:
    count = 300
    child = start("read", tmp_path, 2 * count)
    assert line(child) == "ready"

    def write(name: str) -> list[int]:
        return [writer.append(Kind.TICK, f"{name}{n}".encode()) for n in range(count)]

    with SegmentWriter(tmp_path, limits=Limits(segment_bytes_max=2000)) as writer:
        with ThreadPoolExecutor(2) as pool:
            a, b = pool.map(write, "ab")
    _, *payloads = line(child).split()
    assert sorted(a + b) == list(range(1, 2 * count + 1))
    assert a == sorted(a) and b == sorted(b)
    assert [payloads[offset - 1] for offset in a] == [f"a{n}" for n in range(count)]
    assert [payloads[offset - 1] for offset in b] == [f"b{n}" for n in range(count)]


def test_an_idle_reader_hardly_looks(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path), SegmentReader(tmp_path) as reader:
        assert not reader.wait(1.2)
        assert reader.looks <= 5


def test_what_a_killed_writer_acknowledged_is_there(tmp_path: Path, start: Start) -> None:
    for round in range(3 * FUZZ):
        child = start("crash", tmp_path)
        for _ in range(20 + round):
            acknowledged = int(line(child))
        child.kill()
        child.wait()
        with SegmentWriter(tmp_path) as writer:
            assert writer.next_offset > acknowledged
            expected = writer.next_offset - 1
        with SegmentReader(tmp_path) as reader:
            assert len(reader.poll(max_records=10_000)) == expected


def test_an_event_loop_can_watch_a_reader(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path) as writer, SegmentReader(tmp_path) as reader, selectors.DefaultSelector() as selector:
        selector.register(reader.fileno(), selectors.EVENT_READ)
        assert not selector.select(0)
        writer.append(Kind.TICK, b"")
        assert selector.select(60)
        assert reader.wait(0) and len(reader.poll()) == 1
        assert not selector.select(0)
