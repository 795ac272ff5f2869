"""Between following a query and asking it whole: the source is asked for those rows alone that a change may have made.

A query of tables with keys, joined and filtered, has rows that are told apart by the keys of the tables they come from.
So these are asked for along with the results, and a change of a row is answered by the rows with its key. Where a row
may also be missed (on the far side of an outer join), the rows it is equal to are asked for instead. Where the query is
ordered, ties are broken by the same keys, so that each row has one place. It never asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from headwater.dialects.registry import DIALECTS
from headwater.model.change import Change
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.requery_order import terms_of
from headwater.sql.contracts.requery import DialectRequery
from headwater.sql.ir.identifier import quote
from headwater.sql.outline.outline import FromItem, Outline, outline
from headwater.sql.outline.sort_key import SortKey, SortTerm
from headwater.sql.outline.tokens import Named, NoOutline

_WRITABLE = frozenset({bool, int, float, str, bytes, UUID, Decimal, date, datetime})
_EQUAL_ALIKE = frozenset({Type.INTEGER, Type.TEXT, Type.BLOB, Type.BOOLEAN, Type.UUID, Type.DATE})


@dataclass(frozen=True, slots=True)
class Way:
    """From a row of a table to what is asked for: the values of `take`, as those of the columns of an ask."""

    take: tuple[str, ...]
    ask: int


@dataclass(frozen=True, slots=True)
class Selection:
    """`columns` are asked for behind the results: the first `identity` of them tell rows apart, and of these the first
    `anchored` are never NULL. An ask is a set of columns, by place. A table without ways: the query is asked whole.
    `keys` are the places of a table's key, once for each time it stands in FROM. `order` is the user's, which
    `ordered_by` says as SQL; `ties` break its ties. `results` is how many there are."""

    head: str
    body: str
    condition: str
    dialect: str
    columns: tuple[str, ...]
    identity: int
    anchored: int
    asks: tuple[tuple[int, ...], ...]
    ways: Mapping[str, tuple[Way, ...]]
    keys: Mapping[str, tuple[tuple[int, ...], ...]]
    tables: tuple[Table, ...]
    results: int
    order: tuple[SortKey, ...] = ()
    ordered_by: tuple[str, ...] = ()
    ties: tuple[str, ...] = ()

    @property
    def sorting(self) -> tuple[SortKey, ...]:
        """What decides the place of a row: the order, then its identity; nothing where there is no order."""
        if not self.order:
            return ()
        first = DIALECTS[self.dialect].requery.nulls_are_smallest
        return (*self.order, *(SortKey(self.results + n, nulls_first=first) for n in range(self.identity)))

    @property
    def effective(self) -> str:
        """The user's query, with no ties left to chance."""
        where = f" WHERE ({self.condition})" if self.condition else ""
        order = f" ORDER BY {', '.join((*self.ordered_by, *self.ties))}" if self.order else ""
        return f"{self.head} {self.body}{where}{order}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"headwater {number}" for number, _ in enumerate(self.columns, 1))

    @property
    def whole(self) -> str:
        """The query with its columns."""
        return self._asked(f"({self.condition})" if self.condition else "")

    def part(self, wanted: Mapping[int, Collection[Row]]) -> str:
        """One statement for the rows that have any of the wanted values; a row may come more than once."""
        given = [f"({self.condition})"] if self.condition else []
        return " UNION ALL ".join(
            self._asked(" AND ".join([*given, self._among(self.asks[ask], values)])) for ask, values in wanted.items()
        )

    def _asked(self, where: str) -> str:
        named = ", ".join(f"{column} AS {quote(name)}" for column, name in zip(self.columns, self.names, strict=True))
        return f"{self.head}, {named} {self.body}" + (f" WHERE {where}" if where else "")

    def _among(self, places: Sequence[int], values: Collection[Row]) -> str:
        columns, dialect = [self.columns[place] for place in places], DIALECTS[self.dialect]
        write = dialect.syntax.write
        if len(columns) == 1:
            return f"{columns[0]} IN ({', '.join(write(value) for (value,) in values)})"
        rows = [f"({', '.join(map(write, row))})" for row in values]
        return f"({', '.join(columns)}) IN ({dialect.requery.row_list(rows)})"

    def placed(
        self, renamed: Mapping[str, dict[bytes, bytes]]
    ) -> tuple[tuple[tuple[int, ...], dict[bytes, bytes]], ...]:
        """What became of the keys of tables, once for each time that a table stands in FROM."""
        return tuple((places, keys) for table, keys in renamed.items() if keys for places in self.keys[table])

    def fits(self, table: Table) -> bool:
        """Whether a table has the keys and columns still that rows are asked for by."""
        for known in self.tables:
            if known.name == table.name:
                taken = {name for way in self.ways.get(table.name, ()) for name in way.take}
                return known.key == table.key and taken <= {*table.names}
        return True

    def wanted(self, table: Table, change: Change) -> Iterator[tuple[int, Row]]:
        """What to ask for; `Unmapped` where only the whole query will do."""
        ways = self.ways.get(change.table)
        if ways is None:
            raise Unmapped
        for way in ways:
            places = [table.index(name) for name in way.take]
            for image in (change.old, change.new):
                if image is not None:
                    yield from _wanted(way.ask, tuple(image[place] for place in places))


