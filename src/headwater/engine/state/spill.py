"""Spill: drops from memory what is already on disk.

A run whose file is written is replaced by that file, memory-mapped: the system reads the parts that are used, and takes
the memory back when it needs some. Which runs these are never shows in a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar


class Spillable(Protocol):
    """`bytes` are those it takes in memory: none where it is a mapped file."""

    file: str | None

    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Inside:
    """A run in memory, and how to let go of it."""

    bytes: int
    let_go: Callable[[], None]

    @classmethod
    def of(cls, runs: list[R], at: int, read: Callable[[str], R]) -> Self:
        def let_go() -> None:
            file = runs[at].file
            if file is not None:
                runs[at] = read(file)

        return cls(runs[at].bytes, let_go)


R = TypeVar("R", bound=Spillable)


def inside(runs: list[R], read: Callable[[str], R]) -> Iterator[Inside]:
    """Those of the runs that are in memory."""
    return (Inside.of(runs, at, read) for at, run in enumerate(runs) if run.bytes)


def spill(runs: Iterable[Inside], bytes_max: int) -> None:
    """The largest go first, until the rest is small enough."""
    largest = sorted(runs, key=lambda run: run.bytes, reverse=True)
    total = sum(run.bytes for run in largest)
    for run in largest:
        if total <= bytes_max:
            return
        run.let_go()
        total -= run.bytes
