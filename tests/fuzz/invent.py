"""A case from a number: random tables, rows, queries over the whole surface, and what happens to them."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from headwater.model.schema import Column, Table
from headwater.model.value import Row, Value
from tests.fuzz.asking import Asking
from tests.fuzz.case import TYPES, Case, Rows, possible
from tests.fuzz.chance import ROWS_MAX, Chance
from tests.fuzz.history import History
from tests.fuzz.oracle import Oracle

_KEYS: tuple[tuple[str, ...], ...] = (("id",), ("id",), ("id",), ("s", "id"), ("i", "s"), ("c", "id"), (), ())
_STRICT = 0.2  # of the tables


def invented(seed: int, queries: int = 10, commits: int = 50, covering: Collection[str] = ()) -> Case:
    """`covering` are kinds of operators that the queries shall use, if they can."""
    random = Random(f"fuzz {seed}")
    chance = Chance(random, random.choice((4, 8, 12, ROWS_MAX)), random.random() < 0.25)
    strict = Random(f"strict {seed}")
    names = "pqro"[: chance.pick((1, 2, 2, 3, 3, 4))]
    tables = tuple(random_table(chance, name, strict.random() < _STRICT) for name in names)
    rows = random_rows(chance, tables)
    first = {name: tuple(each.values()) for name, each in rows.of_table.items()}
    asking = Asking(chance, tables)
    asked = asking.covering(queries, covering) if covering else asking.queries(queries)
    with Oracle(tables) as oracle:
        events = tuple(History(chance, rows, asked, oracle).events(commits))
    partitions, cut = chance.pick((1, 1, 2, 3)), chance.pick((1, 7, 7, 50, 50))
    return possible(Case(tables, first, asked, events, partitions, cut))


def random_table(chance: Chance, name: str, strict: bool) -> Table:
    """Foreign keys are integers called pid, qid, rid; the writer of queries asks for id, i and s.

    `k` is there in STRICT tables alone, see `created`: an ANY column converts nothing, as one without a type does
    elsewhere."""
    declared = [("id", "INTEGER"), ("i", "INTEGER"), ("s", "TEXT")]
    declared += [(f"{other}id", "INTEGER") for other in "pqr" if other != name and chance.likely(0.6)]
    extra = [("x", "REAL"), ("c", "TEXT"), ("b", "BLOB"), ("m", "")]
    declared += [pair for pair in extra if chance.likely(0.4)]
    declared += [("k", "")] if strict else []
    names = [column for column, _ in declared]
    key = chance.pick([key for key in _KEYS if set(key) <= set(names)])
    columns = (
        Column(column, TYPES[type], type, "NOCASE" if column == "c" else "BINARY", column not in (*key, "id"))
        for column, type in declared
    )
    return Table(name, tuple(columns), key)


def random_rows(chance: Chance, tables: tuple[Table, ...]) -> Rows:
    rows = Rows.of(Case(tables, {}, (), ()))
    for table in tables:
        for _ in range(chance.random.randint(0, chance.largest)):
            rows.insert(table.name, chance.row(table))
        for value in (1, "a") if "m" in table.names else ():
            rows.insert(table.name, _with(chance.row(table), table.index("m"), value))
    return rows


def _with(row: Row, place: int, value: Value) -> Row:
    """A column without a type is seen to hold several from the start: one that turns out to ends relations."""
    return (*row[:place], value, *row[place + 1 :])
