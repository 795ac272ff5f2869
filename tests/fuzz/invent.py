"""A case from a number: random tables, rows, queries over the whole surface, and what happens to them."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value
from tests.fuzz.case import TYPES, Case, Commit, Event, Query, Reload, Rows, Subscribe, Unsubscribe, possible
from tests.fuzz.oracle import Oracle
from tests.fuzz.wild import Wild
from tests.sql.queries import Writing

T = TypeVar("T")

_DOMAINS: dict[str, tuple[Value, ...]] = {
    "INTEGER": (0, 1, 2, 3, -1),
    "REAL": (0.5, 1.0, 2.25, -1.0),  # sums are exact in any order
    "TEXT": ("a", "b", "A", "", "1"),
    "BLOB": (b"a", b"", b"\x00"),
    "": (1, 1.0, "1", "a", b"a"),
}
_ODD: dict[str, tuple[Value, ...]] = {
    "INTEGER": (2**53 + 1, 2**63 - 1, -(2**63), 10),
    "REAL": (0.0, 0.1, 0.3, 1e9, 9007199254740992.0),  # SQLite stores no -0.0 in such a column
    "TEXT": ("x\x00y", "é", "É", "10", "9", " 1", "1.0"),
    "BLOB": (b"a\x00", b"1"),
    "": (2**53 + 1, 9007199254740992.0, -0.0, "A", "1.0", b"1"),
}
_KEYS: tuple[tuple[str, ...], ...] = (("id",), ("id",), ("id",), ("s", "id"), ("i", "s"), ("c", "id"), (), ())
_ROWS_MAX = 30
_QUIET = 0.5  # a query whose answer changes less often than this is seldom kept
_TRIES = 12


def invented(seed: int, queries: int = 10, commits: int = 50) -> Case:
    return Inventing(Random(f"fuzz {seed}")).case(queries, commits)


@dataclass(slots=True)
class Inventing:
    random: Random
    tables: tuple[Table, ...] = ()
    largest: int = 12
    odd: bool = False
    rows: Rows = field(init=False)

    def case(self, queries: int, commits: int) -> Case:
        self.tables = tuple(self._table(name) for name in "pqro"[: self.random.choice((1, 2, 2, 3, 3, 4))])
        self.largest = self.random.choice((4, 8, 12, _ROWS_MAX))
        self.odd = self._chance(0.25)
        empty = Case(self.tables, {}, (), ())
        self.rows = Rows.of(empty)
        for table in self.tables:
            for _ in range(self.random.randint(0, self.largest)):
                self.rows.insert(table.name, self._row(table))
        first = {name: tuple(each.values()) for name, each in self.rows.of_table.items()}
        history = tuple(self._commit() for _ in range(commits))
        partitions, cut = self.random.choice((1, 1, 2, 3)), self.random.choice((1, 7, 7, 50, 50))
        case = Case(self.tables, first, (), history, partitions, cut)
        chosen = self._queries(case, queries)
        return possible(replace(case, queries=chosen, events=self._mixed(history, len(chosen))))

    # Tables and rows

    def _table(self, name: str) -> Table:
        """Foreign keys are integers called pid, qid, rid; the writer of queries asks for id, i and s."""
        declared = [("id", "INTEGER"), ("i", "INTEGER"), ("s", "TEXT")]
        declared += [(f"{other}id", "INTEGER") for other in "pqr" if other != name and self._chance(0.6)]
        extra = [("x", "REAL"), ("c", "TEXT"), ("b", "BLOB"), ("m", "")]
        declared += [pair for pair in extra if self._chance(0.4)]
        names = [column for column, _ in declared]
        key = self.random.choice([key for key in _KEYS if set(key) <= set(names)])
        columns = (
            Column(column, TYPES[type], type, "NOCASE" if column == "c" else "BINARY", column not in (*key, "id"))
            for column, type in declared
        )
        return Table(name, tuple(columns), key)

    def _row(self, table: Table) -> Row:
        return tuple(self._value(column) for column in table.columns)

    def _value(self, column: Column) -> Value:
        if column.nullable and self._chance(0.15):
            return None
        if column.name == "id":
            return self.random.randrange(1, 2 + self.largest)
        return self._pick((_ODD if self.odd and self._chance(0.2) else _DOMAINS)[column.declared])

    # What happens

    def _commit(self) -> Commit:
        """Of one table or of several; small, or many rows at once."""
        touched = self.random.sample(self.tables, self.random.randint(1, len(self.tables)))
        most = self.random.choice((1, 2, 2, 4, 8))
        changes = [
            one for table in touched for _ in range(self.random.randint(1, most)) for one in self._changes(table)
        ]
        return Commit(coalesce(Transaction(0, tuple(changes)), self.rows.tables).changes)

    def _changes(self, table: Table) -> list[Change]:
        there = list(self.rows.of_table[table.name].values())
        kind = self.random.random()
        if not there or (kind < 0.3 and len(there) < _ROWS_MAX):
            return self._moved(table, None, self._row(table))
        old = self.random.choice(there)
        if kind < 0.5:
            return self._moved(table, old, None)
        if kind < 0.6:
            again = self._changed(table, old, within_key=False)
            return [*self._moved(table, old, None), *self._moved(table, None, again)]
        return self._moved(table, old, self._changed(table, old, within_key=self._chance(0.25)))

    def _changed(self, table: Table, row: Row, within_key: bool) -> Row:
        places = [n for n, c in enumerate(table.columns) if within_key or c.name not in table.key]
        chosen = set(self.random.sample(places, min(len(places), self.random.randint(1, 2))))
        return tuple(self._value(c) if n in chosen else row[n] for n, c in enumerate(table.columns))

    def _moved(self, table: Table, old: Row | None, new: Row | None) -> list[Change]:
        """The change, where it is possible."""
        if old is not None:
            self.rows.remove(table.name, old)
        if new is not None and not self.rows.insert(table.name, new):
            if old is not None:
                self.rows.insert(table.name, old)
            return []
        return [Change(table.name, old, new)]

    def _mixed(self, history: tuple[Commit, ...], queries: int) -> tuple[Event, ...]:
        """Most queries are there from the start; some come, go and come again; sometimes the state is reloaded."""
        late = [n for n in range(queries) if self._chance(0.2)]
        events: list[Event] = [Subscribe(n) for n in range(queries) if n not in late]
        for commit in history:
            if self._chance(0.04) and late:
                events.append(Subscribe(late.pop()))
            if self._chance(0.03):
                gone = self.random.randrange(queries)
                events.append(Unsubscribe(gone))
                late.append(gone)
            if self._chance(0.02):
                events.append(Reload())
            events.append(commit)
        return tuple(events)

    # Queries

    def _queries(self, case: Case, count: int) -> tuple[Query, ...]:
        """Right for SQLite; lively ones rather than quiet ones; some differ from another only in a constant."""
        found: dict[str, Query] = {}
        with Oracle(case.tables) as oracle:
            for _ in range(count * _TRIES):
                query = self._query(list(found.values()))
                if query.sql not in found and self._worth(case, oracle, query):
                    found[query.sql] = query
                if len(found) == count:
                    break
        return tuple(found.values())

    def _worth(self, case: Case, oracle: Oracle, query: Query) -> bool:
        try:
            changed = oracle.liveliness(case, query.sql)
        except sqlite3.Error:
            return False
        return changed >= _QUIET or self._chance(0.06)

    def _query(self, known: list[Query]) -> Query:
        if known and self._chance(0.3):
            return self._sibling(self.random.choice(known))
        if self._chance(0.12):
            return self._plain()
        if self._chance(0.4):
            return Query(Wild(self.random, self.tables).query(), ("wild",))
        tables = self.tables if len(self.tables) > 1 else self.tables * 2
        writer = Writing(self.random, tables)
        sql = writer.query()
        return Query(sql, tuple(sorted(writer.features)))

    def _sibling(self, query: Query) -> Query:
        """Another constant in the same place."""
        places = list(re.finditer(r"(?<== )('\w?'|-?\d+\b(?!\.))|(?<=LIMIT )\d", query.sql))
        if not places:
            return query
        place = self.random.choice(places)
        other = self._pick(("'a'", "'b'", "''")) if place[0].startswith("'") else self._pick(("0", "1", "2", "3"))
        return Query(query.sql[: place.start()] + other + query.sql[place.end() :], (*query.features, "sibling"))

    def _plain(self) -> Query:
        """One table, by its own name, as most live queries are."""
        table = self.random.choice(self.tables)
        names = self.random.sample(table.names, self.random.randint(1, len(table.names)))
        equal = [f"{c.name} = {self._literal(c)}" for c in table.columns if c.type in (Type.INTEGER, Type.TEXT)]
        where = (
            f" WHERE {' AND '.join(self.random.sample(equal, self.random.randint(1, 2)))}" if self._chance(0.4) else ""
        )
        by = self.random.sample(table.names, self.random.randint(1, 2))
        order = f" ORDER BY {', '.join(n + self._pick(('', ' DESC')) for n in by)}" if self._chance(0.6) else ""
        limit = f" LIMIT {self.random.randint(1, 6)}" if self._chance(0.4) else ""
        return Query(f"SELECT {', '.join(names)} FROM {table.name}{where}{order}{limit}", ("one table",))

    def _literal(self, column: Column) -> str:
        value = self._pick(_DOMAINS[column.declared])
        return f"'{value}'" if isinstance(value, str) else str(value)

    def _chance(self, likely: float) -> bool:
        return self.random.random() < likely

    def _pick(self, choices: tuple[T, ...]) -> T:
        return self.random.choice(choices)
