"""Random base tables, transactions and relations for the operators' tests; and the fold that checks what comes out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.derived import Derived
from headwater.engine.rows.delta import Delta
from headwater.model.change import Transaction
from headwater.model.encoding.keys import hash_row
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value, from_array
from headwater.sql.ir.expr import Call, ColumnRef, Const, Expr, OrderKey, Output
from headwater.sql.ir.relation import (
    Aggregate,
    Distinct,
    Exists,
    Filter,
    Group,
    Join,
    JoinKind,
    Mark,
    Project,
    Relation,
    RelColumn,
    Scan,
    SetOperation,
    Top,
    Values,
    columns_of,
    inputs_of,
)
from tests.engine.world import Origin, delta_of

_SHAPE = (
    (Type.INTEGER, "BINARY"),
    (Type.INTEGER, "BINARY"),
    (Type.TEXT, "NOCASE"),
    (Type.REAL, "BINARY"),
    (Type.TEXT, "BINARY"),
    (Type.BLOB, "BINARY"),
)
_KEYS: tuple[tuple[str, ...], ...] = (("c0",), ("c1", "c4"), ())
_AFFINITIES = {
    Type.INTEGER: Affinity.INTEGER,
    Type.REAL: Affinity.REAL,
    Type.TEXT: Affinity.TEXT,
    Type.BLOB: Affinity.BLOB,
    Type.ANY: Affinity.BLOB,
}
INTEGER = Type.INTEGER


def random_table(name: str, rng: random.Random) -> Table:
    columns = [Column(f"c{n}", type, _AFFINITIES[type], collation) for n, (type, collation) in enumerate(_SHAPE)]
    return Table(name, tuple(columns), rng.choice(_KEYS))


def random_value(column: Column, rng: random.Random) -> Value:
    if rng.random() < 0.15:
        return None
    match column.type, column.collation:
        case Type.INTEGER, _:
            return rng.randrange(10) if column.name == "c0" else rng.choice((0, 1, 2, 3, -1))
        case Type.REAL, _:
            return rng.choice((0.0, 1.0, 1.5, -2.25, 3.0))
        case Type.BLOB, _:
            return rng.choice((b"", b"a", b"a\x00"))
        case _, "NOCASE":
            return rng.choice(("x", "X", "y", ""))
        case _:
            return rng.choice(("p", "P", "q", "10"))


@dataclass(slots=True)
class Base(Origin):
    """A base table of this world."""

    def random_row(self) -> Row:
        return tuple(self._value(column) for column in self.table.columns)

    def _value(self, column: Column) -> Value:
        """A key is never NULL: SQLite's may be, and then it is no key to us."""
        value = random_value(column, self.rng)
        return self._value(column) if value is None and column.name in self.table.key else value

    def _changed(self, row: Row, within_key: bool) -> Row:
        chosen = {n for n, c in enumerate(self.table.columns) if within_key or c.name not in self.table.key}
        some = set(self.rng.sample(sorted(chosen), self.rng.randint(1, 2)))
        fresh = self.random_row()
        return tuple(fresh[n] if n in some else value for n, value in enumerate(row))


@dataclass(slots=True)
class World:
    bases: dict[str, Base]

    @property
    def tables(self) -> dict[str, Table]:
        return {name: base.table for name, base in self.bases.items()}

    @property
    def rows(self) -> dict[str, list[Row]]:
        return {name: list(base.rows.values()) for name, base in self.bases.items()}

    def transaction(self, rng: random.Random) -> dict[str, Transaction]:
        touched = [name for name in self.bases if rng.random() < 0.6] or [next(iter(self.bases))]
        return {name: self.bases[name].transaction(3) for name in touched}


def random_world(rng: random.Random) -> World:
    tables = [random_table(name, rng) for name in ("t", "u", "v")]
    return World({table.name: Base(table, rng) for table in tables})


def deltas_of(
    tables: Mapping[str, Table], steps: Sequence[tuple[int, dict[str, Transaction]]]
) -> dict[str, list[Delta]]:
    """Several transactions as a step's input."""
    by_table: dict[str, list[tuple[int, Transaction]]] = {}
    for tx, transactions in steps:
        for name, each in transactions.items():
            by_table.setdefault(name, []).append((tx, each))
    return {name: [delta_of(tables[name], each)] for name, each in by_table.items() if any(t.changes for _, t in each)}


