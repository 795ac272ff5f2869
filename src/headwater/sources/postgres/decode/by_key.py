"""The rows of a table that is held by key, as PostgreSQL tells of them: which of them are asked for, and what they
become by what was said while some were read. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headwater.model.key_demand import DemandFilter
from headwater.model.value import Row, Value
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.server.value_types import Parse
from headwater.sources.postgres.wire.messages import (
    UNCHANGED,
    Cell,
    Cells,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
)

Said = Relation | Insert | Update | Delete | Truncate
Held = Callable[[Sequence[Value]], Row | None]  # by what names the row


class LargeValueMissing(Exception):
    """A row is asked for now, and a large value that did not change was not sent with it."""


class RowsByKey:
    """How the rows of one table read."""

    __slots__ = ("capture", "demand", "parsers")

    def __init__(self, capture: CapturedTable, parsers: Sequence[Parse]) -> None:
        self.capture, self.parsers = capture, parsers
        self.demand = DemandFilter(capture.table, [(one.columns, one.keys) for one in capture.demands or ()])

    def named(self, said: Insert | Update | Delete) -> list[Value]:
        """What names the row that changes, as it was before."""
        if isinstance(said, Insert):
            return self.identity(said.new)
        if isinstance(said, Update) and said.old is None:
            return self.identity(said.new)
        assert said.old is not None
        return self.identity(said.old)

    def identity(self, cells: Cells) -> list[Value]:
        return [_value(cells[place], self.parsers[place]) for place in self.capture.identity]

    def row(self, cells: Cells, before: Row | None) -> Row | None:
        """None where a large value is missing."""
        if before is None and UNCHANGED in cells:
            return None
        known = enumerate(zip(cells, self.parsers, strict=True))
        return tuple([_value(cell, parse) if cell is not UNCHANGED else before[n] for n, (cell, parse) in known])  # type: ignore[index]

    def may_take(self, cells: Cells, before: Row | None) -> bool:
        """Whether the row may be asked for, by the columns that decide: the others are not even read. True where one
        of them was not sent."""
        if any(cells[place] is UNCHANGED for place in self.demand.places) and before is None:
            return True
        deciding = self.demand.places
        row = [None if n not in deciding else self._cell(cell, n, before) for n, cell in enumerate(cells)]
        return self.demand.takes(tuple(row))

    def _cell(self, cell: Cell, n: int, before: Row | None) -> Value:
        if cell is UNCHANGED:
            return before[n] if before is not None else None
        return _value(cell, self.parsers[n])


def caught_up(rows: RowsByKey, read: Iterable[Row], said: Iterable[Said], held: Held) -> list[Row]:
    """The rows that are asked for, read from the database, after what was said since then. `held` finds a row, as it is
    at the end, where it was followed before. Raises where only the database knows a value of one of them."""
    capture = rows.capture
    now = {capture.key(row): row for row in read}
    for one in said:
        if isinstance(one, Truncate):
            now.clear()
        elif not isinstance(one, Relation):
            _follow(rows, now, one, held)
    final = (held(capture.named(row)) or row for row in now.values())
    return [row for row in final if rows.demand.takes(row)]


def _follow(rows: RowsByKey, now: dict[bytes, Row], one: Insert | Update | Delete, held: Held) -> None:
    capture = rows.capture
    before = None if isinstance(one, Insert) else now.pop(capture.key_of(rows.named(one)), None)
    if isinstance(one, Delete) or not rows.may_take(one.new, before):
        return
    identity = rows.identity(one.new)
    row = rows.row(one.new, before) or held(identity)
    if row is None:
        raise LargeValueMissing
    now[capture.key_of(identity)] = row


def _value(cell: Cell, parse: Parse) -> Value:
    return parse(cell) if isinstance(cell, bytes) else None
