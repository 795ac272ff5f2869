"""A value in its origin's own words: what Python has no exact value for, or what only the origin computes with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verbatim:
    """`type` is the origin's name for it: json, inet, int4range, …; or date, time, timestamp, timestamptz for a moment
    that Python's own types do not reach: infinity, years before Christ, 24:00:00."""

    type: str
    text: str

    def __str__(self) -> str:
        return self.text
