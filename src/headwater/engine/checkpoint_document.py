"""The document of a checkpoint: one small file that names the run files of the state and holds everything else.

It never reads or writes a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from headwater.engine.dataflow_state import ActiveTemplate
from headwater.engine.operators.derived import SavedDerived
from headwater.engine.state.table.store_files import StoreFiles
from headwater.engine.windows.window import Window
from headwater.model.errors import Corrupt
from headwater.model.schema import Column, Table
from headwater.model.value import Type, pack_any, unpack_any
from headwater.plan.template import Instance


@dataclass(frozen=True, slots=True)
class SavedState:
    """`files` are all files the state needs, by name; `document` is what `load` wants to see again."""

    files: list[str]
    document: bytes


class _ColumnDocument(msgspec.Struct, array_like=True):
    name: str
    type: Type
    declared: str
    collation: str
    nullable: bool
    default: bytes | None  # packed


class _TableDocument(msgspec.Struct, array_like=True):
    name: str
    columns: list[_ColumnDocument]
    key: tuple[str, ...]
    schema_id: int
    dialect: str = "sqlite"


class _WindowDocument(msgspec.Struct, array_like=True):
    id: int
    template: str
    values: tuple[bytes | None, ...]  # packed
    limit: int | None
    offset: int
    seq: int
    prev: int
    names: dict[int, int]


class _CheckpointDocument(msgspec.Struct):
    tables: list[_TableDocument]
    stores: dict[str, StoreFiles]
    derived: dict[str, bytes]
    counts: dict[str, list[str]]
    templates: list[tuple[str, str, Mapping[str, int]]]
    windows: list[str]
    answers: list[str]


@dataclass(frozen=True, slots=True)
class SavedWindow:
    instance: Instance
    seq: int
    prev: int
    names: dict[int, int]


@dataclass(frozen=True, slots=True)
class CheckpointContents:
    """A document as it was read. `counts` are the files that count the rows of tables without a key. A template is its
    id, its text, and how many columns the tables of its relation had. `windows` and `answers` name files."""

    tables: list[Table]
    stores: dict[str, StoreFiles]
    derived: dict[str, bytes]
    counts: dict[str, list[str]]
    templates: list[tuple[str, str, Mapping[str, int]]]
    windows: list[str]
    answers: list[str]


def saved_state(
    tables: Mapping[str, Table],
    stores: Mapping[str, StoreFiles],
    derived: Mapping[str, SavedDerived],
    counts: Mapping[str, list[str]],
    changelogs: tuple[list[str], list[str]],
    active: Iterable[ActiveTemplate],
) -> SavedState:
    """`changelogs`: the files of the windows that are maintained, and of those that the source answers."""
    document = _CheckpointDocument(
        [_table_document(table) for table in tables.values()],
        dict(stores),
        {name: one.document for name, one in derived.items()},
        dict(counts),
        [(one.template.id, one.template.sql, one.widths) for one in active],
        *changelogs,
    )
    rows = [one.names for one in stores.values()]
    every = [*rows, *(one.files for one in derived.values()), *counts.values(), *changelogs]
    return SavedState([name for names in every for name in names], msgspec.msgpack.encode(document))


def _table_document(table: Table) -> _TableDocument:
    columns = [_ColumnDocument(c.name, c.type, c.declared, c.collation, c.nullable, c.filler) for c in table.columns]
    return _TableDocument(table.name, columns, table.key, table.schema_id, table.dialect)


def pack_window(window: Window) -> bytes:
    one = window.instance
    packed = tuple(pack_any(value) for value in one.values)
    names = window.names.kept
    return msgspec.msgpack.encode(
        _WindowDocument(one.id, one.template, packed, one.limit, one.offset, window.seq, window.prev, names)
    )


def unpack_window(packed: bytes) -> SavedWindow:
    read = msgspec.msgpack.decode(packed, type=_WindowDocument)
    values = tuple(unpack_any(value) for value in read.values)
    instance = Instance(read.id, read.template, values, read.limit, read.offset)
    return SavedWindow(instance, read.seq, read.prev, read.names)


class OtherFormat(Corrupt):
    """A document that another version wrote."""


def read_document(document: bytes) -> CheckpointContents:
    try:
        read = msgspec.msgpack.decode(document, type=_CheckpointDocument)
    except msgspec.ValidationError as error:
        raise OtherFormat(f"the checkpoint was written by another version: {error}") from None
    return CheckpointContents(
        [_table(table) for table in read.tables],
        read.stores,
        read.derived,
        read.counts,
        read.templates,
        read.windows,
        read.answers,
    )


def _table(read: _TableDocument) -> Table:
    columns = tuple(Column(c.name, c.type, c.declared, c.collation, c.nullable, c.default) for c in read.columns)
    return Table(read.name, columns, read.key, read.schema_id, read.dialect)
