"""What was read of the stream and was not asked for yet: transactions and changes of the schema, in order. From some
position on it may be held, until the catalog was looked at. Pure; whoever uses it has the stream's lock."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headwater.model.change import Transaction
from headwater.model.columnar_changes import among
from headwater.sources.postgres.decode.table_shapes import in_shape
from headwater.sources.source import Item, SchemaChange

ROWS_MAX = 1 << 16  # changes that wait here; more are read only by who takes them away


@dataclass(frozen=True, slots=True)
class _Waiting:
    """`since`: it belongs before the transaction that was committed there, or is that transaction."""

    since: int
    item: Item


class ItemQueue:
    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._rows = self._shapes = 0
        self._first: list[Item] = []  # handed out before all that waits
        self._hold: tuple[int, int] | None = None  # from the first on nothing is handed out; the last ends it
        self.handed = -1  # the last position that was handed out

    @property
    def has_items(self) -> bool:
        """That may be taken."""
        return bool(self._first) or (bool(self._waiting) and self._waiting[0].since < self.held_from)

    @property
    def has_shapes(self) -> bool:
        """Something waits here that is no transaction."""
        return bool(self._first) or self._shapes > 0

    @property
    def is_full(self) -> bool:
        return self._rows > ROWS_MAX

    @property
    def is_held(self) -> bool:
        return self._hold is not None

    @property
    def held_from(self) -> int:
        return self._hold[0] if self._hold is not None else sys.maxsize

    def add(self, position: int, items: Iterable[Item]) -> None:
        """What was committed there, behind all that waits."""
        for item in items:
            self._waiting.append(_Waiting(position, item))
            self._rows += _count(item)
            self._shapes += not isinstance(item, Transaction)

    def add_transactions(self, transactions: Sequence[Transaction]) -> None:
        """Each at its own position, behind all that waits."""
        self._waiting.extend(_Waiting(one.position, one) for one in transactions)
        self._rows += sum(len(one.changes) for one in transactions)

    def insert(self, items: Sequence[Item], position: int) -> None:
        """Items from elsewhere: behind all that was read up to `position`, or before what is held."""
        place = max(min(position + 1, self.held_from), self.handed + 1)
        later: list[_Waiting] = []
        while self._waiting and self._waiting[-1].since >= place:
            one = self._waiting.pop()
            later.append(_Waiting(one.since, _in_new_shape(one.item, items)))
        first = [replace(item, position=place - 1) for item in items] if place <= position else items
        self._waiting.extend(_Waiting(place, item) for item in first)
        self._waiting.extend(reversed(later))
        self._shapes += len(first)

    def insert_first(self, items: Sequence[SchemaChange]) -> None:
        """The ends of tables of which nothing that waits here may be told any more."""
        self._first += [replace(item, position=0) for item in items]

    def take(self, after: int, rows_max: int) -> list[Item]:
        """What waits here, behind a position. A table that is lost where changes are read again is told all the same:
        nothing of it is followed from there on."""
        taken = [_no_earlier(item, after) for item in self._first]
        self._first = []
        rows = 0
        while self.has_items and rows < rows_max:
            one = self._waiting.popleft()
            count = _count(one.item)
            self._shapes -= not isinstance(one.item, Transaction)
            self._rows -= count
            rows += count
            if one.since > after or (isinstance(one.item, SchemaChange) and one.item.lost):
                taken.append(_no_earlier(one.item, after))
        self.handed = max([after, *(item.position for item in taken)])
        return taken

    def hold(self, position: int) -> bool:
        """Nothing from the position on is handed out until it is released. False where it was handed out before."""
        if position <= self.handed:
            return False
        first, last = self._hold or (position, position)
        self._hold = min(first, position), max(last, position)
        return True

    def release(self, position: int | None) -> None:
        """Up to the position; all of it where there is none."""
        if position is None:
            self._hold = None
        elif self._hold is not None:
            first, last = self._hold
            self._hold = (max(first, position + 1), last) if position < last else None

    def clear(self) -> None:
        """It will be read again. What is held stays held."""
        self._waiting.clear()
        self._first = []
        self._rows = self._shapes = 0


def _count(item: Item) -> int:
    return len(item.changes) if isinstance(item, Transaction) else 0


def _in_new_shape(item: Item, told: Sequence[Item]) -> Item:
    """A transaction that is told after shapes which tables got only later."""
    shapes = {one.before.name: one for one in told if isinstance(one, SchemaChange) and one.after is not None}
    if not isinstance(item, Transaction) or not among(item.changes, shapes):
        return item
    return replace(item, changes=tuple(in_shape(item.changes, list(shapes.values()))))


def _no_earlier(item: Item, after: int) -> Item:
    """A new shape is told at a place that the one who asks has reached already."""
    return item if item.position >= after else replace(item, position=after)
