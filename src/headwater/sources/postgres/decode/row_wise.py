"""From what PostgreSQL says of a transaction to what every source reports: rows before and after, and new shapes.

Rows before come from `Keeping`, and so do large values that an update did not touch. It asks the catalog only about
columns that are new.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from headwater.model.change import Change, Transaction
from headwater.model.errors import SourceError
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Value
from headwater.sources.postgres.catalog.captured_table import Captured, Held
from headwater.sources.postgres.catalog.continuity import Now, misfit, unsure
from headwater.sources.postgres.catalog.event_trigger import PREFIX
from headwater.sources.postgres.catalog.tables import Shape, column_of, table_name
from headwater.sources.postgres.catalog.validity import Grounds, emptied, shaken
from headwater.sources.postgres.decode.columnar import Followed, Odd, fits, translated
from headwater.sources.postgres.row_cache.row_cache import Keeping
from headwater.sources.postgres.server.value_types import BUILT_IN, Parse, Types, Unreadable
from headwater.sources.postgres.wire.assembly import Committed
from headwater.sources.postgres.wire.pgoutput import (
    UNCHANGED,
    Cell,
    Cells,
    Delete,
    Emitted,
    Insert,
    Relation,
    Truncate,
    Update,
)
from headwater.sources.postgres.wire.simple_transactions import EPOCH_S, Plain
from headwater.sources.source import Item, SchemaChange

Look = Callable[[int], tuple[Shape | None, Types]]  # oid → shape now, all types


class UnknownRow(SourceError):
    """A change that cannot be applied: its table is read anew, others go on."""

    def __init__(self, capture: Captured) -> None:
        super().__init__(f"a row of table {capture.table.name} changed that is not among those we know")
        self.capture = capture


@dataclass(frozen=True, slots=True)
class _Known:
    """A table as the stream last described it."""

    relation: Relation
    parsers: tuple[Parse, ...]


@dataclass(slots=True)
class Translation:
    """`waiting` holds what is said of tables whose rows are still being read, by oid. `heard_ddl`: time to look at the
    catalog. `truncated` are the transactions that emptied a partitioned table and left it so, by oid."""

    keeping: Keeping
    look: Look
    reported: int
    waiting: dict[int, list[tuple[int, Relation | Insert | Update | Delete | Truncate]]] = field(default_factory=dict)
    heard_ddl: bool = False
    truncated: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    _known: dict[int, _Known] = field(default_factory=dict)
    _types: Types = BUILT_IN
    _written: dict[tuple[int, bytes], Held] = field(default_factory=dict)
    _emptied: set[int] = field(default_factory=set)  # partitioned tables that the transaction at hand truncates

    def places(self, committed: Committed) -> Iterator[tuple[Captured, list[Value]]]:
        """What names the rows that the transaction changes, as far as its shapes are known."""
        for said in committed.said:
            if isinstance(said, Update | Delete) and said.oid in self._known:
                capture = self.keeping.captures.get(said.oid)
                cells = said.new if isinstance(said, Update) and said.old is None else said.old
                if capture is not None and cells is not None and not said.old_is_whole:
                    parsers = self._known[said.oid].parsers
                    with contextlib.suppress(Unreadable):
                        yield capture, [_value(cells[place], parsers[place]) for place in capture.identity]

    def items(self, committed: Committed) -> list[Item]:
        """The transaction, and before it the new shapes of tables that it tells of. Each once, in order."""
        items: list[Item] = []
        changes: list[Change] = []
        for said in committed.said:
            if isinstance(said, Relation):
                items += self._described(said, committed.position)
            elif isinstance(said, Emitted):
                self.heard_ddl = self.heard_ddl or said.prefix == PREFIX
            else:
                try:
                    changes += self._said(said, committed.position)
                except Unreadable as error:
                    items.append(self._unreadable(said, error, committed.position))
                except UnknownRow as unknown:
                    items.append(self._lost(unknown.capture, unknown.message, committed.position))
        if self._emptied:
            self._note_truncated(committed)
        self._keep(committed.position)
        self.reported = committed.position
        kept = in_shape(changes, items) if items else changes
        done = Transaction(committed.position, tuple(kept), committed.at_us / 1e6 + EPOCH_S)
        return [*items, done] if kept else items

    def columns(self, plain: Plain, after: int) -> list[Transaction]:
        """What `items` gives for each of the transactions behind `after`, at once and coalesced. Raises `Odd` where
        they must be read row by row, before anything has changed."""
        tables = {oid: self._followed(oid) for oid in plain.tables() if self._concerns(oid)}
        try:
            done = translated(plain, tables, after)
        except Unreadable:
            raise Odd from None  # row by row it is found which
        positions = done.stretch.positions
        if positions:
            self.keeping.write_runs(positions[0], positions[-1], done.runs)
        self.reported = max(self.reported, int(plain.positions[-1]))
        return done.stretch.transactions()

    def _concerns(self, oid: int) -> bool:
        if oid in self.waiting:
            raise Odd
        return oid in self.keeping.captures

    def _followed(self, oid: int) -> Followed:
        capture, known = self.keeping.captures[oid], self._known.get(oid)
        if known is None or not fits(capture) or len(known.parsers) != len(capture.table.columns):
            raise Odd
        self.keeping.freeze()
        return Followed(self.keeping.keyed(capture), known.parsers, self.keeping.layers(oid))

    def begin(self, oid: int) -> None:
        """The rows of the table are being read: what is said of it waits."""
        self.waiting[oid] = []

    def ready(self, capture: Captured) -> None:
        """The rows are there, as of `since`: what was said later catches up, and is not reported."""
        for position, said in self.waiting.pop(capture.oid):
            if isinstance(said, Relation):
                self._refuse_other_shape(capture, said)
            else:
                self._changes(said, position)
            self._keep(position)

    def _refuse_other_shape(self, capture: Captured, relation: Relation) -> None:
        if tuple(column.name for column in relation.columns) != capture.table.names:
            raise SourceError(
                f"expected table {capture.table.name} to stay as it was while it was read, found a change of columns",
                hint="subscribe again",
            )

    def ended(self, capture: Captured, reason: str, position: int) -> SchemaChange:
        """From the transaction at `position` on."""
        self.keeping.drop(position, capture.oid)
        return SchemaChange(self.reported, capture.table, None, reason)

    def _lost(self, capture: Captured, reason: str, position: int) -> SchemaChange:
        """From the transaction at `position` on, until it is captured anew."""
        return replace(self.ended(capture, reason, position), lost=True)

    def fitted(self, shape: Shape, position: int) -> list[SchemaChange]:
        """What the catalog has of a captured table, where everything up to `position` was reported."""
        capture = self.keeping.captures[shape.oid]
        names, types = [one.name for one in shape.sent], [one.type for one in shape.sent]
        told = self._reshaped(capture, Now(shape.name, names, types, shape.identity_columns), shape, position)
        return told or self._grounded(capture, shape.grounds, position)

    def _grounded(self, capture: Captured, grounds: Grounds, position: int) -> list[SchemaChange]:
        reason = shaken(capture.table, capture.grounds, grounds)
        if reason is not None:
            return [self.ended(capture, reason, position)]
        if emptied(capture.grounds, grounds, self.truncated[capture.oid]):
            return [self._lost(capture, f"a partition of table {capture.table.name} was truncated or packed", position)]
        if grounds != capture.grounds:
            self.keeping.reshape(position, msgspec.structs.replace(capture, grounds=grounds))
        self.truncated[capture.oid] -= set(grounds.touched.values())
        return []

    def _note_truncated(self, committed: Committed) -> None:
        """Where more was said of a table after that, its partitions may have been truncated in between."""
        last = {oid: said for said in committed.said if not isinstance(said, Relation | Emitted) for oid in _oids(said)}
        for oid in self._emptied:
            if isinstance(last[oid], Truncate):
                self.truncated[oid].add(committed.xid)
        self._emptied = set()

    def _keep(self, position: int) -> None:
        self.keeping.write(position, self._written)
        self._written = {}

    # Rows

    def _said(self, said: Insert | Update | Delete | Truncate, position: int) -> Sequence[Change]:
        if isinstance(said, Update) and said.old is None:
            return self._updated(said, position)
        return self._changes(said, position)

    def _unreadable(self, said: Insert | Update | Delete | Truncate, error: Unreadable, position: int) -> SchemaChange:
        assert not isinstance(said, Truncate)
        capture = self.keeping.captures[said.oid]
        return self.ended(capture, f"table {capture.table.name} cannot be followed: {error.message}", position)

    def _changes(self, said: Insert | Update | Delete | Truncate, position: int) -> list[Change]:
        if isinstance(said, Truncate):
            return [change for oid in said.oids for change in self._truncated(oid, said, position)]
        capture = self._reported(said.oid, said, position)
        if capture is None:
            return []
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
        capture = self.keeping.captures.get(said.oid)
        if capture is None or not capture.table.key or said.oid in self.waiting or UNCHANGED in said.new:
            return self._changes(said, position)
        if position <= capture.since:
            return ()
        row = self._row(said.oid, said.new, None)
        held = self._held(capture, capture.named(row))
        if held is None:
            raise UnknownRow(capture)
        self._written[said.oid, capture.key(row)] = Held(row, 1)
        before = held.row if len(held.row) == len(row) else capture.padded(held.row)
        return (Change(capture.table.name, before, row),)

    def _truncated(self, oid: int, said: Truncate, position: int) -> list[Change]:
        capture = self._reported(oid, Truncate(said.xid, (oid,), said.cascade, said.restart_identity), position)
        if capture is None:
            return []
        if capture.grounds.files:
            self._emptied.add(oid)
        rows = {(oid, capture.key(held.row)): held for held in self.keeping.all(capture)}
        rows |= {key: held for key, held in self._written.items() if key[0] == oid}
        self._written |= {key: Held(held.row, 0) for key, held in rows.items()}
        return [
            Change(capture.table.name, capture.padded(held.row), None)
            for held in rows.values()
            for _ in range(held.count)
        ]

    def _reported(self, oid: int, said: Insert | Update | Delete | Truncate, position: int) -> Captured | None:
        if oid in self.waiting:
            self.waiting[oid].append((position, said))
            return None
        capture = self.keeping.captures.get(oid)
        return capture if capture is not None and position > capture.since else None

    def _row(self, oid: int, cells: Cells, before: Row | None) -> Row:
        parsers = self._known[oid].parsers
        if UNCHANGED not in cells:
            return tuple([None if cell is None else parse(cell) for cell, parse in zip(cells, parsers, strict=True)])  # type: ignore[arg-type]
        assert before is not None
        known = enumerate(zip(cells, parsers, strict=True))
        return tuple([before[n] if cell is UNCHANGED else _value(cell, parse) for n, (cell, parse) in known])

    def _before(self, capture: Captured, oid: int, cells: Cells, is_whole: bool) -> Row:
        """The row that these cells name by its key, or are themselves."""
        parsers = self._known[oid].parsers
        if is_whole and UNCHANGED not in cells:
            return self._row(oid, cells, None)
        named = [_value(cells[place], parsers[place]) for place in capture.identity]
        held = self._held(capture, named)
        if held is None:
            raise UnknownRow(capture)
        return capture.padded(held.row)

    def _held(self, capture: Captured, named: Sequence[Value]) -> Held | None:
        held = self._written.get((capture.oid, capture.key_of(named)))
        if held is None:
            return self.keeping.held(capture, named)
        return held if held.count else None

    def _changed(self, capture: Captured, old: Row | None, new: Row | None) -> list[Change]:
        if capture.table.key:
            self._put(capture, old, new)
        else:
            self._count(capture, old, -1)
            self._count(capture, new, +1)
        return [Change(capture.table.name, old, new)]

    def _put(self, capture: Captured, old: Row | None, new: Row | None) -> None:
        """One row a key, at most."""
        if old is not None:
            self._written[capture.oid, capture.key(old)] = Held(old, 0)
        if new is not None:
            self._written[capture.oid, capture.key(new)] = Held(new, 1)

    def _count(self, capture: Captured, row: Row | None, by: int) -> None:
        """Equal rows are told apart by nobody."""
        if row is not None:
            held = self._held(capture, capture.named(row))
            count = (held.count if held is not None else 0) + by
            self._written[capture.oid, capture.key(row)] = Held(row, max(count, 0))

    # Shapes

    def _described(self, relation: Relation, position: int) -> list[SchemaChange]:
        before = self._known.get(relation.oid)
        if before is not None and before.relation.columns == relation.columns and before.relation.name == relation.name:
            return []
        shape, self._types = self.look(relation.oid)
        types = [self._types.base(column.type) for column in relation.columns]
        self._known[relation.oid] = _Known(relation, tuple(map(self._types.parser, types)))
        if relation.oid in self.waiting:
            self.waiting[relation.oid].append((position, relation))
        capture = self.keeping.captures.get(relation.oid)
        if capture is None or position <= capture.since:
            return []
        names, identity = (
            [column.name for column in relation.columns],
            [one.name for one in relation.columns if one.is_key],
        )
        now = Now(table_name(relation.schema, relation.name), names, types, identity)
        return self._reshaped(capture, now, shape, position)

    def _reshaped(self, capture: Captured, now: Now, shape: Shape | None, position: int) -> list[SchemaChange]:
        reason = misfit(capture, now, shape)
        if reason is not None:
            return [self.ended(capture, reason, position)]
        wider = len(now.names) > len(capture.table.columns)
        return [self._extended(capture, now.names, now.types, shape, position)] if wider else []

    def _extended(
        self, capture: Captured, names: Sequence[str], types: Sequence[int], shape: Shape | None, position: int
    ) -> SchemaChange:
        """Columns were added. Where what older rows hold cannot be known any more, the table ends."""
        table, width = capture.table, len(capture.table.columns)
        fields = {one.name: one for one in shape.fields} if shape is not None else {}
        grounds = shape.grounds if shape is not None else Grounds(file=-1)
        reason = shaken(table, capture.grounds, grounds) if shape is not None else None
        lost = [name for name in names[width:] if grounds.file != capture.grounds.file and unsure(fields.get(name))]
        if reason is not None or lost:
            rewritten = f"table {table.name} was rewritten with another column {' and '.join(lost)}"
            return self.ended(capture, reason or rewritten, position)
        added = [
            column_of(fields[name]) if name in fields else Column(name, self._types.type_of(type))
            for name, type in zip(names[width:], types[width:], strict=True)
        ]
        after = replace(table, columns=(*table.columns, *added), schema_id=table.schema_id + 1)
        identity = capture.identity if table.key else tuple(range(len(names)))
        kept = msgspec.structs.replace(grounds, files=capture.grounds.files, touched=capture.grounds.touched)
        wider = Captured(capture.oid, after, tuple(types), identity, capture.since, capture.parts, kept)
        if table.key:
            self.keeping.reshape(position, wider)
        else:
            self._rekey(capture, wider, position)
        return SchemaChange(self.reported, table, after, f"columns were added to table {table.name}")

    def _rekey(self, capture: Captured, wider: Captured, position: int) -> None:
        """Rows that are their own keys have other keys now."""
        self._keep(position)
        rows = [Held(wider.padded(held.row), held.count) for held in self.keeping.all(capture)]
        self.keeping.rewrite(position, wider, rows)


def _oids(said: Insert | Update | Delete | Truncate) -> tuple[int, ...]:
    return said.oids if isinstance(said, Truncate) else (said.oid,)


def _value(cell: Cell, parse: Parse) -> Value:
    return parse(cell) if isinstance(cell, bytes) else None


def in_shape(changes: Sequence[Change], told: Sequence[Item]) -> list[Change]:
    """Changes that come after new shapes were told, though some were made before: in those shapes."""
    after = {item.before.name: item.after for item in told if isinstance(item, SchemaChange)}
    kept = [one for one in changes if after.get(one.table, ...) is not None]
    return [
        Change(one.table, _wide(one.old, after.get(one.table)), _wide(one.new, after.get(one.table))) for one in kept
    ]


def _wide(row: Row | None, table: Table | None) -> Row | None:
    if row is None or table is None:
        return row
    return row + tuple(column.default for column in table.columns[len(row) :])
