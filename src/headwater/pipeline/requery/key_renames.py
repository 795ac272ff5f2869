"""The keys that changed from one value to another since a window was last answered. Their number is bounded.

They only tell which row is which: a forgotten rename is emitted as a deleted row and an inserted one.
"""

from __future__ import annotations

from collections import defaultdict

from headwater.engine.requeried.match_rows import packed
from headwater.model.change import Change
from headwater.model.encoding.tagged_bytes import alike
from headwater.model.schema import Table
from headwater.model.value import Row


class KeyRenames:
    """Changes of keys, and the ends of rows that had been given one, in commit order."""

    __slots__ = ("_given", "_keys_max", "_noted")

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._noted: list[tuple[int, str, bytes, bytes | None]] = []
        self._given: set[tuple[str, bytes | None]] = set()

    def note(self, position: int, table: Table, change: Change) -> None:
        if change.old is None or not table.key:
            return
        old, new = _key(table, change.old), None if change.new is None else _key(table, change.new)
        if new is None:
            if (table.name, packed(old)) in self._given:
                self._add(position, table.name, packed(old), None)
        elif not all(map(alike, old, new)):
            self._add(position, table.name, packed(old), packed(new))

    def _add(self, position: int, table: str, old: bytes, new: bytes | None) -> None:
        if len(self._noted) == self._keys_max:
            self._noted.clear()
            self._given.clear()
        self._noted.append((position, table, old, new))
        self._given.add((table, new))

    def upto(self, position: int) -> dict[str, dict[bytes, bytes]]:
        """By table: which key has become which, for good."""
        came: dict[str, dict[bytes, bytes]] = defaultdict(dict)  # from the key now to the one at first
        for at, table, was, now in self._noted:
            if at <= position:
                first = came[table].pop(was, was)
                if now is not None:
                    came[table][now] = first
        return {table: {first: now for now, first in keys.items() if first != now} for table, keys in came.items()}

    def answered(self, position: int) -> None:
        self._noted = [one for one in self._noted if one[0] > position]
        self._given = {(table, now) for _, table, _, now in self._noted}


def _key(table: Table, image: Row) -> Row:
    return tuple(image[table.index(name)] for name in table.key)
