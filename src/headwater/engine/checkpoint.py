"""State on disk: runs as files, each written once, and one small document for all the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa

from headwater.engine.operators.derived import SavedDerived
from headwater.engine.state import run_file
from headwater.engine.state.arrangement import Arrangement, ArrangementRun, compact
from headwater.engine.state.spill import Inside, inside
from headwater.engine.windows.params import Window
from headwater.fs.atomic_write import sync_directory
from headwater.model.schema import Column, Table
from headwater.model.value import Type, pack_any, unpack_any
from headwater.plan.template import Instance, Template

_OURS = ("#hash", "#id", "#live")
Place = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SavedState:
    """`files` are all files the state needs, by name; `document` is what `load` wants to see again."""

    files: list[str]
    document: bytes


class _Live(Protocol):
    template: Template
    widths: Mapping[str, int]


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
    arrangements: list[tuple[str, tuple[str, ...], list[str]]]
    derived: dict[str, bytes]
    counts: dict[str, list[str]]
    templates: list[tuple[str, Mapping[str, int]]]
    windows: list[str]
    answers: list[str]


@dataclass(frozen=True, slots=True)
class SavedWindow:
    instance: Instance
    seq: int
    prev: int
    names: dict[int, int]


@dataclass(frozen=True, slots=True)
class Read:
    """A document as `load` needs it. `counts` are the files that say how often each row of a key-less table is there. A
    template is its text, and how many columns the tables of its relation had. `windows` and `answers` are files of
    changelogs."""

    tables: list[Table]
    arrangements: list[tuple[str, tuple[str, ...], list[str]]]
    derived: dict[str, bytes]
    counts: dict[str, list[str]]
    templates: list[tuple[str, Mapping[str, int]]]
    windows: list[str]
    answers: list[str]


def saved_state(
    tables: Mapping[str, Table],
    files: Mapping[Place, list[str]],
    derived: Mapping[str, SavedDerived],
    counts: Mapping[str, list[str]],
    changelogs: tuple[list[str], list[str]],
    lives: Iterable[_Live],
) -> SavedState:
    """`changelogs`: the files of the windows, and of those that the origin answers."""
    document = _CheckpointDocument(
        [_table_document(table) for table in tables.values()],
        [(table, keys, names) for (table, keys), names in files.items()],
        {name: one.document for name, one in derived.items()},
        dict(counts),
        [(live.template.sql, live.widths) for live in lives],
        *changelogs,
    )
    every = [*files.values(), *(one.files for one in derived.values()), *counts.values(), *changelogs]
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


def read_document(document: bytes) -> Read:
    read = msgspec.msgpack.decode(document, type=_CheckpointDocument)
    return Read(
        [_table(table) for table in read.tables],
        read.arrangements,
        read.derived,
        read.counts,
        read.templates,
        read.windows,
        read.answers,
    )


def _table(read: _TableDocument) -> Table:
    columns = tuple(Column(c.name, c.type, c.declared, c.collation, c.nullable, c.default) for c in read.columns)
    return Table(read.name, columns, read.key, read.schema_id, read.dialect)


def save_runs(arrangement: Arrangement, directory: Path) -> list[str]:
    """The names of an arrangement's runs, oldest first, each durable."""
    arrangement.settle()
    unsaved = [run for run in arrangement.runs if run.file is None]
    for run in unsaved:
        run.file = run_file.write(_batch_of(run), directory)
    if unsaved:
        sync_directory(directory)
    return [run.file for run in arrangement.runs if run.file is not None]


def _batch_of(run: ArrangementRun) -> pa.RecordBatch:
    """Whether an entry lives is told in whole bytes: they need not be copied when they are read."""
    ours = [pa.array(run.hash), pa.array(run.id), pa.array(run.live.view(np.uint8))]
    names = pa.schema([pa.field(name, array.type) for name, array in zip(_OURS, ours, strict=True)])
    return pa.RecordBatch.from_arrays([*ours, *run.rows.columns], schema=pa.schema([*names, *run.rows.schema]))


def load_runs(directory: Path, files: Iterable[str], table: Table) -> list[ArrangementRun]:
    return [_load(directory / name, table) for name in files]


def runs_inside(arrangement: Arrangement, directory: Path) -> Iterator[Inside]:
    """Those in memory. All of them must have been saved."""
    return inside(arrangement.runs, lambda name: _load(directory / name, arrangement.table))


def _load(path: Path, table: Table) -> ArrangementRun:
    batch = run_file.read(path)
    hash, id, live = (np.asarray(batch.column(n)) for n in range(len(_OURS)))
    rows = pa.RecordBatch.from_arrays(batch.columns[len(_OURS) :], schema=table.arrow)
    return ArrangementRun(compact(hash), id, live.view(np.bool_), rows, path.name, mapped=True)
