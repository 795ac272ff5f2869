"""What SQLite answers: the one thing that every maintained result is compared with."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from itertools import pairwise
from types import TracebackType

from headwater.model.schema import Table
from tests.fuzz.case import Case, Rows


class Oracle:
    """The tables in SQLite's memory, filled anew where they changed."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._memory = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        for table in tables:
            self._memory.execute(_create(table))
        self._tables = tables

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._memory.close()

    def fill(self, rows: Rows, only: Collection[str] | None = None) -> None:
        self._memory.execute("BEGIN")
        for table in self._tables:
            if only is None or table.name in only:
                self._memory.execute(f"DELETE FROM {table.name}")
                holes = ", ".join("?" * len(table.columns))
                every = rows.of_table[table.name].values()
                self._memory.executemany(f"INSERT INTO {table.name} VALUES ({holes})", every)
        self._memory.execute("COMMIT")

    def answer(self, sql: str) -> list[str]:
        """Comparable to the bit: repr tells 1 from 1.0."""
        return [repr(row) for row in self._memory.execute(sql)]

    def liveliness(self, case: Case, sql: str) -> float:
        """The share of the first commits that change the answer. Raises where SQLite cannot run the query."""
        answers = []
        for number, rows in enumerate(case.states()):
            self.fill(rows, None if number == 0 else rows.touched)
            answers.append(sorted(self.answer(sql)))
            if number == _SAMPLE:
                break
        return sum(one != other for one, other in pairwise(answers)) / max(1, len(answers) - 1)


_SAMPLE = 12


def _create(table: Table) -> str:
    columns = [f"{c.name} {c.declared}{'' if c.nullable else ' NOT NULL'} COLLATE {c.collation}" for c in table.columns]
    key = [f"PRIMARY KEY ({', '.join(table.key)})"] if table.key else []
    return f"CREATE TABLE {table.name} ({', '.join([*columns, *key])})"
