"""What the log tests run in other processes: `python child.py <command> <directory> …`. Speaks in lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from headwater.fs import doorbell
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader, SegmentWriter
from headwater.model.errors import HeadwaterError


def say(*words: object) -> None:
    print(*words, flush=True)


def read(directory: Path, count: str) -> None:
    """Reads that many records through `wait`; then says what it read, and how often it looked because it was woken."""
    doorbell._SAFETY_S = 1000.0
    with SegmentReader(directory) as reader:
        say("ready")
        payloads: list[bytes] = []
        while len(payloads) < int(count) and reader.wait(60):
            payloads += [record.payload for record in reader.poll()]
        say(reader.looks, b" ".join(payloads).decode())


def hold(directory: Path) -> None:
    with SegmentWriter(directory):
        say("ready")
        sys.stdin.readline()


def fenced(directory: Path) -> None:
    """Appends, then once more for every line it is sent."""
    with SegmentWriter.fenced(directory) as writer:
        writer.append(Kind.TICK, b"old")
        say("ready")
        for _ in sys.stdin:
            say(_outcome(writer))


def inside(directory: Path) -> None:
    """Stays in the middle of a fenced append until it is sent a line, then finishes it; then tries another."""
    with SegmentWriter.fenced(directory) as writer:
        with writer._claim.held():
            say("ready")
            sys.stdin.readline()
        say(_outcome(writer))


def flood(directory: Path) -> None:
    """Appends until it may no longer; then says how many of its appends were acknowledged, and why it stopped."""
    done = 0
    with SegmentWriter.fenced(directory, durable=False) as writer:
        say("ready")
        while (outcome := _outcome(writer)) == "appended":
            done += 1
    say(done, outcome)


def crash(directory: Path) -> None:
    """Appends and reports each offset, until it is killed."""
    with SegmentWriter(directory) as writer:
        while True:
            say(writer.append(Kind.FRAME, b"x" * 1000))


def _outcome(writer: SegmentWriter) -> str:
    try:
        writer.append(Kind.TICK, b"old")
    except HeadwaterError as error:
        return error.code
    return "appended"


COMMANDS: dict[str, Callable[..., None]] = {
    "read": read,
    "hold": hold,
    "fenced": fenced,
    "inside": inside,
    "flood": flood,
    "crash": crash,
}

if __name__ == "__main__":
    name, directory, *rest = sys.argv[1:]
    COMMANDS[name](Path(directory), *rest)
