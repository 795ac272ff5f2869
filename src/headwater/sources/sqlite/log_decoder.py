"""Turns rows of `_headwater_log` into transactions and schema changes. Pure: it is handed rows and captures, never a
connection, and gives the same answer for the same rows, wherever it starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.model.change import Change, Transaction
from headwater.model.schema import Table
from headwater.model.value import Row, Type
from headwater.sources.source import Item, Redefinition, SchemaChange
from headwater.sources.sqlite.captures import TableCapture
from headwater.sources.sqlite.cascades import Cascades

LogRow = tuple[Any, ...]  # seq, t, op, o0, n0, o1, n1, …

_Misfits = dict[tuple[type, ...], frozenset[int]]  # by the types of a row's values
_NO_MISFITS: frozenset[int] = frozenset()
_TYPES: dict[type, Type] = {int: Type.INTEGER, float: Type.REAL, str: Type.TEXT, bytes: Type.BLOB}


class UndecodableText(bytes):
    """Text that is not UTF-8. It cannot be passed on as text, and as a blob it would be another value."""


def text_or_garbled(data: bytes) -> str | UndecodableText:
    """A `text_factory` for rows that the ordinary one refuses."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return UndecodableText(data)


@dataclass(slots=True)
class LogDecoder:
    """Where the reading of the log stands. `garbled` collects captures that ended for what they hold, with reasons."""

    position: int
    captures: Mapping[int, TableCapture]
    mixed: dict[int, frozenset[int]]
    garbled: dict[int, str] = field(default_factory=dict)
    _tables: dict[int, Table] = field(default_factory=dict)
    _checked: defaultdict[int, dict[tuple[type, ...], frozenset[int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def decode(self, rows: Iterable[LogRow], ends: Sequence[int]) -> list[Item]:
        """All rows after `position` up to the last of `ends`, which are seqs that transactions end with, ascending."""
        items: list[Item] = []
        pending: list[LogRow] = []
        place = 0
        for row in rows:
            if row[0] > ends[place]:
                items += self._transaction(pending, ends[place])
                pending = []
                while row[0] > ends[place]:
                    place += 1
            if row[2] in "iudc":
                pending.append(row)
            else:
                over = [row[1]] if row[2] == "g" else []  # of what ended in the transaction itself nothing more is told
                items += self._transaction([one for one in pending if one[1] not in over], row[0] - 1)
                items += self._schema_change(row)
                pending = []
        return items + self._transaction(pending, ends[-1])

    def _transaction(self, rows: list[LogRow], end: int) -> list[Item]:
        """The transaction, and before it the schema changes that its values ask for."""
        changes = self._plain_changes(rows)
        if changes is not None:
            self.position = end
            return [Transaction(end, tuple(changes))] if changes else []
        cascades = Cascades()
        items: list[Item] = []
        for row in rows:
            capture = self._reported(row)
            change = self._change(capture, row, items) if capture is not None else None
            if capture is not None and change is not None:
                cascades.append(change, capture.shape.refers_to_itself, row[2] == "c")
        self.position = end
        ended = {item.before.name for item in items if isinstance(item, SchemaChange) and item.after is None}
        kept = tuple(change for change in cascades.changes if change.table not in ended)
        return [*items, Transaction(end, kept)] if kept else items

    def _plain_changes(self, rows: list[LogRow]) -> list[Change] | None:
        """Of a transaction as most are: values of the types that are known, tables that do not refer to themselves.
        None for any other; nothing was done then."""
        changes: list[Change] = []
        of = None  # the capture that the rows just before were of
        for row in rows:
            if row[1] != of:
                of, capture = row[1], self._reported(row)
                if capture is None or capture.shape.refers_to_itself:
                    return None
                name, end = capture.shape.name, 3 + 2 * len(capture.types)
                fine, since = self._checked[capture.id], capture.since or 0
            old = row[3:end:2] if row[2] != "i" else None
            new = row[4:end:2] if row[2] != "d" else None
            if row[0] <= since or fine.get(tuple(map(type, old or new or ()))) != _NO_MISFITS:
                return None
            if old is not None and new is not None and fine.get(tuple(map(type, new))) != _NO_MISFITS:
                return None
            changes.append(Change(name, old, new))
        return changes

    def _reported(self, row: LogRow) -> TableCapture | None:
        """None for a row that is older than its capture's types, or that comes after the capture's end."""
        capture = self.captures.get(row[1])
        if capture is None or capture.since is None or row[0] <= capture.since or capture.id in self.garbled:
            return None
        return capture

    def _change(self, capture: TableCapture, row: LogRow, items: list[Item]) -> Change | None:
        end = 3 + 2 * len(capture.types)
        old: Row | None = row[3:end:2] if row[2] != "i" else None
        new: Row | None = row[4:end:2] if row[2] != "d" else None
        for image in (old, new):
            if image is not None and (odd := self._misfits(capture, image)):
                items += self._widened(capture, image, odd)
        return None if capture.id in self.garbled else Change(capture.shape.name, old, new)

    def _misfits(self, capture: TableCapture, image: Row) -> frozenset[int]:
        """The columns whose values do not fit the type they have by now."""
        kinds, checked = tuple(map(type, image)), self._checked[capture.id]
        found = checked.get(kinds)
        if found is None:
            found = checked[kinds] = frozenset(
                place
                for place, kind in enumerate(kinds)
                if kind is UndecodableText or (kind in _TYPES and capture.types[place] not in (_TYPES[kind], Type.ANY))
            )
        return found and found - self.mixed.get(capture.id, frozenset())

    def _widened(self, capture: TableCapture, image: Row, odd: frozenset[int]) -> list[Item]:
        before = self.table(capture)
        names = ", ".join(capture.shape.names[place] for place in sorted(odd))
        if any(type(image[place]) is UndecodableText for place in odd):
            reason = f"table {before.name} holds text that is not valid UTF-8, in {names}"
            self.garbled[capture.id] = reason
            return [SchemaChange(self.position, before, None, reason)]
        self.mixed[capture.id] = self.mixed.get(capture.id, frozenset()) | odd
        self._tables.pop(capture.id)
        reason = f"table {before.name} holds values of another type than before, in {names}"
        return [SchemaChange(self.position, before, self.table(capture), reason)]

    def _schema_change(self, row: LogRow) -> list[Item]:
        """Where there is nothing to tell, still that the position is reached: somebody may wait for it."""
        self.position = seq = row[0]
        if row[2] == "v":
            return [Redefinition(seq)]
        capture = self.captures.get(row[1])
        if capture is None:
            return [Transaction(seq, ())]
        if row[2] == "g":
            told = capture.id in self.garbled or capture.since is None
            return [Transaction(seq, ()) if told else SchemaChange(seq, self.table(capture), None, row[4])]
        before = self.captures[row[3]]
        if before.id in self.garbled:
            self.garbled[capture.id] = self.garbled[before.id]
            return [Transaction(seq, ())]
        reason = f"columns were added to table {capture.shape.name}"
        return [SchemaChange(seq, self.table(before), self.table(capture), reason)]

    def table(self, capture: TableCapture) -> Table:
        if capture.id not in self._tables:
            self._tables[capture.id] = capture.table(self.mixed.get(capture.id, frozenset()))
        return self._tables[capture.id]
