"""A small origin for the engine's tests: a table in SQLite's memory, random transactions on it, random queries over it.

The oracle is the effective query, run by SQLite on the rows as they are.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from headwater.engine.emissions.index import Entry
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.rows.delta import RENAMES, Delta
from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce
from headwater.model.emission import Diff, Result, State, apply
from headwater.model.encoding.keys import hash_row
from headwater.model.errors import SqlError
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value, to_array
from headwater.plan.planner import Planned, effective_sql, plan
from tests.support.fuzz import MULTIPLIER

FUZZ = MULTIPLIER

COLUMNS = (
    Column("id", Type.INTEGER, "INTEGER"),
    Column("a", Type.INTEGER, "INTEGER"),
    Column("b", Type.TEXT, "TEXT", collation="NOCASE"),
    Column("c", Type.REAL, "REAL"),
    Column("d", Type.ANY, ""),
    Column("e", Type.BLOB, "BLOB"),
    Column("f", Type.TEXT, "TEXT"),
)
_FIRST_NAMES = frozenset(column.name for column in COLUMNS)
KEYS: tuple[tuple[str, ...], ...] = (("id",), ("a", "b"), ())


def table_of(key: tuple[str, ...]) -> Table:
    return Table("t", COLUMNS, key)


def value_for(column: Column, rng: random.Random) -> Value:
    if rng.random() < 0.15:
        return None
    if column.type is Type.ANY and column.declared and rng.random() < 0.3:
        return rng.choice((b"1", b"x"))  # no affinity converts a blob
    if column.name not in _FIRST_NAMES:
        return rng.choice(("new", "u", "v"))
    match column.name:
        case "id":
            return rng.randrange(12)
        case "a":
            return rng.choice((0, 1, 2, 3, -1))
        case "b":
            return rng.choice(("x", "X", "y", "é", "É", "", "x\x00y"))
        case "c":
            return rng.choice((0.0, 1.5, -2.5, 1e300, float("inf")))
        case "e":
            return rng.choice((b"", b"a", b"a\x00", b"\xff"))
        case "f":
            return rng.choice(("p", "P", "q", "10", "9"))
        case _:
            return rng.choice((1, 1.0, "1", b"1", 2**53 + 1, float(2**53), "x", "X", -1))


@dataclass(slots=True)
class Origin:
    """The rows as they are, by a number of their own, and how they change."""

    table: Table
    rng: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    born: int = 0

    def key(self, row: Row) -> int:
        table = self.table
        values = tuple(row[table.index(name)] for name in table.key)
        return hash_row(values, [table.column(name).collation for name in table.key])

    def free(self, row: Row, besides: int | None = None) -> bool:
        if not self.table.key:
            return True
        return all(self.key(other) != self.key(row) for number, other in self.rows.items() if number != besides)

    def random_row(self) -> Row:
        return tuple(value_for(column, self.rng) for column in self.table.columns)

    def transaction(self, most: int = 5) -> Transaction:
        changes: list[Change] = []
        for _ in range(self.rng.randint(1, most)):
            changes.extend(self._changes())
        return coalesce(Transaction(0, tuple(changes)), {self.table.name: self.table})

    def _changes(self) -> list[Change]:
        kind = self.rng.random()
        if not self.rows or kind < 0.4:
            return self._insert(self.random_row())
        number = self.rng.choice(list(self.rows))
        if kind < 0.6:
            return self._delete(number)
        if kind < 0.7:
            old = self.rows[number]
            return [*self._delete(number), *self._insert(self._changed(old, within_key=False))]
        return self._update(number, self._changed(self.rows[number], within_key=self.rng.random() < 0.3))

    def _changed(self, row: Row, within_key: bool) -> Row:
        names = [n for n, column in enumerate(self.table.columns) if within_key or column.name not in self.table.key]
        chosen = set(self.rng.sample(names, self.rng.randint(1, min(2, len(names)))))
        columns = self.table.columns
        return tuple(value_for(columns[n], self.rng) if n in chosen else value for n, value in enumerate(row))

    def _insert(self, row: Row) -> list[Change]:
        if not self.free(row):
            return []
        self.born += 1
        self.rows[self.born] = row
        return [Change(self.table.name, None, row)]

    def _delete(self, number: int) -> list[Change]:
        return [Change(self.table.name, self.rows.pop(number), None)]

    def _update(self, number: int, row: Row) -> list[Change]:
        if not self.free(row, besides=number):
            return []
        old, self.rows[number] = self.rows[number], row
        return [Change(self.table.name, old, row)]

    def batch(self) -> pa.RecordBatch:
        return batch_of(self.table, list(self.rows.values()))


def batch_of(table: Table, rows: Sequence[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(table.columns)
    arrays = [to_array(values, column.type) for values, column in zip(columns, table.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow)


def delta_of(table: Table, transactions: Sequence[tuple[int, Transaction]]) -> Delta:
    """What the log makes of transactions: −1 and +1 rows, and the rename map."""
    rows: list[Row] = []
    marks: list[tuple[int, int]] = []
    renames: list[tuple[int, int, int]] = []
    places = [table.index(name) for name in table.identity]
    collations = [table.column(name).collation for name in table.identity]
    for tx, transaction in transactions:
        for change in transaction.changes:
            hashes = []
            for image, diff in ((change.old, -1), (change.new, 1)):
                if image is not None:
                    rows.append(image)
                    marks.append((tx, diff))
                    hashes.append(hash_row(tuple(image[place] for place in places), collations))
            if len(set(hashes)) == 2:
                renames.append((tx, hashes[0], hashes[1]))
    plain = batch_of(table, rows)
    tx_column = pa.array([tx for tx, _ in marks], pa.int64())
    diff_column = pa.array([diff for _, diff in marks], pa.int8())
    schema = pa.schema([*table.arrow, pa.field("tx", pa.int64()), pa.field("diff", pa.int8())])
    batch = pa.RecordBatch.from_arrays([*plain.columns, tx_column, diff_column], schema=schema)
    return Delta(batch, _renames(renames) if renames else None)


def _renames(rows: Sequence[tuple[int, int, int]]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), RENAMES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RENAMES)


class Oracle:
    """The effective query on the rows there are, by SQLite."""

    def __init__(self, table: Table) -> None:
        self.memory = sqlite3.connect(":memory:", isolation_level=None)
        self.define(table)

    def define(self, table: Table) -> None:
        self.table = table
        columns = ", ".join(f'"{c.name}" {c.declared} COLLATE {c.collation}' for c in table.columns)
        self.memory.execute(f'DROP TABLE IF EXISTS "{table.name}"')
        self.memory.execute(f'CREATE TABLE "{table.name}" ({columns})')

    def fill(self, rows: Sequence[Row]) -> None:
        self.memory.execute(f'DELETE FROM "{self.table.name}"')
        marks = ", ".join("?" * len(self.table.columns))
        self.memory.executemany(f'INSERT INTO "{self.table.name}" VALUES ({marks})', rows)

    def answer(self, planned: Planned) -> list[Row]:
        return self.memory.execute(effective_sql(planned.template, planned.instance)).fetchall()

    def close(self) -> None:
        self.memory.close()


def exact(rows: Sequence[Row], ordered: bool) -> list[str]:
    """Comparable to the bit: 1 is not 1.0."""
    shown = [repr(row) for row in rows]
    return shown if ordered else sorted(shown)


_CONDITIONS = (
    "a = {a}",
    "b = '{b}'",
    "a > {a}",
    "a + id < {n}",
    "b LIKE '{b}%'",
    "c IS NULL",
    "c >= 0",
    "d = 1",
    "d > 0",
    "f BETWEEN '1' AND 'p'",
    "a IN (0, 2, NULL)",
    "CASE WHEN a > 0 THEN c > 0 ELSE id > 3 END",
    "NOT (a = 1 OR b = 'y')",
    "e > x'00'",
    "id % 3 = {a}",
    "f = '{f}'",
    "length(b) > 0",
    "d",
)
_OUTPUTS = ("id", "a", "b", "c", "d", "e", "f", "a + id AS s", "b || f AS bf", "coalesce(d, a) AS da", "c * 2 AS c2")
_ORDERS = ("a", "b", "c DESC", "d", "a DESC NULLS LAST", "f COLLATE NOCASE", "length(f)", "e DESC", "id", "b DESC")


def random_sql(rng: random.Random) -> str:
    outputs = "*" if rng.random() < 0.2 else ", ".join(rng.sample(_OUTPUTS, rng.randint(1, 4)))
    sql = f"SELECT {outputs} FROM t"
    conditions = rng.sample(_CONDITIONS, rng.choice((0, 0, 1, 1, 2)))
    if conditions:
        sql += " WHERE " + " AND ".join(f"({each})" for each in conditions)
    if rng.random() < 0.6:
        sql += " ORDER BY " + ", ".join(rng.sample(_ORDERS, rng.randint(1, 2)))
    if rng.random() < 0.5:
        sql += f" LIMIT {rng.choice((0, 1, 3, 5, 100))}"
        if rng.random() < 0.5:
            sql += f" OFFSET {rng.choice((1, 2, 4))}"
    return sql.format(a=rng.choice((0, 1, 2)), n=rng.randrange(10), b=rng.choice("xXy"), f=rng.choice("pq"))


def random_plan(table: Table, rng: random.Random) -> Planned:
    while True:
        try:
            return plan(random_sql(rng), [table])
        except SqlError:
            continue


@dataclass(slots=True)
class Subscriber:
    """A result held only by applying what was emitted."""

    planned: Planned
    state: State = field(default_factory=State)
    last: int = 0

    @property
    def names(self) -> list[str]:
        return [output.name for output in self.planned.template.outputs]

    @property
    def rows(self) -> list[Row]:
        return [tuple(row[name] for name in self.names) for row in self.state.rows]

    def receive(self, entry: Entry, emission: Result | Diff) -> None:
        if isinstance(emission, Diff):
            assert emission.changes, "an emission that says nothing"
            assert emission.prev == self.last
            before = self.shown()
            self.state = apply(self.state, emission)
            assert self.shown() != before, "an emission where nothing changed"
        else:
            self.state = apply(self.state, replace(emission, gen=self.state.gen))
        self.last = entry.tx
        assert len(set(self.state.hashes)) == len(self.state.hashes)

    def shown(self) -> object:
        rows = [repr(row) for row in self.state.rows]
        return rows if self.planned.template.ordered else sorted(rows)


def deliver(emitted: EmissionBatch, subscribers: Sequence[Subscriber]) -> None:
    """At most one emission per transaction and query, in commit order."""
    diffs = [(entry.instance, entry.tx) for entry in emitted.index if entry.kind != "result"]
    assert len(set(diffs)) == len(diffs)
    for subscriber in subscribers:
        template = subscriber.planned.template
        mine = [entry for entry in emitted.index if entry.instance == subscriber.planned.instance.id]
        edits = emitted.edits.get(template.id)
        for entry, emission in zip(mine, read_emissions(mine, edits, subscriber.names, lambda tx: tx), strict=True):
            subscriber.receive(entry, emission)
