"""The shapes of captured tables, as the stream and the catalog tell of them: what became of a table whose columns are
others than before. It asks the catalog only about columns that are new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from headwater.model.change import Change
from headwater.model.schema import Column, Table
from headwater.model.value import Row
from headwater.sources.postgres.catalog.cache_validity import CacheValidity, emptied, shaken
from headwater.sources.postgres.catalog.captured_table import CachedRow, CapturedTable
from headwater.sources.postgres.catalog.compatibility import TableDescription, misfit, unsure
from headwater.sources.postgres.catalog.tables import PostgresTable, column_of, table_name
from headwater.sources.postgres.row_cache.row_cache import RowCache
from headwater.sources.postgres.server.value_types import BUILT_IN, Parse, Types
from headwater.sources.postgres.wire.messages import Relation
from headwater.sources.source import Item, SchemaChange

Look = Callable[[int], tuple[PostgresTable | None, Types]]  # oid → shape now, all types


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table as the stream last described it."""

    relation: Relation
    parsers: tuple[Parse, ...]


class TableShapes:
    """`reported` is the last position that was handed on, where changes of shape are told. `truncated` are the
    transactions that emptied a partitioned table and left it so, by oid. `flush` writes changes that are not in
    `row_cache` yet."""

    def __init__(self, row_cache: RowCache, look: Look, reported: int, flush: Callable[[int], None]) -> None:
        self.row_cache, self.look, self.reported, self._flush = row_cache, look, reported, flush
        self.known: dict[int, KnownTable] = {}
        self.truncated: dict[int, set[int]] = defaultdict(set)
        self._types = BUILT_IN

    def ended(self, capture: CapturedTable, reason: str, position: int) -> SchemaChange:
        """From the transaction at `position` on."""
        self.row_cache.drop(position, capture.oid)
        return SchemaChange(self.reported, capture.table, None, reason)

    def lost(self, capture: CapturedTable, reason: str, position: int) -> SchemaChange:
        """From the transaction at `position` on, until it is captured anew."""
        return replace(self.ended(capture, reason, position), lost=True)

    def fitted(self, shape: PostgresTable, position: int) -> list[SchemaChange]:
        """What the catalog has of a captured table, where everything up to `position` was reported."""
        capture = self.row_cache.captures[shape.oid]
        names, types = [one.name for one in shape.sent], [one.type for one in shape.sent]
        told = self._reshaped(
            capture, TableDescription(shape.name, names, types, shape.identity_columns), shape, position
        )
        return told or self._revalidated(capture, shape.validity, position)

    def _revalidated(self, capture: CapturedTable, validity: CacheValidity, position: int) -> list[SchemaChange]:
        reason = shaken(capture.table, capture.validity, validity)
        if reason is not None:
            return [self.ended(capture, reason, position)]
        if emptied(capture.validity, validity, self.truncated[capture.oid]):
            return [
                self.lost(capture, f"a partition of table {capture.table.name} was truncated or rewritten", position)
            ]
        if validity != capture.validity:
            self.row_cache.reshape(position, msgspec.structs.replace(capture, validity=validity))
        self.truncated[capture.oid] -= set(validity.touched.values())
        return []

    def described(self, relation: Relation, position: int) -> list[SchemaChange] | None:
        """What the stream says of a table that is about to change; None where nothing in it is new."""
        before = self.known.get(relation.oid)
        if before is not None and before.relation.columns == relation.columns and before.relation.name == relation.name:
            return None
        shape, self._types = self.look(relation.oid)
        types = [self._types.base(column.type) for column in relation.columns]
        self.known[relation.oid] = KnownTable(relation, tuple(map(self._types.parser, types)))
        capture = self.row_cache.captures.get(relation.oid)
        if capture is None or position <= capture.since:
            return []
        names, identity = (
            [column.name for column in relation.columns],
            [one.name for one in relation.columns if one.is_key],
        )
        now = TableDescription(table_name(relation.schema, relation.name), names, types, identity)
        return self._reshaped(capture, now, shape, position)

    def _reshaped(
        self, capture: CapturedTable, now: TableDescription, shape: PostgresTable | None, position: int
    ) -> list[SchemaChange]:
        reason = misfit(capture, now, shape)
        if reason is not None:
            return [self.ended(capture, reason, position)]
        wider = len(now.names) > len(capture.table.columns)
        return [self._extended(capture, now.names, now.types, shape, position)] if wider else []

    def _extended(
        self,
        capture: CapturedTable,
        names: Sequence[str],
        types: Sequence[int],
        shape: PostgresTable | None,
        position: int,
    ) -> SchemaChange:
        """Columns were added. Where what older rows hold cannot be known any more, the table ends."""
        table, width = capture.table, len(capture.table.columns)
        fields = {one.name: one for one in shape.fields} if shape is not None else {}
        validity = shape.validity if shape is not None else CacheValidity(file=-1)
        reason = shaken(table, capture.validity, validity) if shape is not None else None
        lost = [name for name in names[width:] if validity.file != capture.validity.file and unsure(fields.get(name))]
        if reason is not None or lost:
            rewritten = f"table {table.name} was rewritten with another column {' and '.join(lost)}"
            return self.ended(capture, reason or rewritten, position)
        added = [
            column_of(fields[name]) if name in fields else Column(name, self._types.type_of(type))
            for name, type in zip(names[width:], types[width:], strict=True)
        ]
        after = replace(table, columns=(*table.columns, *added), schema_id=table.schema_id + 1)
        identity = capture.identity if table.key else tuple(range(len(names)))
        kept = msgspec.structs.replace(validity, files=capture.validity.files, touched=capture.validity.touched)
        wider = msgspec.structs.replace(capture, table=after, types=tuple(types), identity=identity, validity=kept)
        if table.key:
            self.row_cache.reshape(position, wider)
        else:
            self._rekey(capture, wider, position)
        return SchemaChange(self.reported, table, after, f"columns were added to table {table.name}")

    def _rekey(self, capture: CapturedTable, wider: CapturedTable, position: int) -> None:
        """Rows that are their own keys have other keys now."""
        self._flush(position)
        rows = [CachedRow(wider.padded(held.row), held.count) for held in self.row_cache.all(capture)]
        self.row_cache.rewrite(position, wider, rows)


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
