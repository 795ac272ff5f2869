"""A case of the fuzzer: tables, rows, queries and what happens to them, as plain data that can be cut down and kept.

Nothing here draws lots and nothing here runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce
from headwater.model.encoding.keys import hash_row
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value, pack_any


@dataclass(frozen=True, slots=True)
class Query:
    """`features` name what the text holds, for the tally."""

    sql: str
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Net changes, as the log has them."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Subscribe:
    query: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    query: int


@dataclass(frozen=True, slots=True)
class Reload:
    """The state is saved, forgotten and loaded."""


@dataclass(frozen=True, slots=True)
class Release:
    """The template of a query goes, where nobody subscribes to it."""

    query: int


@dataclass(frozen=True, slots=True)
class Alter:
    """A table gets one column more; the rows it has hold the column's default."""

    table: str
    column: Column


Event = Commit | Subscribe | Unsubscribe | Release | Reload | Alter


@dataclass(frozen=True, slots=True)
class Case:
    """`partitions` are query partitions; `cut` is how many transactions make a step."""

    tables: tuple[Table, ...]
    rows: Mapping[str, tuple[Row, ...]]
    queries: tuple[Query, ...]
    events: tuple[Event, ...]
    partitions: int = 1
    cut: int = 1

    @property
    def schema(self) -> dict[str, Table]:
        return {table.name: table for table in self.tables}

    def states(self) -> Iterator[Rows]:
        """The rows before the first event, and after each; always the same object."""
        rows = Rows.of(self)
        yield rows
        for event in self.events:
            rows.follow(event)
            yield rows


@dataclass(slots=True)
class Rows:
    """The tables and their rows now. `touched` are the tables the last event changed."""

    tables: dict[str, Table]
    of_table: dict[str, dict[int, Row]]
    born: int = 0
    touched: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, case: Case) -> Rows:
        rows = cls(case.schema, {table.name: {} for table in case.tables})
        for name, each in case.rows.items():
            for row in each:
                rows.insert(name, row)
        return rows

    def insert(self, table: str, row: Row) -> bool:
        """Whether its key was free."""
        if not self._free(table, row):
            return False
        self.born += 1
        self.of_table[table][self.born] = row
        return True

    def remove(self, table: str, row: Row) -> bool:
        """Whether it was there."""
        wanted = repr(row)
        found = next((number for number, each in self.of_table[table].items() if repr(each) == wanted), None)
        return found is not None and self.of_table[table].pop(found) is not None

    def copy(self) -> Rows:
        return Rows(dict(self.tables), {name: dict(rows) for name, rows in self.of_table.items()}, self.born)

    def follow(self, event: Event) -> None:
        self.touched = set()
        match event:
            case Commit():
                self.commit(event)
            case Alter():
                self.alter(event)

    def alter(self, alter: Alter) -> None:
        table, column = self.tables[alter.table], alter.column
        self.tables[table.name] = replace(table, columns=(*table.columns, column), schema_id=table.schema_id + 1)
        rows = self.of_table[table.name]
        self.of_table[table.name] = {number: (*row, column.default) for number, row in rows.items()}
        self.touched = {table.name}

    def _free(self, table: str, row: Row) -> bool:
        key = self.key(table, row)
        return key is None or all(self.key(table, other) != key for other in self.of_table[table].values())

    def key(self, name: str, row: Row) -> int | None:
        table = self.tables[name]
        if not table.key:
            return None
        values = tuple(row[table.index(each)] for each in table.key)
        return _hashed(values, tuple(table.column(each).collation for each in table.key))

    def commit(self, commit: Commit) -> Commit:
        """What was possible of it: a row leaves that is there, and comes where its key is free."""
        gone = [change for change in commit.changes if change.old is None or self.remove(change.table, change.old)]
        done = []
        for change in gone:
            came = change.new is not None and self.insert(change.table, change.new)
            done.append(change if came else replace(change, new=None))
        self.touched = {change.table for change in done}
        return Commit(tuple(change for change in done if change.old is not None or change.new is not None))


@cache
def _hashed(values: Row, collations: tuple[str, ...]) -> int:
    """Values that are equal to Python are one key as well."""
    return hash_row(values, collations)


