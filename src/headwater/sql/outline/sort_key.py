"""How the values of a row decide its place in an order. Pure values."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sql.outline.order_terms import Sort


@dataclass(frozen=True, slots=True)
class SortKey:
    """How a value decides, by its place in the row."""

    place: int
    descending: bool = False
    nulls_first: bool = True
    collation: str = "BINARY"


@dataclass(frozen=True, slots=True)
class SortTerm:
    """`result` is the place of a result; where it is None, the term is to be asked for."""

    sort: Sort
    result: int | None
    collation: str = "BINARY"

    def key(self, place: int, nulls_are_smallest: bool) -> SortKey:
        first = self.sort.nulls_first
        descending = self.sort.descending
        usual = nulls_are_smallest is not descending
        return SortKey(place, descending, usual if first is None else first, self.collation)
