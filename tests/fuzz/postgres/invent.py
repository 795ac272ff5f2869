"""A case from a number: random tables in PostgreSQL's types, rows, queries, and what four connections do at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from tests.fuzz.postgres.asking import Asking
from tests.fuzz.postgres.case import Action, Case, Column, Query, Reference, Table, Transaction
from tests.fuzz.postgres.domains import CONSTANTS, ODD
from tests.fuzz.postgres.staging import Stage

T = TypeVar("T")
_CONNECTIONS = 4
_OFFERED = 5
_DRAFTS = 3
_NAMES = ("p", '"Q ueue"', "far.r", "o")
_KEYS: tuple[tuple[str, ...], ...] = (("id",), ("id",), ("id",), ("id", "i"), ("s", "id"), ())
_EXTRA = {
    "j": ("int8", "int2"),
    "x": ("float8",),
    "n": ("numeric(8,2)", "numeric"),
    "b": ("bool",),
    "c": ("text COLLATE tongue",),
    "d": ("date",),
    '"At"': ("timestamp",),
    "tz": ("timestamptz",),
    "u": ("uuid",),
}
_THEN = ("ON DELETE CASCADE ON UPDATE CASCADE", "ON DELETE SET NULL ON UPDATE CASCADE", "ON DELETE CASCADE")
_LEVELS = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


def invented(seed: int, stage: Stage, queries: int = 16, transactions: int = 12) -> Case:
    """`transactions` of each connection. Where a case is tried out, they are drafted a few times each."""
    random = Random(f"postgres {seed}")
    drawing = Drawing(random, random.choice((4, 8, 12)), random.choice((0.1, 0.25, 0.5)), random.random() < 0.25)
    tables = tuple(drawing.tables(random.choice((2, 2, 3, 3, 4))))
    case = Case(tables, tuple(drawing.rows(tables)), (), ())
    offered = queries * (_OFFERED if stage.covering else 1)
    asked = drawing.queries(tables, lambda some: stage.possible(case, some), offered)
    asked = tuple(stage.set_up(case, asked, queries))
    aimed = Aimed(random, tables, asked)
    drafts = ([drawing.transaction(aimed) for _ in range(_DRAFTS)] for _ in range(transactions * _CONNECTIONS))
    every = [replace(stage.best(some), committed=random.random() > 0.12) for some in drafts]
    sessions = tuple(tuple(every[place::_CONNECTIONS]) for place in range(_CONNECTIONS))
    late = tuple(n for n in range(len(asked)) if random.random() < 0.15)
    turns = tuple(random.randrange(len(asked)) for _ in range(2 * len(asked)))
    strategies, by_key = random.choice((None, seed)), random.random() < 0.5
    return Case(tables, case.rows, asked, sessions, late, turns, strategies, by_key)


@dataclass(slots=True)
class Drawing:
    """`largest` bounds the rows of a table and its ids, `more` is how likely a table has a column of each further type;
    `odd` lets in values that are trouble."""

    random: Random
    largest: int
    more: float
    odd: bool

    # Tables and rows

    def tables(self, count: int) -> Iterator[Table]:
        before: list[Table] = []
        for name in _NAMES[:count]:
            before.append(self._table(name, before))
            yield before[-1]

    def _table(self, name: str, before: Sequence[Table]) -> Table:
        """A foreign key goes to a table that was made before, and that has its id for a key."""
        key = self._pick(_KEYS)
        declared = [("id", self._pick(("int4", "int8"))), ("i", "int4")]
        declared.append(("s", self._pick(("text", 'text COLLATE "C"', "varchar(8)"))))
        declared += [(own, self._pick(types)) for own, types in _EXTRA.items() if self._likely(self.more)]
        others = [table for table in before if table.key == ("id",) and self._likely(0.6)]
        references = [Reference(f"{_letter(other)}id", other.name, self._pick(_THEN)) for other in others]
        declared += [(one.column, "int4") for one in references]
        columns = tuple(Column(own, type, own not in ("id", *key)) for own, type in declared)
        parted = "id" in key and self._likely(0.2)
        return Table(name, columns, key, tuple(references), parted, self._likely(0.3))

    def rows(self, tables: Sequence[Table]) -> Iterator[Action]:
        for table in tables:
            for _ in range(self.random.randint(1, self.largest)):
                yield self._insert(table)

    def _insert(self, table: Table) -> Action:
        names = ", ".join(column.name for column in table.columns)
        values = ", ".join(self._value(column) for column in table.columns)
        return Action("INSERT", table.name, f"({names}) VALUES ({values})")

    def _value(self, column: Column) -> str:
        if column.nullable and self._likely(0.12):
            return "NULL"
        if column.name.endswith("id"):
            return str(self.random.randrange(self.largest))
        odd = self.odd and self._likely(0.15)
        if odd and column.kind in ODD and not (column.declared.startswith("varchar")):
            return self._pick(ODD[column.kind])
        return self._pick(CONSTANTS[column.kind])

    # Queries

    def queries(
        self, tables: Sequence[Table], possible: Callable[[Sequence[Query]], Sequence[Query]], count: int
    ) -> tuple[Query, ...]:
        """Some differ from another only in their parameters."""
        found: dict[tuple[object, ...], Query] = {}
        while len(found) < count:
            offered = [self._query(tables, list(found.values())) for _ in range(count)]
            found |= {(query.sql, *query.params): query for query in possible(offered)}
        return tuple(found.values())[:count]

    def _query(self, tables: Sequence[Table], known: Sequence[Query]) -> Query:
        given = [query for query in known if query.params]
        if given and self._likely(0.3):
            query = self._pick(given)
            return replace(query, params=tuple(self._other(param) for param in query.params))
        return Asking(self.random, tables).query()

    def _other(self, param: int | float | str | bool) -> int | float | str | bool:
        if type(param) is int:
            return self.random.randrange(4)
        return self._pick(("a", "b", "A", "", "ab")) if param in ("a", "b", "A", "", "ab") else param

    # Transactions

    def transaction(self, aimed: Aimed) -> Transaction:
        actions = [self._action(aimed.table(), aimed) for _ in range(self.random.choice((2, 4, 6, 8, 12)))]
        return Transaction(self._pick(_LEVELS), tuple(actions))

    def _action(self, table: Table, aimed: Aimed) -> Action:
        draw, undone = self.random.random(), self._likely(0.12)
        if draw < 0.35:
            return replace(self._insert(table), undone=undone)
        if draw < 0.36:
            return Action("TRUNCATE", self._pick([table.name, *table.parts]), undone=undone)
        where, most = self._where(table), self.random.choice((1, 1, 1, 2, 3))
        if draw < 0.52:
            return Action("DELETE", table.name, "", where, most, undone)
        return Action("UPDATE", table.name, self._changes(table, aimed), where, most, undone)

    def _where(self, table: Table) -> str:
        column = self._pick(table.columns) if self._likely(0.4) else table.columns[0]
        return f"{column.name} = {self._value(replace(column, nullable=False))}" if self._likely(0.85) else "true"

    def _changes(self, table: Table, aimed: Aimed) -> str:
        chosen = {aimed.column(table) for _ in range(self.random.choice((1, 2, 2)))}
        return ", ".join(
            f"{column.name} = {self._changed(column)}" for column in sorted(chosen, key=table.columns.index)
        )

    def _changed(self, column: Column) -> str:
        return f"{column.name} + 1" if column.kind == "int" and self._likely(0.2) else self._value(column)

    def _likely(self, share: float) -> bool:
        return self.random.random() < share

    def _pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)


@dataclass(slots=True)
class Aimed:
    """Tables and columns, mostly those that queries name."""

    random: Random
    tables: Sequence[Table]
    queries: Sequence[Query]

    def table(self) -> Table:
        return self.random.choices(self.tables, [self._named(table.name) for table in self.tables])[0]

    def column(self, table: Table) -> Column:
        return self.random.choices(table.columns, [self._named(column.name) for column in table.columns])[0]

    def _named(self, name: str) -> int:
        return 1 + sum(bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query.sql)) for query in self.queries)


def _letter(table: Table) -> str:
    return table.name.strip('"').rpartition(".")[2][0].lower()