def possible(case: Case) -> Case:
    """The same case without what cannot happen: used after something was cut out of it."""
    rows = Rows.of(case)
    kept = {name: tuple(each.values()) for name, each in rows.of_table.items()}
    events: list[Event] = []
    subscribed: set[int] = set()
    for event in case.events:
        match event:
            case Commit():
                fitting = tuple(_fitted(change, rows.tables) for change in event.changes)
                event = rows.commit(Commit(tuple(coalesce(Transaction(0, fitting), rows.tables).changes)))
            case Alter(table):
                if table not in rows.tables:
                    continue
                rows.alter(event)
            case Subscribe(query):
                if query in subscribed or query >= len(case.queries):
                    continue
                subscribed.add(query)
            case Unsubscribe(query):
                if query not in subscribed:
                    continue
                subscribed.remove(query)
            case Release(query) if query >= len(case.queries):
                continue
        events.append(event)
    return replace(case, rows=kept, events=tuple(events))


def _fitted(change: Change, tables: Mapping[str, Table]) -> Change:
    """Without the values of columns that its table does not have any more."""
    width = len(tables[change.table].columns)
    return Change(change.table, change.old and change.old[:width], change.new and change.new[:width])


# As a file


def write(case: Case, path: Path, reason: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"reason": reason, **_plain(case)}, indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> Case:
    data = json.loads(path.read_text())
    tables = tuple(_table(each) for each in data["tables"])
    rows = {name: tuple(_row(row) for row in each) for name, each in data["rows"].items()}
    events = tuple(_event(each) for each in data["events"])
    queries = tuple(Query(sql) for sql in data["queries"])
    return Case(tables, rows, queries, events, data["partitions"], data["cut"])


def _plain(case: Case) -> dict[str, Any]:
    return {
        "queries": [query.sql for query in case.queries],
        "tables": [
            {"name": t.name, "key": list(t.key), "columns": [_plain_column(c) for c in t.columns]} for t in case.tables
        ],
        "rows": {name: [_shown(row) for row in rows] for name, rows in case.rows.items()},
        "events": [_plain_event(event) for event in case.events],
        "partitions": case.partitions,
        "cut": case.cut,
    }


def _plain_column(column: Column) -> list[Any]:
    return [column.name, column.declared, column.collation, column.nullable]


def _plain_event(event: Event) -> dict[str, Any]:
    match event:
        case Commit(changes):
            return {"commit": [[change.table, _shown(change.old), _shown(change.new)] for change in changes]}
        case Subscribe(query):
            return {"subscribe": query}
        case Unsubscribe(query):
            return {"unsubscribe": query}
        case Release(query):
            return {"release": query}
        case Reload():
            return {"reload": True}
        case Alter(table, column):
            return {"alter": [table, _plain_column(column), _shown((column.default,))]}


def _event(data: Mapping[str, Any]) -> Event:
    if "commit" in data:
        return Commit(tuple(Change(name, _maybe(old), _maybe(new)) for name, old, new in data["commit"]))
    if "subscribe" in data:
        return Subscribe(data["subscribe"])
    if "release" in data:
        return Release(data["release"])
    if "alter" in data:
        table, column, [default] = data["alter"]
        return Alter(table, replace(_column(column), filler=pack_any(_value(default))))
    return Unsubscribe(data["unsubscribe"]) if "unsubscribe" in data else Reload()


TYPES = {"INTEGER": Type.INTEGER, "REAL": Type.REAL, "TEXT": Type.TEXT, "BLOB": Type.BLOB, "": Type.ANY}


def _table(data: Mapping[str, Any]) -> Table:
    return Table(data["name"], tuple(_column(each) for each in data["columns"]), tuple(data["key"]))


def _column(data: Sequence[Any]) -> Column:
    name, declared, collation, nullable = data
    return Column(name, TYPES[declared], declared, collation, nullable)


def _shown(row: Row | None) -> list[Any] | None:
    return None if row is None else [{"hex": value.hex()} if isinstance(value, bytes) else value for value in row]


def _maybe(row: Sequence[Any] | None) -> Row | None:
    return None if row is None else _row(row)


def _row(row: Sequence[Any]) -> Row:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Value:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
