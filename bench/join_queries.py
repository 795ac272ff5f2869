"""Join queries over tables with skewed values: chains, stars and random trees, and what their joins really give."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.join_order.cardinality import Cardinality
from headwater.plan.join_order.cluster import Cluster, clusters_of
from headwater.plan.join_order.profile import Profile
from headwater.plan.planner import Planned, plan
from headwater.sql.ir.relation import Demand, Filter, Relation, Scan
from headwater.sql.ir.walk import references

_COUNTED_MAX = 100_000  # no order that is any good has a join with more rows
NAMES = ("id", "x", "y", "z")
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class World:
    """Tables t0, t1, … with their rows, and the same rows in SQLite, which counts joins."""

    tables: tuple[Table, ...]
    rows: tuple[list[Row], ...]
    database: sqlite3.Connection

    def count(self, sql: str) -> int:
        return int(self.database.execute(sql).fetchone()[0])


def world(random: Random, sizes: Sequence[int], skew: float, related: float = 0.0) -> World:
    """`skew` 0 is even; the larger, the more rows have the few first values. Of a share `related` of the rows, y and z
    follow from x."""
    tables = tuple(
        Table(f"t{n}", tuple(Column(name, Type.INTEGER, "INTEGER") for name in NAMES), ("id",))
        for n in range(len(sizes))
    )
    rows: tuple[list[Row], ...] = tuple(
        [(id, *_values(random, size, skew, related)) for id in range(size)] for size in sizes
    )
    database = sqlite3.connect(":memory:")
    for table, each in zip(tables, rows, strict=True):
        database.execute(f"CREATE TABLE {table.name} (id INTEGER PRIMARY KEY, x INTEGER, y INTEGER, z INTEGER)")
        database.executemany(f"INSERT INTO {table.name} VALUES (?, ?, ?, ?)", each)
        for name in NAMES[1:]:
            database.execute(f"CREATE INDEX {table.name}_{name} ON {table.name} ({name})")
    database.commit()
    return World(tables, rows, database)


def _values(random: Random, size: int, skew: float, related: float) -> tuple[int, int, int]:
    x, y, z = (_skewed(random, size, skew) for _ in range(3))
    return (x, x, x // 2) if random.random() < related else (x, y, z)


def _skewed(random: Random, size: int, skew: float) -> int:
    return int(size * random.random() ** (1.0 + skew))


def chain(count: int) -> list[str]:
    return [f"t{n}.x = t{n + 1}.id" for n in range(count - 1)]


def star(count: int) -> list[str]:
    return [f"t0.{'xyz'[n % 3]} = t{n}.id" for n in range(1, count)]


def random_tree(random: Random, count: int) -> list[str]:
    """Joins on keys and on other columns, sometimes a cycle, and tests that are not lifted."""
    pairs: list[Pair] = [(random.randrange(n), n) for n in range(1, count)]
    if count > 3 and random.random() < 0.3:
        pairs.append((0, count - 1))
    joins = [f"t{a}.{random.choice('xyz')} = t{b}.{random.choice(('id', 'id', 'x'))}" for a, b in pairs]
    tested = random.sample(range(count), random.randint(0, 2))
    return [*joins, *(f"t{n}.z + 0 < {random.choice((2, 10, 40))}" for n in tested)]


def twice_joined(random: Random, count: int) -> list[str]:
    """As `random_tree`; some tables meet in two columns."""
    pairs = [(random.randrange(n), n) for n in range(1, count)]
    joins = [f"t{a}.x = t{b}.{random.choice(('id', 'x'))}" for a, b in pairs]
    more = [f"t{a}.y = t{b}.y" for a, b in pairs if random.random() < 0.4]
    tested = random.sample(range(count), random.randint(0, 2))
    return [*joins, *more, *(f"t{n}.z + 0 < {random.choice((2, 10, 40))}" for n in tested)]


def asked(random: Random, made: World) -> list[str]:
    """Of one table or two, a value that it has: subscribers of one template ask for different ones."""
    tables = random.sample(range(len(made.tables)), random.choice((1, 1, 2)))
    places = [(n, random.choice((2, 3))) for n in tables]
    return [f"t{n}.{NAMES[place]} = {random.choice(made.rows[n])[place]!r}" for n, place in places]


def written(random: Random, count: int, conditions: Sequence[str]) -> str:
    """FROM names the tables in a random order."""
    names = [f"t{n}" for n in range(count)]
    random.shuffle(names)
    shown = ", ".join(f"{name}.id AS {name}_id" for name in names)
    return f"SELECT {shown} FROM {', '.join(names)} WHERE {' AND '.join(conditions)}"


def bound(world: World, sql: str) -> tuple[Planned, Cluster]:
    planned = plan(sql, world.tables)
    assert planned.template.relation is not None
    (cluster,) = clusters_of(planned.template.relation)
    return planned, cluster


class Counted(Cardinality):
    """Cardinalities as they are: SQLite counts them."""

    def __init__(self, cluster: Cluster, world: World, conditions: Sequence[str]) -> None:
        super().__init__(cluster, [Profile(1.0, {})] * len(cluster.inputs))
        self._world, self._conditions = world, conditions
        self._names = [_table(each) for each in cluster.inputs]
        self._implied = [(one.needs, " = ".join(ref.name for ref in references(one.expr))) for one in cluster.implied]

    def _estimated(self, inputs: int) -> float:
        names = {name for n, name in enumerate(self._names) if inputs >> n & 1}
        mine = [each for each in self._conditions if _tables(each) <= names]
        mine += [each for needs, each in self._implied if not needs & ~inputs]
        where = f" WHERE {' AND '.join(mine)}" if mine else ""
        rows = f"SELECT 1 FROM {', '.join(sorted(names))}{where} LIMIT {_COUNTED_MAX}"
        return float(self._world.count(f"SELECT count(*) FROM ({rows})"))


def _table(input: Relation) -> str:
    while isinstance(input, Filter | Demand):
        input = input.input
    assert isinstance(input, Scan)
    return input.table


def _tables(condition: str) -> set[str]:
    return {word.partition(".")[0] for word in condition.split() if word.startswith("t")}
