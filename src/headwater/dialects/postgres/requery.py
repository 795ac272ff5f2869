"""Queries that only PostgreSQL can answer: which tables and results their words mean, and whose order is ours too.

PostgreSQL tells type and collation of what a query is ordered by.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.dialects.postgres import equality_keys
from headwater.dialects.postgres.types.kind import INTERVAL, PLAIN, REALS, PostgresKind, is_text
from headwater.dialects.postgres.types.kinds import kind_of_column
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.model.schema import Column, Table
from headwater.model.value import Value
from headwater.sql.outline.asked_values import NamedTable
from headwater.sql.outline.order_terms import Sort
from headwater.sql.outline.outline import FromItem, Outline
from headwater.sql.outline.tokens import NoOutline

_ORDERED = PLAIN | {INTERVAL, *REALS}
_TEXTS = ("text", "character varying")
_CLOCKS = ("date", "time")
_NOW = re.compile(r"'\s*now\s*'", re.I)


@dataclass(frozen=True, slots=True)
class PostgresRequery:
    """A `DialectRequery`."""

    nulls_are_smallest: bool = False

    def is_volatile(self, function: str, sql: str, values: Sequence[Any]) -> bool:
        """Those that read 'now'. The source itself refuses whatever PostgreSQL calls volatile."""
        given = any(str(value).strip().lower() == "now" for value in values)
        return function in _CLOCKS and (given or bool(_NOW.search(sql)))

    def table(self, item: FromItem | NamedTable, tables: Mapping[str, Table]) -> Table | None:
        return tables.get(item.name if item.schema in ("", "public") else f"{item.schema}.{item.name}")

    def equals_alike(self, one: Column, other: Column) -> bool:
        texts = all(column.declared.partition("(")[0] in _TEXTS for column in (one, other))
        return (texts or one.declared == other.declared) and "nondeterministic" not in (one.collation, other.collation)

    def row_list(self, rows: Sequence[str]) -> str:
        return ", ".join(rows)

    def same_name(self, one: str, other: str) -> bool:
        return one == other

    def asked_key(self, column: Column, value: Value) -> Hashable | None:
        return equality_keys.asked_key(column, value)

    def stored_key(self, column: Column, value: Value) -> Hashable | None:
        return equality_keys.stored_key(column, value)

    def may_name_result(self, sort: Sort) -> bool:
        """A term with COLLATE is an expression."""
        return not sort.collation

    def means_result(self, sort: Sort, result: str, found: Outline, tables: Mapping[str, Table]) -> bool:
        return result == sort.name

    def collation(self, sort: Sort, result: int | None, found: Outline, tables: Mapping[str, Table]) -> str:
        return "BINARY"

    def tie(self, written: str, column: Column) -> str:
        kind = kind_of_column(column)
        if not (_is_ordered(kind) or is_text(kind)):
            raise NoOutline(f"only PostgreSQL knows the order of {written}")
        return written if _is_ordered(kind) else f'{written} COLLATE "C"'

    def refuse_unordered(self, places: Sequence[int], columns: Sequence[Column]) -> None:
        for column in (columns[place] for place in places):
            kind = kind_of_column(column)
            if not _is_ordered(kind):
                collated = is_text(kind) and column.collation
                raise NoOutline(f"only PostgreSQL knows the order of {collated or column.declared}")


def _is_ordered(kind: PostgresKind) -> bool:
    return kind in _ORDERED or is_numeric(kind)


POSTGRES_REQUERY = PostgresRequery()
