"""Cases with many joins: queries that join three to five tables in a random written order, over few rows.

Conditions are equalities, comparisons, ones over three tables, and ones that fail for some rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from random import Random

from headwater.model.schema import Table
from tests.fuzz.asking import Asking
from tests.fuzz.case import Case, Query, possible
from tests.fuzz.chance import Chance
from tests.fuzz.history import History
from tests.fuzz.invent import random_rows, random_table
from tests.fuzz.oracle import Oracle

_ROWS = 6
_FAILS = "abs(CASE WHEN {a}.i = 3 AND {b}.i < 1 THEN -9223372036854775807 - 1 ELSE 1 END) = 1"


def joined_case(seed: int, queries: int = 8, commits: int = 20, *, fail: bool = False) -> Case:
    """With `fail`, every query has a condition that raises an error for some rows. Which of them the database looks at
    is its own affair: such a case has no oracle."""
    random = Random(f"joins {seed}")
    chance = Chance(random, _ROWS, random.random() < 0.2)
    tables = tuple(random_table(chance, name, random.random() < 0.1) for name in "pqr")
    rows = random_rows(chance, tables)
    first = {name: tuple(each.values()) for name, each in rows.of_table.items()}
    writer = ManyJoins(chance, tables, fail)
    offered = (Query(writer.query(), ("joins",)) for _ in range(20 * queries))
    found: dict[str, Query] = {}
    if fail:
        found = {query.sql: query for query in islice(offered, queries)}
    else:
        Asking(chance, tables).choose(offered, queries, found)
    asked = tuple(found.values())
    with Oracle(tables) as oracle:
        events = tuple(History(chance, rows, asked, oracle).events(commits))
    return possible(Case(tables, first, asked, events, chance.pick((1, 1, 2)), chance.pick((1, 7, 50))))


@dataclass(slots=True)
class ManyJoins:
    chance: Chance
    tables: tuple[Table, ...]
    fail: bool = False

    def query(self) -> str:
        names = "abcde"[: self.chance.pick((3, 3, 4, 4, 5))]
        source = self._source(names)
        match self.chance.pick(("rows", "rows", "rows", "ordered", "groups", "within")):
            case "ordered":
                return f"{self._select(names)} {source} ORDER BY {self.chance.pick(names)}.i LIMIT 3"
            case "groups":
                key, value = self.chance.pick(names), self.chance.pick(names)
                return f"SELECT {key}.s AS k, count(*) AS n, max({value}.i) AS m {source} GROUP BY {key}.s"
            case "within":
                return f"SELECT z.id, w.n FROM p z JOIN (SELECT a.id AS i, b.i AS n {source} LIMIT 4) w ON z.id = w.i"
            case _:
                return f"{self._select(names)} {source}"

    def _select(self, names: str) -> str:
        return "SELECT " + ", ".join(f"{name}.{self.chance.pick(('id', 'i', 's'))} AS {name}1" for name in names)

    def _source(self, names: str) -> str:
        """A chain, a star or neither; FROM names the tables in another order than the conditions."""
        pairs = [(self.chance.pick(names[:n]), name) for n, name in enumerate(names) if n]
        conditions = [self._equality(*pair) for pair in pairs if not self.chance.likely(0.1)]
        if self.fail or self.chance.likely(0.5):
            conditions.append(self._other(names))
        order = list(names)
        self.chance.random.shuffle(order)
        tables = {name: f"{self.chance.pick(self.tables).name} {name}" for name in order}
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if self.chance.likely(0.3):
            last = self.chance.pick(("f.i = {0}.i", "f.id = {0}.id")).format(order[0])
            return (
                f"FROM {', '.join(tables.values())} LEFT JOIN {self.chance.pick(self.tables).name} f ON {last}{where}"
            )
        return f"FROM {', '.join(tables.values())}{where}"

    def _equality(self, one: str, other: str) -> str:
        forms = ("{0}.i = {1}.id", "{0}.i = {1}.i", "{0}.s = {1}.s", "{0}.id = {1}.id", "{0}.i IS {1}.i")
        return self.chance.pick(forms).format(one, other)

    def _other(self, names: str) -> str:
        one, other, third = self.chance.random.sample(names, 3)
        forms = (
            f"{one}.i < {other}.i",
            f"{one}.i + {other}.i > {third}.id",
            f"({one}.i = {other}.i OR {third}.s = 'a')",
            f"{one}.i = 1",
            f"EXISTS (SELECT 1 FROM q g WHERE g.i = {one}.i)",
        )
        if self.fail:
            return _FAILS.format(a=one, b=self.chance.pick((one, other)))
        return self.chance.pick(forms)
