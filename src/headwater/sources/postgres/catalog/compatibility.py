"""Whether the rows that we keep of a table can go on as the table is now: its name, columns, key and identity. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model.schema import Table
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.catalog.tables import PostgresColumn, PostgresTable


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as the stream or the catalog has it: its columns, and those that its old images have."""

    name: str
    names: Sequence[str]
    types: Sequence[int]
    identity: Sequence[str]


def misfit(capture: CapturedTable, now: TableDescription, shape: PostgresTable | None) -> str | None:
    """Why what we keep of a table cannot go on as the table is now; columns may have been added behind its own. While
    it has no replica identity only inserts can come: to end it then is for `DdlPoll`, which also unpublishes it."""
    table, width = capture.table, len(capture.table.columns)
    if now.name != table.name:
        return f"table {table.name} was renamed to {now.name}"
    if tuple(now.names[:width]) != table.names or tuple(now.types[:width]) != capture.types:
        return _column_reason(table, now.names, capture.types, now.types)
    if shape is not None and shape.key != table.key:
        return f"the primary key of table {table.name} was changed"
    if now.identity and not {table.names[place] for place in capture.identity} <= set(now.identity):
        return f"the replica identity of table {table.name} was changed"
    return None


def unsure(field: PostgresColumn | None) -> bool:
    """Of a column of a table that was rewritten: its older rows may hold anything."""
    return field is None or (field.has_default and not field.has_missing)


def _column_reason(table: Table, names: Sequence[str], before: Sequence[int], after: Sequence[int]) -> str:
    there = dict(zip(names, after, strict=True))
    gone = next(
        (name for name, type in zip(table.names, before, strict=True) if there.get(name) != type), table.names[-1]
    )
    return f"column {gone} of table {table.name} was renamed, dropped or given another type"
