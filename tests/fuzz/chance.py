"""Lots drawn from a seed, and the values that columns hold: few, so that joins meet and groups fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from headwater.model.schema import Column, Table
from headwater.model.value import Row, Value

T = TypeVar("T")

ROWS_MAX = 30
DOMAINS: dict[str, tuple[Value, ...]] = {
    "INTEGER": (0, 1, 2, 3, -1),
    "REAL": (0.5, 1.0, 2.25, -1.0),  # sums are exact in any order
    "TEXT": ("a", "b", "A", "", "1"),
    "BLOB": (b"a", b"", b"\x00"),
    "": (1, 1.0, "1", "a", b"a"),
}
ODD: dict[str, tuple[Value, ...]] = {
    "INTEGER": (2**53 + 1, 2**63 - 1, -(2**63), 10),
    "REAL": (0.0, 0.1, 0.3, 1e9, 9007199254740992.0),  # SQLite stores no -0.0 in such a column
    "TEXT": ("x\x00y", "é", "É", "10", "9", " 1", "1.0"),
    "BLOB": (b"a\x00", b"1"),
    "": (2**53 + 1, 9007199254740992.0, -0.0, "A", "1.0", b"1"),
}


@dataclass(slots=True)
class Chance:
    """`largest` bounds the rows of a table and the numbers that are its ids; `odd` lets in values that are trouble."""

    random: Random
    largest: int
    odd: bool

    def likely(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        """Between one and `most` of them, where there are so many."""
        return self.random.sample(choices, min(len(choices), self.random.randint(1, most)))

    def row(self, table: Table) -> Row:
        return tuple(self.value(column) for column in table.columns)

    def value(self, column: Column) -> Value:
        if column.nullable and self.likely(0.15):
            return None
        if column.name == "id":
            return self.random.randrange(-1, 1 + self.largest)
        return self.pick((ODD if self.odd and self.likely(0.2) else DOMAINS)[column.declared])
