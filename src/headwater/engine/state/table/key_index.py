"""KeyIndex: the rows of a table store by key columns. It holds places and hashes, no rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools
from headwater.engine.state.table.place_index import PlaceIndex
from headwater.model.encoding.keys import Uint64s, encode_columns, hash_all, hash_columns
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Type


@dataclass(frozen=True, slots=True)
class IndexKey:
    """Columns, and by which collation each is compared."""

    columns: tuple[str, ...]
    collations: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, columns: tuple[str, ...]) -> IndexKey:
        """Each by the collation that it has."""
        return cls(columns, tuple(table.column(name).collation for name in columns))


@dataclass(slots=True)
class KeyIndex:
    key: IndexKey
    table: Table
    places: PlaceIndex

    def arrays(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(self.table.index(name)) for name in self.key.columns]

    @property
    def types(self) -> list[Type]:
        return [self.table.column(name).type for name in self.key.columns]

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        """The encoded key of each row."""
        return encode_columns(self.arrays(rows), self.types, self.key.collations)

    def hash_rows(self, rows: pa.RecordBatch) -> Uint64s:
        """The key hash of each row."""
        return hash_columns(self.arrays(rows), self.types, self.key.collations)

    def hashes(self, encoded: Sequence[bytes], rows: pa.RecordBatch) -> Uint64s:
        """The key hash of each row, whose keys were encoded already."""
        return self.hash_rows(rows) if rows.num_rows > SMALL.key_hash_rows else hash_all(encoded)

    def folded(self, rows: pa.RecordBatch, hash: Uint64s) -> Uint64s:
        """Key hashes with texts folded as NOCASE does; `hash` where that is the same."""
        numbers = (Type.INTEGER, Type.REAL, Type.BLOB)
        types = self.types
        if all(type in numbers or c == "NOCASE" for type, c in zip(types, self.key.collations, strict=True)):
            return hash
        return hash_columns(self.arrays(rows), types, ["NOCASE"] * len(types))

    def keyed(self, rows: pa.RecordBatch) -> Bools | None:
        """Which rows have no NULL in their key; None where all do."""
        columns = self.arrays(rows)
        if not any(column.null_count for column in columns):
            return None
        valid: Bools = np.logical_and.reduce([np.asarray(column.is_valid()) for column in columns])
        return valid
