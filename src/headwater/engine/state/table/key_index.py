"""KeyIndex: the rows of a table store by key columns. It holds places and hashes, no rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools
from headwater.engine.rows.hashes import NULL_KEY, key_hash
from headwater.engine.state.table.demanded_keys import DemandedKeys
from headwater.engine.state.table.place_index import PlaceIndex
from headwater.model.encoding.keys import Uint64s, encode_columns, hash_all, hash_columns
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Type

IndexKind = Literal["values", "join", "null aware"]


@dataclass(frozen=True, slots=True)
class IndexKey:
    """Columns, and by which collation each is compared. `kind`: found by the encoded values that instances have; or as
    joins find rows, whatever the types of the other side, where a NULL in a column that is not `null_safe` matches
    nothing, or, `null aware`, has a hash of its own. `asked`: only rows that all of these ask for; such an index
    is not saved, and follows the demand (`demanded_index.py`)."""

    columns: tuple[str, ...]
    collations: tuple[str, ...]
    kind: IndexKind = "values"
    null_safe: tuple[bool, ...] = ()
    asked: tuple[DemandedKeys, ...] = ()

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
        if self.key.kind == "values":
            return hash_columns(self.arrays(rows), self.types, self.key.collations)
        hash = key_hash(self.arrays(rows), self.types, self.key.collations, rows.num_rows)
        valid = self._valid(rows) if self.key.kind == "null aware" else None
        return hash if valid is None else np.where(valid, hash, NULL_KEY)

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
        """Which rows can be found; None for all."""
        found = None if self.key.kind == "null aware" else self._valid(rows)
        for each in self.key.asked:
            asked = each.of_rows(rows, self.table)
            found = asked if found is None else found & asked
        return found

    def _valid(self, rows: pa.RecordBatch) -> Bools | None:
        """Which rows have no NULL in their key; None where all do."""
        safe = self.key.null_safe or (False,) * len(self.key.columns)
        columns = [each for each, fine in zip(self.arrays(rows), safe, strict=True) if each.null_count and not fine]
        if not columns:
            return None
        valid: Bools = np.logical_and.reduce([np.asarray(column.is_valid()) for column in columns])
        return valid
