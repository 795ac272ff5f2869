"""Tables and columns as the pipeline sees them. New columns or new types mean a new `schema_id`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headwater.model.value import Type, Value, field, unpack_any


@dataclass(frozen=True, slots=True)
class Column:
    """`declared` is the database's name of the type; `filler` is the value that rows older than the column hold,
    packed: codecs know no union of all that a value may be."""

    name: str
    type: Type
    declared: str = ""
    collation: str = "BINARY"
    nullable: bool = True
    filler: bytes | None = None

    @property
    def default(self) -> Value:
        """`filler`, unpacked."""
        value: Value = unpack_any(self.filler)
        return value


@dataclass(frozen=True, slots=True)
class Table:
    """`key` names the columns of the primary key, in order; empty where there is none: then rows are a multiset.

    `dialect` is that of the SQL of its database.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    schema_id: int = 0
    dialect: str = "sqlite"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell one row from another: the key, or all of them."""
        return self.key or self.names

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def index(self, name: str) -> int:
        return self.names.index(name)

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([field(column.name, column.type) for column in self.columns])
