"""What SQLite answers: the one thing that every maintained result is compared with."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from headwater.dialects.sqlite.literals import write
from headwater.model.schema import Column, Table
from tests.fuzz.case import Alter, Rows
from tests.fuzz.exactly import add_exactly


class Oracle:
    """The tables in SQLite's memory, filled anew where they changed; `exact` has sums of its own."""

    def __init__(self, tables: Sequence[Table], *, exact: bool = False) -> None:
        self._memory = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        if exact:
            add_exactly(self._memory)
        for table in tables:
            self._memory.execute(created(table))
        self._names = frozenset(table.name for table in tables)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._memory.close()

    def fill(self, rows: Rows, only: Collection[str] | None = None) -> None:
        self._memory.execute("BEGIN")
        for table in rows.tables.values():
            if only is None or table.name in only:
                self._memory.execute(f"DELETE FROM {table.name}")
                holes = ", ".join("?" * len(table.columns))
                every = rows.of_table[table.name].values()
                self._memory.executemany(f"INSERT INTO {table.name} VALUES ({holes})", every)
        self._memory.execute("COMMIT")

    def run(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """As one transaction."""
        self._memory.execute("BEGIN")
        for statement in statements:
            self._memory.execute(*statement)
        self._memory.execute("COMMIT")

    def alter(self, alter: Alter) -> None:
        self._memory.execute(altered(alter))

    def answer(self, sql: str) -> list[str]:
        """Comparable to the bit: repr tells 1 from 1.0."""
        return [repr(row) for row in self._memory.execute(sql)]

    def attempt(self, sql: str) -> list[str] | None:
        """None where SQLite has an error for these rows."""
        try:
            return self.answer(sql)
        except sqlite3.OperationalError:
            return None

    def reads(self, sql: str) -> Mapping[str, frozenset[str]]:
        """The columns that SQLite says it would read, by table."""
        found: dict[str, set[str]] = {}

        def note(action: int, table: str | None, column: str | None, *_: object) -> int:
            if action == sqlite3.SQLITE_READ and table in self._names:
                found.setdefault(str(table), set()).add(column or "")
            return sqlite3.SQLITE_OK

        self._memory.set_authorizer(note)
        try:
            self._memory.execute(f"EXPLAIN {sql}").close()
        finally:
            self._memory.set_authorizer(None)
        return {table: frozenset(columns - {""}) for table, columns in found.items()}


def created(table: Table) -> str:
    """STRICT where it has a column `k`; there a column without a type is spelled ANY."""
    strict = "k" in table.names
    columns = [_column(replace(one, declared="ANY") if strict and not one.declared else one) for one in table.columns]
    key = [f"PRIMARY KEY ({', '.join(table.key)})"] if table.key else []
    return f"CREATE TABLE {table.name} ({', '.join([*columns, *key])}){' STRICT' if strict else ''}"


def altered(alter: Alter) -> str:
    return f"ALTER TABLE {alter.table} ADD COLUMN {_column(alter.column)} DEFAULT {write(alter.column.default)}"


def _column(column: Column) -> str:
    null = "" if column.nullable else " NOT NULL"
    return f"{column.name} {column.declared}{null} COLLATE {column.collation}"
