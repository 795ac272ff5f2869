"""KeyDemand: which rows of a table are asked for, where it is held by key: columns, and encoded values of them.

Values are compared as the engine compares them: encoded, by the collation of each column. It reads no table.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from headwater.model.encoding.keys import encode_row
from headwater.model.schema import Table
from headwater.model.value import Row


class KeyDemand(msgspec.Struct, frozen=True):
    """Rows whose `columns` have one of the encoded values."""

    columns: tuple[str, ...]
    keys: frozenset[bytes]


Demands = tuple[KeyDemand, ...]  # one for each set of columns


def key_of(table: Table, columns: Sequence[str], values: Row) -> bytes:
    """Values of these columns, encoded."""
    return encode_row(values, [table.column(name).collation for name in columns])


def widened(demands: Demands, more: KeyDemand) -> Demands:
    """With more keys."""
    known = next((one.keys for one in demands if one.columns == more.columns), frozenset())
    return (*_others(demands, more), KeyDemand(more.columns, known | more.keys))


def narrowed(demands: Demands, less: KeyDemand) -> Demands:
    """Without some keys."""
    known = next((one.keys for one in demands if one.columns == less.columns), frozenset())
    kept = KeyDemand(less.columns, known - less.keys)
    return (*_others(demands, less), *([kept] if kept.keys else []))


def covers(demands: Demands, asked: KeyDemand) -> bool:
    """Whether all of these keys are among them."""
    return any(one.columns == asked.columns and one.keys >= asked.keys for one in demands)


def _others(demands: Demands, one: KeyDemand) -> Demands:
    return tuple(other for other in demands if other.columns != one.columns)


class DemandFilter:
    """Says of a row whether it is asked for. `places` are those of the columns that decide."""

    __slots__ = ("_tests", "places")

    def __init__(self, table: Table, demands: Iterable[tuple[tuple[str, ...], Container[bytes]]]) -> None:
        """Columns, and the encoded keys that are asked for by them: these may become others."""
        self._tests = [
            ([table.index(name) for name in columns], [table.column(name).collation for name in columns], keys)
            for columns, keys in demands
        ]
        self.places = {place for places, _, _ in self._tests for place in places}

    def takes(self, row: Row) -> bool:
        """A NULL equals nothing, and is the value of no key."""
        return any(
            encode_row([row[place] for place in places], collations) in keys for places, collations, keys in self._tests
        )
