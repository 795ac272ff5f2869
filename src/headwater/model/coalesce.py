"""A transaction's changes reduced to their net effect: at most one change a row, none where nothing changed.

insert → update is an insert with the last values; delete → insert of one key is an update; insert → delete is nothing.
A row whose key moved is one update from the old key to the new, unless that key was another row's before or after:
then each key tells its own story.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter, ne
from typing import Any

from headwater.model.change import Change, Transaction
from headwater.model.schema import Table
from headwater.model.value import Row, Type, Value

_PLAIN = frozenset({Type.INTEGER, Type.TEXT, Type.BLOB, Type.BOOLEAN, Type.DATE, Type.UUID})


def coalesce(transaction: Transaction, tables: Mapping[str, Table]) -> Transaction:
    """The same transaction with its net changes, tables in the order they were first touched."""
    if len(transaction.changes) < 2:
        return Transaction(transaction.position, tuple(c for c in transaction.changes if not same(c.old, c.new)))
    if _each_once(transaction, tables):
        return Transaction(transaction.position, tuple(c for c in transaction.changes if not same(c.old, c.new)))
    net: dict[str, _Keyed | _Bag] = {}
    for change in transaction.changes:
        if change.table not in net:
            table = tables[change.table]
            net[change.table] = _Keyed.of(table) if table.key else _Bag(table.name)
        net[change.table].add(change)
    return Transaction(transaction.position, tuple(change for part in net.values() for change in part.changes()))


def _each_once(transaction: Transaction, tables: Mapping[str, Table]) -> bool:
    """Whether no key is touched twice, as in most transactions: then there is nothing to reduce."""
    seen: dict[str, set[Row]] = {}
    picks: dict[str, Callable[[Row], Any]] = {}
    for change in transaction.changes:
        name = change.table
        if name not in picks:
            table = tables[name]
            if not table.key or not _is_plain(table):
                return False
            picks[name], seen[name] = _picker(tuple(table.index(one) for one in table.key)), set()
        old, new = change.old, change.new
        key = picks[name](old if old is not None else new)  # type: ignore[arg-type]
        if key in seen[name] or (old is not None and new is not None and key != picks[name](new)):
            return False
        seen[name].add(key)
    return True


def _is_plain(table: Table) -> bool:
    """Whether equal keys are equal in Python."""
    columns = [table.column(name) for name in table.key]
    return all(column.collation == "BINARY" and column.type in _PLAIN for column in columns)


def _picker(places: tuple[int, ...]) -> Callable[[Row], Any]:
    return itemgetter(*places)


def same(a: Row | None, b: Row | None) -> bool:
    """Equal to the bit: 1 is not 1.0, 0.0 is not -0.0, and the decimal 1.0 is not 1.00."""
    if a is None or b is None:
        return a is b
    if a != b and not any(map(ne, a, a)):  # most rows; what is not equal to itself is NaN
        return False
    return all(map(_equal, a, b)) and _exact(a) == _exact(b)


def _equal(a: Value, b: Value) -> bool:
    """NaN too."""
    return a == b or (a != a and b != b)


def _exact(row: Row) -> tuple[Any, ...]:
    return tuple([(type(v), _EXACTLY[type(v)](v) if type(v) in _EXACTLY else v) for v in row])


_EXACTLY: dict[type, Callable[[Any], Any]] = {float: struct.Struct(">d").pack, Decimal: str}


def _folded(value: Value, collation: str) -> Value:
    if value != value:
        return "NaN"  # which is one value
    if collation == "NOCASE" and isinstance(value, str):
        return "".join(c.lower() if c.isascii() else c for c in value)
    return value


@dataclass(slots=True)
class _Keyed:
    """A table with a key: the image each touched key had before and has now, and where the row now there came from."""

    table: str
    places: tuple[tuple[int, str], ...]
    before: dict[Row, Row | None] = field(default_factory=dict)
    now: dict[Row, Row | None] = field(default_factory=dict)
    origin: dict[Row, Row | None] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table) -> _Keyed:
        return cls(table.name, tuple((table.index(name), table.column(name).collation) for name in table.key))

    def key(self, row: Row) -> Row:
        return tuple(_folded(row[place], collation) for place, collation in self.places)

    def add(self, change: Change) -> None:
        origin: Row | None = None
        if change.old is not None:
            key = self.key(change.old)
            self.before.setdefault(key, change.old)
            self.now[key] = None
            origin = self.origin.pop(key, key)
        if change.new is not None:
            key = self.key(change.new)
            self.before.setdefault(key, None)
            self.now[key] = change.new
            self.origin[key] = origin

    def changes(self) -> list[Change]:
        gone = {key for key, old in self.before.items() if old is not None and self.now[key] is None}
        moved = {
            origin: key
            for key, origin in self.origin.items()
            if origin is not None and origin in gone and self.before[key] is None
        }
        arrived = set(moved.values())
        net = []
        for key, old in self.before.items():
            new = self.now[moved[key]] if key in moved else self.now[key]
            if key not in arrived and not same(old, new):
                net.append(Change(self.table, old, new))
        return net


@dataclass(slots=True)
class _Bag:
    """A table with no key: a multiset of rows. Links lead from what a row was to what it is."""

    table: str
    links: list[tuple[Row | None, Row | None]] = field(default_factory=list)

    def add(self, change: Change) -> None:
        self._link(change.old, change.new)

    def _link(self, old: Row | None, new: Row | None) -> None:
        """Joins the link to those that end where it starts or start where it ends, so that no row is both."""
        if old is not None:
            for place, (was, now) in enumerate(self.links):
                if same(now, old):
                    del self.links[place]
                    old = was
                    break
        if new is not None:
            for place, (was, now) in enumerate(self.links):
                if same(was, new):
                    del self.links[place]
                    new = now
                    break
        if not same(old, new):
            self.links.append((old, new))

    def changes(self) -> list[Change]:
        return [Change(self.table, old, new) for old, new in self.links]
