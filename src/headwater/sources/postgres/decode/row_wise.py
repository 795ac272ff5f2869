"""From what PostgreSQL says of a transaction to what every source reports: rows before and after, and new shapes.

Rows before come from `RowCache`, and so do large values that an update did not touch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from headwater.model.change import Change, Transaction
from headwater.model.errors import SourceError
from headwater.model.value import Row, Value
from headwater.sources.postgres.catalog.captured_table import CachedRow, CapturedTable
from headwater.sources.postgres.catalog.event_trigger import PREFIX
from headwater.sources.postgres.decode.by_key import RowsByKey
from headwater.sources.postgres.decode.columnar import FollowedTable, NeedsRowWise, decode_columns, fits
from headwater.sources.postgres.decode.table_shapes import Look, TableShapes, in_shape
from headwater.sources.postgres.row_cache.row_cache import RowCache
from headwater.sources.postgres.server.value_types import Parse, Unreadable
from headwater.sources.postgres.wire.messages import (
    UNCHANGED,
    Cell,
    Cells,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    Truncate,
    Update,
)
from headwater.sources.postgres.wire.simple_transactions import EPOCH_S, SimpleTransactions
from headwater.sources.postgres.wire.transaction_assembly import CommittedTransaction
from headwater.sources.source import Item, SchemaChange


class UnknownRow(SourceError):
    """A change that cannot be applied: its table is read anew, others go on."""

    def __init__(self, capture: CapturedTable) -> None:
        super().__init__(f"a row of table {capture.table.name} changed that Headwater does not know")
        self.capture = capture


RowMessage = Insert | Update | Delete | Truncate
Reread = Callable[[CapturedTable, Cells, int], Row | None]  # a table, what names a row of it, an xid


class RowWiseDecoder:
    """`waiting` holds what is said of tables whose rows are still being read, by oid; `overheard` what is said of
    tables while rows of some keys are read. `heard_ddl`: time to look at the catalog."""

    __slots__ = (
        "_by_key",
        "_emptied",
        "_known",
        "_reread",
        "_written",
        "_xid",
        "heard_ddl",
        "overheard",
        "row_cache",
        "shapes",
        "waiting",
    )

    def __init__(self, row_cache: RowCache, look: Look, reported: int, reread: Reread = lambda *_: None) -> None:
        """`reread` finds a row as a transaction left it, where nothing has changed it since."""
        self.row_cache = row_cache
        self.shapes = TableShapes(row_cache, look, reported, self._keep)
        self._known = self.shapes.known
        self.waiting: dict[int, list[tuple[int, Relation | RowMessage]]] = {}
        self.overheard: dict[int, list[tuple[int, Relation | RowMessage]]] = {}
        self.heard_ddl = False
        self._by_key: dict[int, RowsByKey] = {}
        self._reread, self._xid = reread, 0
        self._written: dict[tuple[int, bytes], CachedRow] = {}
        self._emptied: set[int] = set()  # partitioned tables that the transaction at hand truncates

    def places(self, committed: CommittedTransaction) -> Iterator[tuple[CapturedTable, list[Value]]]:
        """What names the rows that the transaction changes, as far as its shapes are known."""
        for said in committed.said:
            if isinstance(said, Update | Delete) and said.oid in self._known:
                capture = self.row_cache.captures.get(said.oid)
                cells = said.new if isinstance(said, Update) and said.old is None else said.old
                if capture is not None and cells is not None and not said.old_is_whole:
                    parsers = self._known[said.oid].parsers
                    with contextlib.suppress(Unreadable):
                        yield capture, [_value(cells[place], parsers[place]) for place in capture.identity]

    def items(self, committed: CommittedTransaction) -> list[Item]:
        """The transaction, and before it the new shapes of tables that it tells of. Each once, in order."""
        items: list[Item] = []
        changes: list[Change] = []
        self._xid = committed.xid
        for said in committed.said:
            if isinstance(said, Relation):
                items += self._described(said, committed.position)
            elif isinstance(said, LogicalMessage):
                self.heard_ddl = self.heard_ddl or said.prefix == PREFIX
            else:
                try:
                    changes += self._said(said, committed.position)
                except Unreadable as error:
                    items.append(self._unreadable(said, error, committed.position))
                except UnknownRow as unknown:
                    items.append(self.shapes.lost(unknown.capture, unknown.message, committed.position))
        if self._emptied:
            self._note_truncated(committed)
        self._keep(committed.position)
        self.shapes.reported = committed.position
        kept = in_shape(changes, items) if items else changes
        done = Transaction(committed.position, tuple(kept), committed.at_us / 1e6 + EPOCH_S)
        return [*items, done] if kept else items

    def columns(self, simple: SimpleTransactions, after: int) -> list[Transaction]:
        """What `items` gives for each of the transactions behind `after`, at once and coalesced. Raises
        `NeedsRowWise` where they must be read row by row, before anything has changed."""
        oids = [oid for oid in simple.tables() if self._concerns(oid)]
        self._refuse_by_key(simple, oids)
        tables = {oid: self._followed(oid) for oid in oids}
        try:
            done = decode_columns(simple, tables, after)
        except Unreadable:
            raise NeedsRowWise from None  # row by row it is found which
        positions = done.changes.positions
        if positions:
            self.row_cache.write_runs(positions[0], positions[-1], done.runs)
        self.shapes.reported = max(self.shapes.reported, int(simple.positions[-1]))
        return done.changes.transactions()

    def _concerns(self, oid: int) -> bool:
        if oid in self.waiting:
            raise NeedsRowWise
        return oid in self.row_cache.captures

    def _refuse_by_key(self, simple: SimpleTransactions, oids: Sequence[int]) -> None:
        """Of a table that is held by key, each row is looked at by itself."""
        by_key = [oid for oid in oids if self.row_cache.captures[oid].demands is not None]
        if by_key:
            raise NeedsRowWise(frozenset(simple.tx[np.isin(simple.oids, by_key)].tolist()))

    def _followed(self, oid: int) -> FollowedTable:
        capture, known = self.row_cache.captures[oid], self._known.get(oid)
        if known is None or not fits(capture) or len(known.parsers) != len(capture.table.columns):
            raise NeedsRowWise
        self.row_cache.freeze()
        return FollowedTable(self.row_cache.keyed(capture), known.parsers, self.row_cache.layers(oid))

    def begin(self, oid: int) -> None:
        """The rows of the table are being read: what is said of it waits."""
        self.waiting[oid] = []

    def ready(self, capture: CapturedTable) -> None:
        """The rows are there, as of `since`: what was said later catches up, and is not reported."""
        for position, said in self.waiting.pop(capture.oid):
            if isinstance(said, Relation):
                self._refuse_other_shape(capture, said)
            else:
                self._changes(said, position)
            self._keep(position)

    def _refuse_other_shape(self, capture: CapturedTable, relation: Relation) -> None:
        if tuple(column.name for column in relation.columns) != capture.table.names:
            raise SourceError(
                f"the columns of table {capture.table.name} changed while it was read",
                hint="subscribe again",
            )

    def _note_truncated(self, committed: CommittedTransaction) -> None:
        """Where more was said of a table after that, its partitions may have been truncated in between."""
        last = {
            oid: said
            for said in committed.said
            if not isinstance(said, Relation | LogicalMessage)
            for oid in _oids(said)
        }
        for oid in self._emptied:
            if isinstance(last[oid], Truncate):
                self.shapes.truncated[oid].add(committed.xid)
        self._emptied = set()

    def _keep(self, position: int) -> None:
        self.row_cache.write(position, self._written)
        self._written = {}

    def _described(self, relation: Relation, position: int) -> list[SchemaChange]:
        changed = self.shapes.described(relation, position)
        if changed is not None and relation.oid in self.waiting:
            self.waiting[relation.oid].append((position, relation))
        if changed is not None and relation.oid in self.overheard:
            self.overheard[relation.oid].append((position, relation))
        return changed or []

    # Rows

    def _said(self, said: RowMessage, position: int) -> Sequence[Change]:
        if isinstance(said, Update) and said.old is None:
            return self._updated(said, position)
        return self._changes(said, position)

    def _unreadable(self, said: RowMessage, error: Unreadable, position: int) -> SchemaChange:
        assert not isinstance(said, Truncate)
        capture = self.row_cache.captures[said.oid]
        return self.shapes.ended(capture, f"table {capture.table.name} cannot be followed: {error.message}", position)

    def _changes(self, said: RowMessage, position: int) -> list[Change]:
        if isinstance(said, Truncate):
            return [change for oid in said.oids for change in self._truncated(oid, said, position)]
        capture = self._reported(said.oid, said, position)
        if capture is None:
            return []
        if capture.demands is not None:
            return self._changes_by_key(capture, said)
        match said:
            case Insert(new=new):
                return self._changed(capture, None, self._row(said.oid, new, None))
            case Update(old=old, new=new):
                before = self._before(capture, said.oid, old if old is not None else new, said.old_is_whole)
                return self._changed(capture, before, self._row(said.oid, new, before))
            case Delete(old=old):
                return self._changed(capture, self._before(capture, said.oid, old, said.old_is_whole), None)

    def _updated(self, said: Update, position: int) -> Sequence[Change]:
        """What `_changes` gives for most updates there are, sooner: the key stayed, and every value was sent."""
        capture = self.row_cache.captures.get(said.oid)
        is_whole = capture is not None and capture.demands is None
        if capture is None or not (is_whole and capture.table.key) or said.oid in self.waiting or UNCHANGED in said.new:
            return self._changes(said, position)
        if position <= capture.since:
            return ()
        row = self._row(said.oid, said.new, None)
        held = self._held(capture, capture.named(row))
        if held is None:
            raise UnknownRow(capture)
        self._written[said.oid, capture.key(row)] = CachedRow(row, 1)
        before = held.row if len(held.row) == len(row) else capture.padded(held.row)
        return (Change(capture.table.name, before, row),)

    def _truncated(self, oid: int, said: Truncate, position: int) -> list[Change]:
        capture = self._reported(oid, Truncate(said.xid, (oid,), said.cascade, said.restart_identity), position)
        if capture is None:
            return []
        if capture.validity.files:
            self._emptied.add(oid)
        rows = {(oid, capture.key(held.row)): held for held in self.row_cache.all(capture)}
        rows |= {key: held for key, held in self._written.items() if key[0] == oid}
        self._written |= {key: CachedRow(held.row, 0) for key, held in rows.items()}
        return [
            Change(capture.table.name, capture.padded(held.row), None)
            for held in rows.values()
            for _ in range(held.count)
        ]

    def _reported(self, oid: int, said: RowMessage, position: int) -> CapturedTable | None:
        if oid in self.waiting:
            self.waiting[oid].append((position, said))
            return None
        if oid in self.overheard:
            self.overheard[oid].append((position, said))
        capture = self.row_cache.captures.get(oid)
        return capture if capture is not None and position > capture.since else None

    def by_key(self, capture: CapturedTable) -> RowsByKey:
        """How the rows of a table are read that is held by key."""
        parsers, known = self._known[capture.oid].parsers, self._by_key.get(capture.oid)
        if known is None or known.capture is not capture or known.parsers is not parsers:
            known = self._by_key[capture.oid] = RowsByKey(capture, parsers)
        return known

    def _changes_by_key(self, capture: CapturedTable, said: Insert | Update | Delete) -> list[Change]:
        """What becomes of the rows that are asked for: one that is so no longer is gone, one that is so now is new."""
        rows = self.by_key(capture)
        named = rows.named(said)
        held = None if isinstance(said, Insert) else self._held(capture, named)
        before = None if held is None else capture.padded(held.row)
        after = None if isinstance(said, Delete) else self._after_by_key(rows, said.new, before)
        if before is None and after is None:
            return []
        return self._changed(capture, before, after)

    def _after_by_key(self, rows: RowsByKey, cells: Cells, before: Row | None) -> Row | None:
        """The row where it is asked for. One that was not, and lacks a large value, is read from the database."""
        if not rows.may_take(cells, before):
            return None
        row = rows.row(cells, before)
        if row is None:
            row = self._reread(rows.capture, tuple(cells[place] for place in rows.capture.identity), self._xid)
            if row is None:
                raise UnknownRow(rows.capture)
        return row if rows.demand.takes(row) else None

    def _row(self, oid: int, cells: Cells, before: Row | None) -> Row:
        parsers = self._known[oid].parsers
        if UNCHANGED not in cells:
            return tuple([None if cell is None else parse(cell) for cell, parse in zip(cells, parsers, strict=True)])  # type: ignore[arg-type]
        assert before is not None
        known = enumerate(zip(cells, parsers, strict=True))
        return tuple([before[n] if cell is UNCHANGED else _value(cell, parse) for n, (cell, parse) in known])

    def _before(self, capture: CapturedTable, oid: int, cells: Cells, is_whole: bool) -> Row:
        """The row that these cells name by its key, or are themselves."""
        parsers = self._known[oid].parsers
        if is_whole and UNCHANGED not in cells:
            return self._row(oid, cells, None)
        named = [_value(cells[place], parsers[place]) for place in capture.identity]
        held = self._held(capture, named)
        if held is None:
            raise UnknownRow(capture)
        return capture.padded(held.row)

    def _held(self, capture: CapturedTable, named: Sequence[Value]) -> CachedRow | None:
        held = self._written.get((capture.oid, capture.key_of(named)))
        if held is None:
            return self.row_cache.held(capture, named)
        return held if held.count else None

    def _changed(self, capture: CapturedTable, old: Row | None, new: Row | None) -> list[Change]:
        if capture.table.key:
            self._put(capture, old, new)
        else:
            self._count(capture, old, -1)
            self._count(capture, new, +1)
        return [Change(capture.table.name, old, new)]

    def _put(self, capture: CapturedTable, old: Row | None, new: Row | None) -> None:
        """One row a key, at most."""
        if old is not None:
            self._written[capture.oid, capture.key(old)] = CachedRow(old, 0)
        if new is not None:
            self._written[capture.oid, capture.key(new)] = CachedRow(new, 1)

    def _count(self, capture: CapturedTable, row: Row | None, by: int) -> None:
        """Equal rows are told apart by nobody."""
        if row is not None:
            held = self._held(capture, capture.named(row))
            count = (held.count if held is not None else 0) + by
            self._written[capture.oid, capture.key(row)] = CachedRow(row, max(count, 0))


def _oids(said: RowMessage) -> tuple[int, ...]:
    return said.oids if isinstance(said, Truncate) else (said.oid,)


def _value(cell: Cell, parse: Parse) -> Value:
    return parse(cell) if isinstance(cell, bytes) else None
