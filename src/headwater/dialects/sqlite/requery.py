"""Queries that only SQLite can answer: which tables and results their words mean, and how they are collated.

Values have an order of their own: only the collation must be clear.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.dialects.sqlite import equality_keys
from headwater.dialects.sqlite.functions import CLOCKS, VOLATILE
from headwater.model.schema import Column, Table
from headwater.model.value import Value
from headwater.sql.ir.collation import COLLATIONS
from headwater.sql.outline.asked_values import NamedTable
from headwater.sql.outline.order_terms import Sort
from headwater.sql.outline.outline import FromItem, Outline, Spoken
from headwater.sql.outline.tokens import NoOutline

_BUILT_IN = ("BINARY", "NOCASE", "RTRIM")  # collations
_NOW = re.compile(r"'\s*now\s*'|\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)|\bcurrent_(?:date|time)", re.I)
_LONELY_FORMAT = re.compile(r"\bstrftime\s*\([^(),]*\)", re.I)  # with no time given, it is now


@dataclass(frozen=True, slots=True)
class SqliteRequery:
    """A `DialectRequery`."""

    nulls_are_smallest: bool = True

    def is_volatile(self, function: str, sql: str, values: Sequence[Any]) -> bool:
        if function not in CLOCKS:
            return function in VOLATILE
        given = any(str(value).strip().lower() == "now" for value in values)
        return given or bool(_NOW.search(sql) or _LONELY_FORMAT.search(sql))

    def table(self, item: FromItem | NamedTable, tables: Mapping[str, Table]) -> Table | None:
        named = (table for table in tables.values() if table.name.lower() == item.name.lower())
        return next(named, None) if item.schema in ("", "main") else None

    def equals_alike(self, one: Column, other: Column) -> bool:
        return one.collation.upper() == other.collation.upper() == "BINARY"

    def row_list(self, rows: Sequence[str]) -> str:
        return f"VALUES {', '.join(rows)}"

    def same_name(self, one: str, other: str) -> bool:
        return one.lower() == other.lower()

    def asked_key(self, column: Column, value: Value) -> Hashable | None:
        return equality_keys.asked_key(value) if column.collation.upper() in _BUILT_IN else None

    def stored_key(self, column: Column, value: Value) -> Hashable | None:
        return equality_keys.stored_key(value)

    def may_name_result(self, sort: Sort) -> bool:
        return True

    def means_result(self, sort: Sort, result: str, found: Outline, tables: Mapping[str, Table]) -> bool:
        """A column that USING or NATURAL joins by has a meaning of its own, which may be another than a result's."""
        joined = any(word in f" {found.body.upper()} " for word in ("USING", "NATURAL"))
        return not (joined and sum(sort.name.lower() in map(str.lower, table.names) for table in tables.values()) > 1)

    def collation(self, sort: Sort, result: int | None, found: Outline, tables: Mapping[str, Table]) -> str:
        said = Spoken(sort.words, sort.column) if result is None else _said(result, found.results)
        collations = {sort.collation.upper()} if sort.collation else _collations(said, tables)
        if len(collations) != 1 or not collations <= {*COLLATIONS}:
            raise NoOutline(f"we do not know how {sort.whole} is collated")
        return collations.pop()

    def tie(self, written: str, column: Column) -> str:
        return written if column.collation.upper() == "BINARY" else f"{written} COLLATE BINARY"

    def refuse_unordered(self, places: Sequence[int], columns: Sequence[Column]) -> None:
        """Every value has its place."""


def _said(result: int, results: Sequence[Spoken]) -> Spoken:
    """Of a result by its place; of all of them where a star stands for several."""
    if not any(one.star for one in results):
        return results[result]
    return Spoken(frozenset[str]().union(*(one.words for one in results)), star=True)


def _collations(said: Spoken, tables: Mapping[str, Table]) -> set[str]:
    """What it may be: that of the column it is, else BINARY, but for what is made of columns collated otherwise."""
    columns = [column for table in tables.values() for column in table.columns]
    if said.column is not None:
        named = {column.collation.upper() for column in columns if column.name.lower() == said.column.name.lower()}
        return named or {"BINARY"}
    collated = {column.name.lower() for column in columns if column.collation.upper() != "BINARY"}
    unclear = "collate" in said.words or collated & said.words or (collated and said.star)
    return set() if unclear else {"BINARY"}


SQLITE_REQUERY = SqliteRequery()
