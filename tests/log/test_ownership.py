"""One writer, or the newest of several; also when an older one was only asleep."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.log import ownership as claim_module
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.errors import Corrupt, Fenced, LogError

Child = subprocess.Popen[str]
Start = Callable[..., Child]


def payloads(directory: Path) -> list[bytes]:
    with SegmentReader(directory) as reader:
        found: list[bytes] = []
        while records := reader.poll():
            found += [record.payload for record in records]
        return found


def line(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def send(child: Child) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def stop(child: Child) -> None:
    """Returns once it is really stopped."""
    os.kill(child.pid, signal.SIGSTOP)
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def test_a_second_writer_is_refused_and_told_who_holds_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "_EXCLUSIVE_WAIT_S", 0.01)
    with SegmentWriter(tmp_path) as writer:
        with pytest.raises(LogError, match=f"process {os.getpid()} holds the log"):
            SegmentWriter(tmp_path)
        assert writer.append(Kind.TICK, b"") == 1
    SegmentWriter(tmp_path).close()


def test_a_second_process_is_refused(tmp_path: Path, start: Start) -> None:
    child = start("hold", tmp_path)
    assert line(child) == "ready"
    with pytest.raises(LogError, match=f"process {child.pid} holds"):
        SegmentWriter(tmp_path)
    child.kill()
    child.wait()
    SegmentWriter(tmp_path).close()


def test_nobody_takes_over_from_an_exclusive_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "_FENCED_WAIT_S", 0.01)
    with SegmentWriter(tmp_path) as writer:
        with pytest.raises(LogError, match="holds the log"):
            SegmentWriter.fenced(tmp_path)
        assert writer.append(Kind.TICK, b"") == 1


def test_the_newer_writer_fences_the_older(tmp_path: Path) -> None:
    with SegmentWriter.fenced(tmp_path) as old:
        old.append(Kind.TICK, b"1")
        with SegmentWriter.fenced(tmp_path) as new:
            assert new.generation == old.generation + 1
            for refused in (lambda: old.append(Kind.TICK, b"x"), old.sync, lambda: old.truncate(1)):
                with pytest.raises(Fenced, match=f"generation {new.generation}"):
                    refused()
            assert new.append(Kind.TICK, b"2") == 2
    assert payloads(tmp_path) == [b"1", b"2"]


def test_an_exclusive_writer_fences_older_ones_too(tmp_path: Path) -> None:
    with SegmentWriter.fenced(tmp_path) as old:
        SegmentWriter(tmp_path).close()
        with pytest.raises(Fenced):
            old.append(Kind.TICK, b"x")


def test_a_writer_that_slept_through_a_takeover_writes_nothing(tmp_path: Path, start: Start) -> None:
    child = start("fenced", tmp_path)
    assert line(child) == "ready"
    send(child)
    assert line(child) == "appended"
    stop(child)
    send(child)
    with SegmentWriter.fenced(tmp_path) as writer:
        writer.append(Kind.TICK, b"new")
        os.kill(child.pid, signal.SIGCONT)
        assert line(child) == "fenced"
        writer.append(Kind.TICK, b"new")
        send(child)
        assert line(child) == "fenced"
    assert payloads(tmp_path) == [b"old", b"old", b"new", b"new"]


def test_nobody_gets_in_beside_a_writer_in_the_middle_of_an_append(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start("inside", tmp_path)
    assert line(child) == "ready"
    with monkeypatch.context() as patch:
        patch.setattr(claim_module, "_FENCED_WAIT_S", 0.01)
        with pytest.raises(LogError, match=f"process {child.pid} holds the log and did not let go"):
            SegmentWriter.fenced(tmp_path)
    monkeypatch.setattr(claim_module, "_FENCED_WAIT_S", 60)
    send(child)
    with SegmentWriter.fenced(tmp_path) as writer:
        assert line(child) == "fenced"
        writer.append(Kind.TICK, b"new")
    assert payloads(tmp_path) == [b"new"]


@pytest.mark.parametrize("round", range(5))
def test_a_writer_stopped_at_any_moment_leaves_no_trace_after_the_takeover(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch, round: int
) -> None:
    """Where it was stopped while it wrote, nobody gets in beside it; as soon as it is through, the newcomer does."""
    monkeypatch.setattr(claim_module, "_FENCED_WAIT_S", 0.05)
    child = start("flood", tmp_path)
    assert line(child) == "ready"
    with SegmentReader(tmp_path, 100 * (round + 1)) as reader:
        assert reader.wait(60)
    stop(child)
    try:
        writer = SegmentWriter.fenced(tmp_path)
    except LogError as error:
        assert f"process {child.pid} holds" in str(error)
        os.kill(child.pid, signal.SIGCONT)
        monkeypatch.setattr(claim_module, "_FENCED_WAIT_S", 60)
        writer = SegmentWriter.fenced(tmp_path)
    with writer:
        writer.append(Kind.TICK, b"new")
        os.kill(child.pid, signal.SIGCONT)
        acknowledged, why = line(child).split()
        writer.append(Kind.TICK, b"new")
    assert why == "fenced"
    assert payloads(tmp_path) == [b"old"] * int(acknowledged) + [b"new"] * 2


DAMAGED = [b"seven", b"", b"0" * 20, b"9" * 29, b"\xff" * 29, b"0" * 19 + b"7 00000000"]


@pytest.mark.parametrize("found", DAMAGED)
@pytest.mark.parametrize("opener", [SegmentWriter, SegmentWriter.fenced])
def test_a_damaged_generation_goes_on_higher_than_any_before(
    tmp_path: Path, found: bytes, opener: Callable[[Path], SegmentWriter]
) -> None:
    """An older writer that still lives must find that it is fenced, and a count must fit a record."""
    for _ in range(3):
        SegmentWriter.fenced(tmp_path).close()
    with SegmentWriter.fenced(tmp_path) as older:
        (tmp_path / "generation").write_bytes(found)
        with opener(tmp_path) as newer:
            newer.append(Kind.TICK, b"new")
            assert newer.generation != older.generation
        with SegmentWriter.fenced(tmp_path) as newest:
            assert newest.generation == newer.generation + 1
            with pytest.raises(Fenced):
                older.append(Kind.TICK, b"old")
    assert payloads(tmp_path) == [b"new"]


def test_every_flipped_bit_of_the_generation_is_noticed(tmp_path: Path) -> None:
    with SegmentWriter.fenced(tmp_path) as writer:
        path = tmp_path / "generation"
        whole = path.read_bytes()
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            with pytest.raises(Corrupt, match="generation"):
                writer.append(Kind.TICK, b"x")
