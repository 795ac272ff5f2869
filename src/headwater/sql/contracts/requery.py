"""What a dialect says of a query that nobody here could bind: which tables and results its words mean, how it orders.

The source is asked such a query again. Whatever is not clear raises `NoOutline`: then it is asked whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from headwater.model.schema import Column, Table
    from headwater.model.value import Value
    from headwater.sql.outline.asked_values import NamedTable
    from headwater.sql.outline.order_terms import Sort
    from headwater.sql.outline.outline import FromItem, Outline


class DialectRequery(Protocol):
    def is_volatile(self, function: str, sql: str, values: Sequence[Any]) -> bool:
        """Whether a function, named in small letters, changes without any change in the database."""

    # Tables

    def table(self, item: FromItem | NamedTable, tables: Mapping[str, Table]) -> Table | None:
        """The table that FROM means."""

    def equals_alike(self, one: Column, other: Column) -> bool:
        """Whether two texts of these columns are equal exactly where they look the same, to the source and to us."""

    def row_list(self, rows: Sequence[str]) -> str:
        """Rows in parentheses, as they stand behind IN."""

    # Values that are asked for

    def same_name(self, one: str, other: str) -> bool:
        """Whether two names, folded as far as they are not quoted, mean the same."""

    def asked_key(self, column: Column, value: Value) -> Hashable | None:
        """Of a constant that is compared with the column by `=`: every value of the column that the database finds
        equal has the same key. None where that is not certain."""

    def stored_key(self, column: Column, value: Value) -> Hashable | None:
        """Of a value of the column; None where it is not certain which constants it equals."""

    # Order

    @property
    def nulls_are_smallest(self) -> bool:
        """Whether they come first in ascending order, where nothing is said."""

    def may_name_result(self, sort: Sort) -> bool: ...
    def means_result(self, sort: Sort, result: str, found: Outline, tables: Mapping[str, Table]) -> bool:
        """Whether the name in a term of the order means the result of that name for sure."""

    def collation(self, sort: Sort, result: int | None, found: Outline, tables: Mapping[str, Table]) -> str:
        """By which a term orders; `result` is its place where it is one."""

    def tie(self, written: str, column: Column) -> str:
        """A column of a key as it breaks ties: by its bytes where it is text."""

    def refuse_unordered(self, places: Sequence[int], columns: Sequence[Column]) -> None:
        """Of the columns at these places, as the source describes them: those whose order only it knows."""