@dataclass(slots=True)
class Relations:
    """Random relations. Equal values look alike wherever a set or a group chooses among them."""

    world: World
    rng: random.Random
    made: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def relation(self, depth: int) -> Relation:
        if depth == 0 or self.rng.random() < 0.1:
            return self._leaf()
        make = self.rng.choice(
            (
                self._filter,
                self._project,
                self._join,
                self._join,
                self._exists,
                self._mark,
                self._group,
                self._distinct,
                self._set,
                self._top,
            )
        )
        return make(depth - 1)

    def _name(self, word: str) -> str:
        self.made += 1
        return f"{word}{self.made}"

    def _leaf(self) -> Relation:
        if self.rng.random() < 0.1:
            given = (
                RelColumn(self._name("w."), INTEGER, Affinity.INTEGER),
                RelColumn(self._name("w."), Type.TEXT, Affinity.TEXT),
            )
            rows = tuple(
                (self.rng.choice((0, 1, None)), self.rng.choice(("p", "q"))) for _ in range(self.rng.randint(1, 3))
            )
            return Values(given, rows)
        table = self.world.tables[self.rng.choice(sorted(self.world.tables))]
        prefix = self._name("s")
        columns = tuple(
            RelColumn(f"{prefix}.{c.name}", c.type, _AFFINITIES[c.type], c.collation, c.declared) for c in table.columns
        )
        return Scan(table.name, table.names, columns, tuple(f"{prefix}.{name}" for name in table.key))

    def _filter(self, depth: int) -> Relation:
        input = self.relation(depth)
        return Filter(input, self.predicate(columns_of(input)))

    def _project(self, depth: int) -> Relation:
        input = self.relation(depth)
        columns = columns_of(input)
        kept = self.rng.sample(columns, self.rng.randint(1, len(columns)))
        renamed = [
            (Output(name, ref(c)), RelColumn(name, c.type, c.sql_type, c.collation))
            for c in kept
            for name in [self._name("p.")]
        ]
        integers = [c for c in columns if c.type is INTEGER]
        if integers:
            one, name = self.rng.choice(integers), self._name("p.")
            renamed.append((Output(name, Call("+", (ref(one), Const(1, INTEGER)), INTEGER)), RelColumn(name, INTEGER)))
        return Project(input, tuple(o for o, _ in renamed), tuple(c for _, c in renamed))

    def _join(self, depth: int) -> Relation:
        left, right = self.relation(depth), self.relation(depth)
        kind: JoinKind = self.rng.choice(get_args(JoinKind))
        on = None if kind == "inner" and self.rng.random() < 0.05 else self._on(left, right)
        return Join(kind, left, right, on)

    def _on(self, left: Relation, right: Relation) -> Expr:
        pairs = [(a, b) for a in columns_of(left) for b in columns_of(right) if _alike(a, b)]
        if not pairs:
            return self.predicate(columns_of(right))
        some = self.rng.sample(pairs, min(len(pairs), self.rng.choice((1, 1, 2))))
        signs = [self.rng.choice(("=", "=", "=", "=", "is", "<")) for _ in some]
        parts: list[Expr] = [compare(sign, *self._either(a, b)) for sign, (a, b) in zip(signs, some, strict=True)]
        if self.rng.random() < 0.2:
            parts.append(self.predicate((*columns_of(left), *columns_of(right))))
        return conjoined(parts)

    def _either(self, one: RelColumn, other: RelColumn) -> tuple[RelColumn, RelColumn]:
        return (one, other) if self.rng.random() < 0.7 else (other, one)

    def _exists(self, depth: int) -> Relation:
        left, right = self.relation(depth), self.relation(depth)
        return Exists(left, right, self._on(left, right), self.rng.random() < 0.6, self.rng.random() < 0.5)

    def _mark(self, depth: int) -> Relation:
        left, right = self.relation(depth), self.relation(depth)
        column = RelColumn(self._name("m."), INTEGER)
        return Mark(left, right, self._on(left, right), column, self.rng.random() < 0.5)

    def _group(self, depth: int) -> Relation:
        input = self.relation(depth)
        columns = [c for c in columns_of(input) if c.collation == "BINARY"]
        keys = self.rng.sample(columns, min(len(columns), self.rng.choice((0, 1, 1, 2))))
        named = [(Output(n, ref(c)), RelColumn(n, c.type, c.sql_type)) for c in keys for n in [self._name("g.")]]
        aggregates = [self._aggregate(columns, columns_of(input)) for _ in range(self.rng.randint(1, 4))]
        return Group(input, tuple(o for o, _ in named), tuple(c for _, c in named), tuple(aggregates))

    def _aggregate(self, columns: Sequence[RelColumn], every: Sequence[RelColumn]) -> Aggregate:
        name = self._name("a.")
        numbers = [c for c in columns if c.type in (INTEGER, Type.REAL)]
        where = self.predicate(every) if self.rng.random() < 0.2 else None
        if not columns or self.rng.random() < 0.2:
            return Aggregate(RelColumn(name, INTEGER), "count", (), filter=where)
        distinct, column = self.rng.random() < 0.3, self.rng.choice(columns)
        function = self.rng.choice(("count", "min", "max", "sum", "avg", "total", "group_concat"))
        if function == "group_concat":
            order = total_order(every, self.rng)
            sep: tuple[Expr, ...] = (Const("; ", Type.TEXT),) if self.rng.random() < 0.5 else ()
            return Aggregate(RelColumn(name, Type.TEXT), function, (ref(column), *sep), filter=where, order=order)
        if function in ("sum", "avg", "total"):
            if not numbers:
                return Aggregate(RelColumn(name, INTEGER), "count", (ref(column),), distinct, where)
            column = self.rng.choice(numbers)
        type = {"count": INTEGER, "avg": Type.REAL, "total": Type.REAL}.get(function, column.type)
        return Aggregate(RelColumn(name, type), function, (ref(column),), distinct, where)

    def _distinct(self, depth: int) -> Relation:
        return Distinct(self._plain(self.relation(depth)))

    def _plain(self, relation: Relation) -> Relation:
        """Without the columns in which equal values may look different."""
        columns = [c for c in columns_of(relation) if c.collation == "BINARY"]
        return self._kept(relation, columns[:3]) if columns else self._leaf_of_integers()

    def _kept(self, relation: Relation, columns: Sequence[RelColumn]) -> Relation:
        names = [self._name("k.") for _ in columns]
        return Project(
            relation,
            tuple(Output(n, ref(c)) for n, c in zip(names, columns, strict=True)),
            tuple(RelColumn(n, c.type, c.sql_type, c.collation) for n, c in zip(names, columns, strict=True)),
        )

    def _leaf_of_integers(self) -> Relation:
        return Values((RelColumn(self._name("w."), INTEGER, Affinity.INTEGER),), ((1,), (2,), (2,)))

    def _set(self, depth: int) -> Relation:
        left, right = self._plain(self.relation(depth)), self._plain(self.relation(depth))
        types = [c.type for c in columns_of(left)]
        other = [c.type for c in columns_of(right)]
        common = [(a, b) for a, b in zip(columns_of(left), columns_of(right), strict=False) if a.type is b.type]
        if types != other:
            if not common:
                return Distinct(left)
            left, right = self._kept(left, [a for a, _ in common]), self._kept(right, [b for _, b in common])
        kind = self.rng.choice(("union", "intersect", "except"))
        columns = tuple(RelColumn(self._name("u."), c.type, c.sql_type, c.collation) for c in columns_of(left))
        every = kind == "union" and self.rng.random() < 0.5
        return SetOperation(kind, every, left, right, columns)  # type: ignore[arg-type]

    def _top(self, depth: int) -> Relation:
        input = self.relation(depth)
        columns = columns_of(input)
        by = tuple(ref(c) for c in self.rng.sample(columns, self.rng.choice((0, 0, 1))))
        limit = self.rng.choice((1, 2, 3, 5, None))
        return Top(input, total_order(columns, self.rng), limit, self.rng.choice((0, 0, 1, 2)), by)

    def predicate(self, columns: Sequence[RelColumn]) -> Expr:
        one = self._comparison(columns)
        if self.rng.random() < 0.3:
            return Call(self.rng.choice(("and", "or")), (one, self._comparison(columns)), INTEGER)
        return one

    def _comparison(self, columns: Sequence[RelColumn]) -> Expr:
        column = self.rng.choice(columns)
        kind = self.rng.random()
        if kind < 0.15:
            return Call(self.rng.choice(("is", "isnot")), (ref(column), Const(None, None)), INTEGER, column.collation)
        others = [c for c in columns if c is not column and _alike(column, c)]
        sign = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        if kind < 0.4 and others:
            return compare(sign, column, self.rng.choice(others))
        value = random_value(Column("c1", column.type, "", column.collation), self.rng)
        constant = Const(value, None if value is None else column.type)
        return Call(sign, (ref(column), constant), INTEGER, column.collation)


