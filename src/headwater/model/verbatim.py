"""A value as its database writes it: Python has no exact value for it, or only the database computes with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verbatim:
    """`type` is the database's name of it: json, inet, int4range, …; or date, time, timestamp, timestamptz for a time
    that Python's own types do not reach: infinity, years before Christ, 24:00:00."""

    type: str
    text: str

    def __str__(self) -> str:
        return self.text
