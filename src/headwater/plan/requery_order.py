"""The order of a query that nobody here could bind: which values of a row decide, where we compare as the origin does.

A term is a result by its name or number, or is asked for as one more column. On SQLite values have an order of their
own, and only the collation must be clear; on PostgreSQL the origin tells type and collation. What is not clear is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.dialects.postgres.types.kinds import PLAIN, REALS, is_text, kind_of_column
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.dialects.sqlite.affinity import COLLATIONS
from headwater.model.schema import Column, Table
from headwater.sql.outline.order_terms import Sort
from headwater.sql.outline.outline import Outline, Spoken
from headwater.sql.outline.tokens import NoOutline

_ORDERED = PLAIN | {"interval", *REALS}


@dataclass(frozen=True, slots=True)
class Sorting:
    """How a value decides, by its place in the row."""

    place: int
    descending: bool = False
    nulls_first: bool = True
    collation: str = "BINARY"


@dataclass(frozen=True, slots=True)
class Term:
    """`result` is the place of a result; where it is None, the term is to be asked for."""

    sort: Sort
    result: int | None
    collation: str = "BINARY"

    def sorting(self, place: int, dialect: str) -> Sorting:
        first = self.sort.nulls_first
        descending = self.sort.descending
        usual = nulls_are_first(dialect) is not descending
        return Sorting(place, descending, usual if first is None else first, self.collation)


def nulls_are_first(dialect: str) -> bool:
    """In ascending order, where nothing is said."""
    return dialect == "sqlite"


def terms_of(found: Outline, results: Sequence[str], tables: Mapping[str, Table], dialect: str) -> Iterator[Term]:
    """`NoOutline` where it is not clear what a term means. PostgreSQL takes one with COLLATE for an expression."""
    for sort in found.order:
        named = dialect == "sqlite" or not sort.collation
        result = _result(sort, results, found, tables, dialect) if named else None
        yield Term(sort, result, _collation(sort, result, found, tables) if dialect == "sqlite" else "BINARY")


def _result(
    sort: Sort, results: Sequence[str], found: Outline, tables: Mapping[str, Table], dialect: str
) -> int | None:
    if sort.number is not None:
        if not 1 <= sort.number <= len(results):
            raise NoOutline(f"it orders by {sort.whole}")
        return sort.number - 1
    places = [place for place, name in enumerate(results) if sort.name and name.lower() == sort.name.lower()]
    if not places:
        return None
    sure = not _is_shared(sort.name, found, tables) if dialect == "sqlite" else results[places[0]] == sort.name
    if len(places) > 1 or not sure:
        raise NoOutline(f"its order by {sort.whole} may mean several things")
    return places[0]


def _is_shared(name: str, found: Outline, tables: Mapping[str, Table]) -> bool:
    """A column that USING or NATURAL joins by has a meaning of its own, which may be another than a result's."""
    joined = any(word in f" {found.body.upper()} " for word in ("USING", "NATURAL"))
    return joined and sum(name.lower() in map(str.lower, table.names) for table in tables.values()) > 1


# SQLite


def _collation(sort: Sort, result: int | None, found: Outline, tables: Mapping[str, Table]) -> str:
    said = Spoken(sort.words, sort.column) if result is None else _said(result, found.results)
    collations = {sort.collation.upper()} if sort.collation else _collations(said, tables)
    if len(collations) != 1 or not collations <= {*COLLATIONS}:
        raise NoOutline(f"we do not know how {sort.whole} is collated")
    return collations.pop()


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


# Ties, and PostgreSQL


def tie(written: str, column: Column, dialect: str) -> str:
    """A column of a key as it breaks ties: by its bytes where it is text."""
    if dialect == "sqlite":
        return written if column.collation.upper() == "BINARY" else f"{written} COLLATE BINARY"
    kind = kind_of_column(column)
    if not (_is_ordered(kind) or is_text(kind)):
        raise NoOutline(f"only PostgreSQL knows the order of {written}")
    return written if _is_ordered(kind) else f'{written} COLLATE "C"'


def refuse_unordered(sortings: Sequence[Sorting], columns: Sequence[Column]) -> None:
    """What PostgreSQL says of the columns that decide."""
    for one in sortings:
        column = columns[one.place]
        if not _is_ordered(kind_of_column(column)):
            collated = is_text(kind_of_column(column)) and column.collation
            raise NoOutline(f"only PostgreSQL knows the order of {collated or column.declared}")


def _is_ordered(kind: str) -> bool:
    return kind in _ORDERED or is_numeric(kind)
