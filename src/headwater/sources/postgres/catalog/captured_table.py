"""A captured table in one shape: what tells its rows apart, and how a row reads that is older than its columns.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from headwater.model.encoding.keys import encode_value
from headwater.model.encoding.tagged_bytes import storable
from headwater.model.key_demand import Demands
from headwater.model.schema import Table
from headwater.model.value import Row, Value
from headwater.sources.postgres.catalog.cache_validity import CacheValidity
from headwater.sources.postgres.catalog.tables import PostgresTable

_encode = msgspec.msgpack.Encoder().encode
_AS_THEY_ARE = frozenset({type(None), bool, int, str, bytes})  # where equal values look the same


class CapturedTable(msgspec.Struct, frozen=True, rename={"validity": "grounds"}):
    """A table in one shape. `types` are oids, by column; changes up to `since` are in its rows already.

    `identity` are the places of the columns that tell one row from another; all of them where there is no key.
    `parts` and `validity` are as in `PostgresTable`; on disk, `validity` is called `grounds`. `demands` are the keys
    whose rows are followed, where the table is held by key; None where all rows are.
    """

    oid: int
    table: Table
    types: tuple[int, ...]
    identity: tuple[int, ...]
    since: int
    parts: frozenset[int] = frozenset()
    validity: CacheValidity = CacheValidity()
    demands: Demands | None = None

    def named(self, row: Row) -> list[Value]:
        """The values that tell the row from others."""
        return [row[place] for place in self.identity]

    def key(self, row: Row) -> bytes:
        return self.key_of(self.named(row))

    def key_of(self, values: Sequence[Value]) -> bytes:
        """The values of the columns that tell rows apart, as one: by what is equal, or to the bit where that is all."""
        if len(values) == 1 and type(values[0]) in _AS_THEY_ARE:
            return _encode(values)
        if not self.table.key:
            return _encode(storable(values))
        return _encode([value if type(value) in _AS_THEY_ARE else encode_value(value) for value in values])

    def padded(self, row: Row) -> Row:
        """A row that may be older than the last columns."""
        missing = self.table.columns[len(row) :]
        return row + tuple(column.default for column in missing) if missing else row


@dataclass(slots=True)
class CachedRow:
    """What is under a key, and never changed. A row without a key of its own may be there several times; none is left
    where `count` is 0, and then only what names the row is sure."""

    row: Row
    count: int


def capture_of(shape: PostgresTable, position: int) -> CapturedTable:
    """The table as it is at the position."""
    table = shape.table(schema_id=position)
    identity = shape.identity_columns if shape.identity != "f" else shape.key
    places = tuple(table.index(name) for name in identity or table.names)
    types = tuple(field.type for field in shape.sent)
    return CapturedTable(shape.oid, table, types, places, position, shape.parts, shape.validity)


def has_shape(capture: CapturedTable, shape: PostgresTable) -> bool:
    """Whether its columns, by name and type, are those of the shape."""
    return capture.table.names == tuple(field.name for field in shape.sent) and capture.types == tuple(
        field.type for field in shape.sent
    )


def as_known(shape: PostgresTable, capture: CapturedTable | None) -> Table:
    return capture.table if capture is not None and has_shape(capture, shape) else shape.table()
