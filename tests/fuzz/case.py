"""A case of the fuzzer: tables, rows, queries and what happens to them, as plain data that can be cut down and kept.

Nothing here draws lots and nothing here runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce
from headwater.model.keys import hash_row
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value


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


Event = Commit | Subscribe | Unsubscribe | Reload


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
            if isinstance(event, Commit):
                rows.commit(event)
            yield rows


@dataclass(slots=True)
class Rows:
    """The rows of all tables now. `touched` are the tables the last commit changed."""

    tables: Mapping[str, Table]
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

    def _free(self, table: str, row: Row) -> bool:
        key = self.key(table, row)
        return key is None or all(self.key(table, other) != key for other in self.of_table[table].values())

    def key(self, name: str, row: Row) -> int | None:
        table = self.tables[name]
        if not table.key:
            return None
        values = tuple(row[table.index(each)] for each in table.key)
        return hash_row(values, [table.column(each).collation for each in table.key])

    def commit(self, commit: Commit) -> Commit:
        """What was possible of it: a row leaves that is there, and comes where its key is free."""
        gone = [change for change in commit.changes if change.old is None or self.remove(change.table, change.old)]
        done = []
        for change in gone:
            came = change.new is not None and self.insert(change.table, change.new)
            done.append(change if came else replace(change, new=None))
        self.touched = {change.table for change in done}
        return Commit(tuple(change for change in done if change.old is not None or change.new is not None))


def possible(case: Case) -> Case:
    """The same case without what cannot happen: used after something was cut out of it."""
    rows = Rows.of(case)
    kept = {name: tuple(each.values()) for name, each in rows.of_table.items()}
    events: list[Event] = []
    subscribed: set[int] = set()
    for event in case.events:
        match event:
            case Commit():
                net = coalesce(Transaction(0, event.changes), case.schema)
                event = rows.commit(Commit(net.changes))
            case Subscribe(query):
                if query in subscribed or query >= len(case.queries):
                    continue
                subscribed.add(query)
            case Unsubscribe(query):
                if query not in subscribed:
                    continue
                subscribed.remove(query)
        events.append(event)
    return replace(case, rows=kept, events=tuple(events))


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
    columns = {
        table.name: [[c.name, c.declared, c.collation, c.nullable] for c in table.columns] for table in case.tables
    }
    return {
        "queries": [query.sql for query in case.queries],
        "tables": [{"name": t.name, "key": list(t.key), "columns": columns[t.name]} for t in case.tables],
        "rows": {name: [_shown(row) for row in rows] for name, rows in case.rows.items()},
        "events": [_plain_event(event) for event in case.events],
        "partitions": case.partitions,
        "cut": case.cut,
    }


def _plain_event(event: Event) -> dict[str, Any]:
    match event:
        case Commit(changes):
            return {"commit": [[change.table, _shown(change.old), _shown(change.new)] for change in changes]}
        case Subscribe(query):
            return {"subscribe": query}
        case Unsubscribe(query):
            return {"unsubscribe": query}
        case Reload():
            return {"reload": True}


def _event(data: Mapping[str, Any]) -> Event:
    if "commit" in data:
        return Commit(tuple(Change(name, _maybe(old), _maybe(new)) for name, old, new in data["commit"]))
    if "subscribe" in data:
        return Subscribe(data["subscribe"])
    return Unsubscribe(data["unsubscribe"]) if "unsubscribe" in data else Reload()


TYPES = {"INTEGER": Type.INTEGER, "REAL": Type.REAL, "TEXT": Type.TEXT, "BLOB": Type.BLOB, "": Type.ANY}


def _table(data: Mapping[str, Any]) -> Table:
    columns = tuple(
        Column(name, TYPES[declared], declared, collation, nullable)
        for name, declared, collation, nullable in data["columns"]
    )
    return Table(data["name"], columns, tuple(data["key"]))


def _shown(row: Row | None) -> list[Any] | None:
    return None if row is None else [{"hex": value.hex()} if isinstance(value, bytes) else value for value in row]


def _maybe(row: Sequence[Any] | None) -> Row | None:
    return None if row is None else _row(row)


def _row(row: Sequence[Any]) -> Row:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Value:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
