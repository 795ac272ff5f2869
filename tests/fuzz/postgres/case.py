"""A case in PostgreSQL's dialect: tables, rows, queries and what several connections do, as plain data and plain SQL.

It can be cut down and kept as a file. Nothing here draws lots and nothing here runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

KINDS = {
    **dict.fromkeys(("int2", "int4", "int8"), "int"),
    "float8": "float",
    **dict.fromkeys(("numeric", "numeric(8,2)"), "numeric"),
    **dict.fromkeys(("text", 'text COLLATE "C"', "varchar(8)"), "text"),
    "text COLLATE tongue": "tongue",
    "bool": "bool",
    "date": "date",
    "timestamp": "moment",
    "timestamptz": "instant",
    "uuid": "uuid",
}


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is as SQL writes it, with its quotes."""

    name: str
    declared: str
    nullable: bool = True

    @property
    def kind(self) -> str:
        """What it may be computed and compared with; `tongue` is text that only the server knows the order of."""
        return KINDS[self.declared]


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key to the id of another table."""

    column: str
    table: str
    then: str


@dataclass(frozen=True, slots=True)
class Table:
    """`parted` by ranges of its id; `full` is its replica identity, where it has a key."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    parted: bool = False
    full: bool = False

    @property
    def kinds(self) -> set[str]:
        return {column.kind for column in self.columns}

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self._part(name) for name in ("low", "high")) if self.parted else ()

    def created(self) -> Iterator[str]:
        schema, _, _ = self.name.rpartition(".")
        if schema:
            yield f"CREATE SCHEMA IF NOT EXISTS {schema}"
        every = ", ".join([*map(_defined, self.columns), *self._constraints()])
        yield f"CREATE TABLE {self.name} ({every}){' PARTITION BY RANGE (id)' if self.parted else ''}"
        for part, bounds in zip(self.parts, ("MINVALUE) TO (3", "3) TO (MAXVALUE"), strict=False):
            yield f"CREATE TABLE {part} PARTITION OF {self.name} FOR VALUES FROM ({bounds})"
        for name in (self.name, *self.parts) if self.full or not self.key else ():
            yield f"ALTER TABLE {name} REPLICA IDENTITY FULL"

    def _constraints(self) -> Iterator[str]:
        if self.key:
            yield f"PRIMARY KEY ({', '.join(self.key)})"
        for one in self.references:
            yield f"FOREIGN KEY ({one.column}) REFERENCES {one.table} (id) {one.then}"

    def _part(self, name: str) -> str:
        schema, dot, own = self.name.rpartition(".")
        inner = own.strip('"')
        return f'{schema}{dot}"{name} {inner}"'


def _defined(column: Column) -> str:
    return f"{column.name} {column.declared}{'' if column.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class Query:
    """`certain` says that PostgreSQL has only one answer: no LIMIT cuts through what its order leaves alike."""

    sql: str
    params: tuple[int | float | str | bool, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Action:
    """INSERT: `text` is what follows the name; UPDATE: the assignments. UPDATE and DELETE take the first `most` rows of
    `where`. REPEAT: `text` is a statement out of a journal. `undone` to its savepoint straight away."""

    verb: str
    table: str
    text: str = ""
    where: str = ""
    most: int = 1
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Transaction:
    level: str
    actions: tuple[Action, ...]
    committed: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """`late` are the queries that are asked while the `sessions`, one for each connection, are at work already; then
    each of `turns` is left, or asked again where it was left before. `strategies` is what these are drawn by; None
    where the planner chooses. `by_key`: tables of any size are held by key, where they can be."""

    tables: tuple[Table, ...]
    rows: tuple[Action, ...]
    queries: tuple[Query, ...]
    sessions: tuple[tuple[Transaction, ...], ...]
    late: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()
    strategies: int | None = None
    by_key: bool = False

    def created(self) -> Iterator[str]:
        for table in self.tables:
            yield from table.created()


def write(case: Case, path: Path, reason: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"reason": reason, **asdict(case)}, indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> Case:
    return msgspec.json.decode(path.read_bytes(), type=Case)