def ref(column: RelColumn) -> ColumnRef:
    return ColumnRef(column.name, column.type, column.sql_type, column.collation)


def compare(sign: str, one: RelColumn, other: RelColumn) -> Call:
    return Call(sign, (ref(one), ref(other)), INTEGER, one.collation)


def conjoined(parts: Sequence[Expr]) -> Expr:
    whole = parts[0]
    for part in parts[1:]:
        whole = Call("and", (whole, part), INTEGER)
    return whole


def total_order(columns: Sequence[RelColumn], rng: random.Random) -> tuple[OrderKey, ...]:
    first = [
        OrderKey(ref(c), rng.random() < 0.5, rng.random() < 0.5, c.collation)
        for c in rng.sample(columns, min(len(columns), 2))
    ]
    return (*first, *(OrderKey(ref(c)) for c in columns))


def _alike(one: RelColumn, other: RelColumn) -> bool:
    numbers = (INTEGER, Type.REAL)
    return one.type is other.type or (one.type in numbers and other.type in numbers)


def nodes(relation: Relation) -> Iterator[Relation]:
    yield relation
    for each in inputs_of(relation):
        yield from nodes(each)


def shown(rows: Sequence[Row]) -> list[str]:
    return sorted(map(repr, rows))


def rows_of(table: Table, batch: object) -> list[Row]:
    columns = [from_array(batch.column(n), c.type) for n, c in enumerate(table.columns)]  # type: ignore[attr-defined]
    return list(zip(*columns, strict=True))