class Unmapped(Exception):
    """The rows that a change may have made cannot be named."""


def _wanted(ask: int, values: Row) -> Iterator[tuple[int, Row]]:
    """NULL equals nothing."""
    if None in values:
        return
    if not all(type(value) in _WRITABLE for value in values):
        raise Unmapped
    yield ask, values


# Planning


@dataclass(frozen=True, slots=True)
class _Met:
    """An item of FROM with its table. `missed`: there are rows without one. `kept`: each of its rows is in the join."""

    item: FromItem
    table: Table
    missed: bool
    kept: bool
    equal: tuple[str, int, str] | None  # a column of its own, and the item and column it is equal to

    def column(self, name: str) -> str:
        return f"{self.item.written}.{quote(name)}"


def selection_of(sql: str, tables: Mapping[str, Table], dialect: str, results: Sequence[str]) -> Selection:
    """Of a query with these results. `NoOutline` says why there is none."""
    found, rules = outline(sql, DIALECTS[dialect]), DIALECTS[dialect].requery
    terms = list(terms_of(found, results, tables, rules))
    met = _joined([(item, _table(item, tables, rules)) for item in found.from_items], rules)
    keys = [
        (place, name) for missed in (False, True) for place, one in enumerate(met) if one.missed is missed
        for name in one.table.key
    ]  # fmt: skip
    columns, asks = list(keys), list[tuple[int, ...]]()
    ways = {
        one.table.name: tuple(_ways(one.table, met, columns, asks)) for one in met if _is_mapped(one.table, met, found)
    }
    asked = [met[place].column(name) for place, name in columns]
    return Selection(
        head=found.head,
        body=found.body,
        condition=found.condition,
        dialect=dialect,
        columns=(*asked, *(term.sort.text for term in terms if term.result is None)),
        identity=len(keys),
        anchored=sum(not met[place].missed for place, _ in keys),
        asks=tuple(asks),
        ways=ways,
        keys={one.table.name: tuple(_keys(one.table, met, keys)) for one in met},
        tables=tuple(one.table for one in met),
        results=len(results),
        order=tuple(_sort_keys(terms, len(results) + len(asked), rules.nulls_are_smallest)),
        ordered_by=tuple(term.sort.whole for term in terms),
        ties=tuple(_ties(met, keys, rules)) if terms else (),
    )


def _sort_keys(terms: Sequence[SortTerm], place: int, nulls_are_smallest: bool) -> Iterator[SortKey]:
    """Those that are no results stand behind all else, from a place on."""
    for term in terms:
        if term.result is not None:
            yield term.key(term.result, nulls_are_smallest)
        else:
            yield term.key(place, nulls_are_smallest)
            place += 1


def _ties(met: Sequence[_Met], keys: Sequence[tuple[int, str]], rules: DialectRequery) -> Iterator[str]:
    for place, name in keys:
        one = met[place]
        yield rules.tie(one.column(name), one.table.column(name))


