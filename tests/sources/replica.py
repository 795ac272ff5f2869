"""A table rebuilt from its snapshot and its captured changes, by values alone: the oracle of the capture."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from headwater.model.change import Transaction
from headwater.model.schema import Table
from headwater.model.value import Row, from_array, pack_any, type_of
from headwater.sources.source import Item, SchemaChange, Source
from headwater.sources.sqlite.schema import quoted

Exact = tuple[tuple[str, Any], ...]


def exact(row: Iterable[Any]) -> Exact:
    """A row that equals another one only bit for bit: 1 is not 1.0, 1.0 is not 1.00, and -0.0 is not 0.0."""
    return tuple((type(value).__name__, _EXACTLY.get(type(value), _itself)(value)) for value in row)


def _itself(value: Any) -> Any:
    return value


_EXACTLY: dict[type, Callable[[Any], Any]] = {float: float.hex, Decimal: str, tuple: pack_any}


class Replica:
    """Starts from a snapshot. Applying checks that every old image is there, and that every value fits its type."""

    def __init__(self, source: Source, name: str) -> None:
        with source.snapshot(name, rows_max=7) as snapshot:
            self.table: Table = snapshot.table
            self.position = snapshot.position
            self.rows: Counter[Exact] = Counter()
            for batch in snapshot:
                assert batch.schema.equals(self.table.arrow, check_metadata=True)
                columns = [from_array(batch.column(i), one.type) for i, one in enumerate(self.table.columns)]
                self.rows.update(exact(row) for row in zip(*columns, strict=True))
        self.reason: str | None = None

    def apply(self, items: Iterable[Item]) -> None:
        for item in items:
            if isinstance(item, SchemaChange):
                self._reshape(item)
            elif item.position > self.position:
                if isinstance(item, Transaction):
                    self._transact(item)
                self.position = item.position

    def _transact(self, transaction: Transaction) -> None:
        for change in transaction.changes:
            if change.table == self.table.name:
                assert self.reason is None, "a change after the end"
                self._change(change.old, change.new)

    def _change(self, old: Row | None, new: Row | None) -> None:
        if old is not None:
            assert self.rows[exact(old)] > 0, f"{old} is not in the replica"
            self.rows[exact(old)] -= 1
        if new is not None:
            for value, column in zip(new, self.table.columns, strict=True):
                assert value is None or column.type.value in ("any", type_of(value).value)  # type: ignore[union-attr]
            self.rows[exact(new)] += 1

    def _reshape(self, change: SchemaChange) -> None:
        if change.before.name != self.table.name or change.before.schema_id < self.table.schema_id:
            return
        if change.after is None:
            self.reason = change.reason
            return
        added = change.after.columns[len(self.table.columns) :]
        defaults = exact(column.default for column in added)
        if defaults:
            self.rows = Counter({row + defaults: count for row, count in self.rows.items()})
        self.table = change.after

    def holds(self, rows: Iterable[Iterable[Any]]) -> None:
        """Just these rows, in the order of the table's columns."""
        assert +self.rows == Counter(exact(row) for row in rows)

    def equals(self, db: sqlite3.Connection) -> None:
        columns = ", ".join(quoted(name) for name in self.table.names)
        there = Counter(exact(row) for row in db.execute(f"SELECT {columns} FROM {quoted(self.table.name)}"))
        assert +self.rows == there


def drain(source: Source, after: int) -> list[Item]:
    """All that there is after a position."""
    items: list[Item] = []
    while found := source.changes(after, 0):
        items += found
        after = max(item.position for item in found)
    return items


def drained(source: Source, after: int, timeout_s: float = 120.0) -> list[Item]:
    """All that was committed by now, of any source: until the position of now is reached."""
    items: list[Item] = []
    upto, until_s = source.position(), time.monotonic() + timeout_s
    while after < upto:
        assert time.monotonic() < until_s, f"position {upto} was not reached: {after}"
        items += source.changes(after, 1)
        after = max([after, *(item.position for item in items)])
    return items
