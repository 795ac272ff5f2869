"""The one oracle: the journal, replayed in commit order into a scratch database of the same engine, and the effective
queries run there. It never looks at what we captured."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headwater.model.emission import Emission, Fields, Result, State, apply
from headwater.plan.planner import Planned, effective_sql, plan
from headwater.sources import open_source
from tests.support.shop import SCHEMA, unpacked


class Oracle:
    def __init__(self, path: Path, queries: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        self._path = path
        tables = _tables(path)
        self._planned: list[Planned] = [plan(sql, tables, _given(params)) for sql, params in queries]
        self._sql = [effective_sql(one.template, one.instance) for one in self._planned]
        self._names = [[output.name for output in one.template.outputs] for one in self._planned]
        self.ordered = [one.template.ordered for one in self._planned]

    def states(self) -> Iterator[tuple[int, list[list[Fields]]]]:
        """The rows of every query after each journalled transaction, and before the first (with id 0)."""
        for id, scratch in replayed(self._path):
            yield id, self._rows(scratch)

    def _rows(self, scratch: sqlite3.Connection) -> list[list[Fields]]:
        return [
            [dict(zip(names, row, strict=True)) for row in scratch.execute(sql)]
            for sql, names in zip(self._sql, self._names, strict=True)
        ]


def replayed(path: Path) -> Iterator[tuple[int, sqlite3.Connection]]:
    """The journal in commit order, in a scratch database that stands just after each of its transactions."""
    scratch = sqlite3.connect(":memory:", isolation_level=None)
    scratch.execute("PRAGMA foreign_keys = OFF")
    scratch.executescript(SCHEMA)
    yield 0, scratch
    with sqlite3.connect(path) as source:
        journal = source.execute("SELECT id, writer, statements FROM journal ORDER BY id").fetchall()
    source.close()
    for id, writer, statements in journal:
        scratch.execute("BEGIN")
        for sql, params in json.loads(statements):
            scratch.execute(sql, [unpacked(value) for value in params])
        scratch.execute("INSERT INTO journal VALUES (?, ?, ?)", (id, writer, statements))
        scratch.execute("COMMIT")
        yield id, scratch
    scratch.close()


def same_rows(found: Sequence[Fields], expected: Sequence[Fields], ordered: bool) -> bool:
    """To the bit: repr tells 1 from 1.0 and 0.0 from -0.0."""
    left, right = [repr(dict(row)) for row in found], [repr(dict(row)) for row in expected]
    return left == right if ordered else sorted(left) == sorted(right)


def applied(state: State, emission: Emission, ordered: bool) -> State:
    """Law 5: an emission that is no fresh result changes something that a subscriber sees."""
    after = apply(state, emission)
    unchanged = after is not state and same_rows(state.rows, after.rows, ordered)
    assert isinstance(emission, Result) or not unchanged, f"an emission where nothing changed: {emission}"
    return after


def _tables(path: Path) -> tuple[Any, ...]:
    source = open_source(f"sqlite:///{path}")
    try:
        return source.tables()
    finally:
        source.close()


def _given(params: tuple[Any, ...]) -> Any:
    return params[0] if len(params) == 1 and isinstance(params[0], dict) else params