@dataclass(slots=True)
class Folded:
    """A derived relation held only by folding its deltas; every delta is checked on the way."""

    derived: Derived
    rows: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    renames: list[tuple[int, int, int]] = field(default_factory=list)

    def load(self, rows: Sequence[Row]) -> None:
        self.rows = Counter(map(repr, rows))

    def fold(self, delta: Delta | None) -> dict[int, list[str]]:
        """The rows after each transaction that changed them."""
        if delta is None:
            return {}
        table = self.derived.table
        marks = zip(*(delta.batch.column(delta.batch.num_columns - n).to_pylist() for n in (2, 1)), strict=True)
        seen: set[tuple[int, object, int]] = set()
        after: dict[int, list[str]] = {}
        last = 0
        by_tx: dict[int, list[tuple[Row, int]]] = {}
        for row, (tx, diff) in zip(rows_of(table, delta.batch), marks, strict=True):
            assert tx >= last and diff in (-1, 1)
            last = tx
            by_tx.setdefault(tx, []).append((row, diff))
        for tx, changes in by_tx.items():
            for row, diff in changes:
                self._check(tx, row, diff, seen)
                self.rows[repr(row)] += diff
            self.rows = +self.rows
            assert Counter(repr(r) for r, d in changes if d > 0).keys().isdisjoint(repr(r) for r, d in changes if d < 0)
            after[tx] = sorted(self.rows.elements())
            self.log.append(repr((tx, changes)))
        self._check_renames(delta, by_tx)
        return after

    def _check(self, tx: int, row: Row, diff: int, seen: set[tuple[int, object, int]]) -> None:
        table = self.derived.table
        if table.key:
            mark = (tx, self.identity(row), diff)
            assert mark not in seen, "an identity twice in a transaction"
            seen.add(mark)
        assert diff > 0 or self.rows[repr(row)] > 0, "a row left that was never there"

    def identity(self, row: Row) -> int:
        table = self.derived.table
        values = tuple(row[table.index(name)] for name in table.identity)
        return hash_row(values, [table.column(name).collation for name in table.identity])

    def _check_renames(self, delta: Delta, by_tx: Mapping[int, Sequence[tuple[Row, int]]]) -> None:
        if delta.renames is None:
            return
        seen: set[tuple[int, str, int]] = set()
        for tx, old, new in zip(*(column.to_pylist() for column in delta.renames.columns), strict=True):
            gone = [self.identity(row) for row, diff in by_tx[tx] if diff < 0]
            came = [self.identity(row) for row, diff in by_tx[tx] if diff > 0]
            assert old in gone and new in came and old != new
            assert (tx, "old", old) not in seen and (tx, "new", new) not in seen
            seen |= {(tx, "old", old), (tx, "new", new)}
            self.renames.append((tx, old, new))
