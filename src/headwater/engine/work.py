"""Counted work (law 10): what tests assert instead of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Work:
    """`gathered`: rows read from arrangements. `emitted`: edits. `rewritten`: rows copied by merges of runs."""

    gathered: int = 0
    emitted: int = 0
    rewritten: int = 0