def _keys(table: Table, met: Sequence[_Met], keys: Sequence[tuple[int, str]]) -> Iterator[tuple[int, ...]]:
    for place, one in enumerate(met):
        if one.table.name == table.name:
            yield tuple(keys.index((place, name)) for name in table.key)


def _table(item: FromItem, tables: Mapping[str, Table], rules: DialectRequery) -> Table:
    found = rules.table(item, tables)
    if found is None:
        raise NoOutline(f"{item.name} is no table")
    if not found.key:
        raise NoOutline(f"{found.name} has no primary key")
    return found


def _joined(given: Sequence[tuple[FromItem, Table]], rules: DialectRequery) -> list[_Met]:
    met = list[_Met]()
    for place, (item, table) in enumerate(given):
        if item.join in ("right", "full") and place > 1:
            raise NoOutline(f"{item.join.upper()} JOIN of more than two tables")
        before = given[: place + 1]
        if item.join in ("right", "full"):
            first, its = given[0]
            met[0] = _Met(first, its, True, item.join == "full", _equal(item, before, 0, rules))
        missed = item.join in ("left", "full")
        equal = _equal(item, before, place, rules) if missed else None
        met.append(_Met(item, table, missed, item.join != "left", equal))
    return met


def _equal(
    joining: FromItem, given: Sequence[tuple[FromItem, Table]], own: int, rules: DialectRequery
) -> tuple[str, int, str] | None:
    """A column of the item `own` that ON wants equal to that of another item, where equal values look alike."""
    for sides in joining.equal:
        found = [_resolved(side, given) for side in sides]
        for mine, other in (found, found[::-1]):
            if mine is None or other is None or mine[0] != own or other[0] == own:
                continue
            one, two = given[own][1], given[other[0]][1]
            if _alike(one.column(mine[1]), two.column(other[1]), rules):
                return mine[1], *other
    return None


def _resolved(named: Named, given: Sequence[tuple[FromItem, Table]]) -> tuple[int, str] | None:
    """The item and the column; what stands in the last item and another (USING) is meant of the other."""
    labelled = [
        (place, column.name)
        for place, (item, table) in enumerate(given)
        for column in table.columns
        if column.name.lower() == named.name.lower() and named.qualifier.lower() in ("", item.label.lower())
    ]
    before = [one for one in labelled if one[0] < len(given) - 1]
    found = before or labelled
    return found[0] if len(found) == 1 else None


def _alike(one: Column, other: Column, rules: DialectRequery) -> bool:
    """Whether two values of them are equal exactly where they look the same, to the source and to us."""
    if one.type is not other.type or one.type not in _EQUAL_ALIKE:
        return False
    return one.type is not Type.TEXT or rules.equals_alike(one, other)


def _is_mapped(table: Table, met: Sequence[_Met], found: Outline) -> bool:
    """Not where a query inside reads it too, nor where a row of it may be missed by we know not whom."""
    name = table.name.rpartition(".")[2].lower()
    mine = [one for one in met if one.table.name == table.name]
    return name not in found.inner and all(one.equal is not None or not one.missed for one in mine)


def _ways(
    table: Table, met: Sequence[_Met], columns: list[tuple[int, str]], asks: list[tuple[int, ...]]
) -> Iterator[Way]:
    """Columns and asks that are new are added."""
    for place, one in enumerate(met):
        if one.table.name != table.name:
            continue
        if one.kept:
            yield Way(table.key, _ask([(place, name) for name in table.key], columns, asks))
        if one.equal is not None:
            own, other, name = one.equal
            yield Way((own,), _ask([(other, name)], columns, asks))


def _ask(wanted: Sequence[tuple[int, str]], columns: list[tuple[int, str]], asks: list[tuple[int, ...]]) -> int:
    for column in wanted:
        if column not in columns:
            columns.append(column)
    places = tuple(columns.index(column) for column in wanted)
    if places not in asks:
        asks.append(places)
    return asks.index(places)
