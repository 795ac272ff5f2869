"""Rows made to fit their table as it is now: appended columns filled in, columns that turned ANY packed.

It never drops a column: that ends the subscriptions of a table, and is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headwater.model.schema import Column, Table
from headwater.model.value import Type, field_type, from_array, to_array

TX, DIFF = "tx", "diff"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table with what every step asks of it, made once: its Arrow schema; its key as places, types and collations."""

    table: Table
    rows: pa.Schema
    key_places: tuple[int, ...]
    key_types: tuple[Type, ...]
    key_collations: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> TableSchema:
        key = [table.column(name) for name in table.key]
        places = tuple(map(table.index, table.key))
        return cls(table, table.arrow, places, tuple(one.type for one in key), tuple(one.collation for one in key))

    def key_of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(place) for place in self.key_places]

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a delta: its columns without the last two."""
        rows = batch.select(range(batch.num_columns - 2))
        return rows if rows.schema.equals(self.rows, check_metadata=True) else conform(rows, self.table)


def conform(batch: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    """The rows under the table's present schema."""
    if batch.schema.equals(table.arrow, check_metadata=True):
        return batch
    have = set(batch.schema.names)
    columns = [
        _conformed(batch, column) if column.name in have else to_array([column.default] * batch.num_rows, column.type)
        for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=table.arrow)


def _conformed(batch: pa.RecordBatch, column: Column) -> pa.Array:
    array, have = batch.column(column.name), field_type(batch.schema.field(column.name))
    return array if have is column.type else repacked(array, have, column.type)


def repacked(array: pa.Array, have: Type, want: Type) -> pa.Array:
    return to_array(from_array(array, have), want)
