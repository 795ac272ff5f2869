"""Random queries that ask for values beneath joins, with many instances each: what demand is pushed through.

A skeleton is a query with conditions left open; its instances have other values in the same places. Values compare
across types, are NULL, differ in case only, and stand in lists twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.dialects.sqlite.literals import write
from headwater.model.schema import Column, Table
from tests.fuzz.case import Query
from tests.fuzz.chance import DOMAINS, ODD, Chance

_OTHERS = {
    "INTEGER": ("'1'", "1.0", "2.5", "'a'"),
    "REAL": ("1", "'1'", "-1"),
    "TEXT": ("1", "x'61'"),
    "BLOB": ("'a'",),
    "": ("'A'", "2"),
}
_LISTS = ("({0})", "({0}, {1})", "({0}, {1}, {2})", "({0}, {0}, {1})", "({0}, NULL)", "(NULL)", "({1}, {0})")
_FAILS = "abs(CASE WHEN {0}.i = 3 THEN -9223372036854775807 - 1 ELSE {0}.i END)"
_FORMS: tuple[str, ...] = (
    "SELECT a.id AS a1, a.i AS a2, b.i AS b1, b.s AS b2 FROM {A} JOIN {B} ON {ab} WHERE {?ab}",
    "SELECT a.id AS a1, b.id AS b1, c.s AS c1 FROM {A}, {B}, {C} WHERE {ab} AND {bc} AND {?abc}",
    "SELECT a.s AS k, count(*) AS n, max(c.i) AS m FROM {C}, {A}, {B} WHERE {ab} AND {bc} AND {?abc} GROUP BY a.s",
    "SELECT a.i AS a1, b.s AS b1, c.id AS c1 FROM {C}, {A}, {B} WHERE {bc} AND {ab} AND {?abc} ORDER BY a.i LIMIT 3",
    "SELECT a.id AS a1, c.id AS c1 FROM {A}, {C}, {B} WHERE {ab} AND {bc} AND a.i IN (SELECT i FROM p) AND {?abc}",
    "SELECT a.id AS a1, b.id AS b1, c.i AS c1 FROM {A} JOIN {B} ON {ab} LEFT JOIN {C} ON {bc} WHERE {?abc}",
    "SELECT a.id AS a1, b.i AS b1 FROM {A} LEFT JOIN {B} ON {ab} AND b.i > 0 WHERE {?a}",
    "SELECT a.id AS a1, b.i AS b1 FROM {A} LEFT JOIN {B} ON {ab} AND a.i = a.id WHERE {?ab}",
    "SELECT a.s AS a1, b.id AS b1 FROM {A} RIGHT JOIN {B} ON {ab} WHERE {?ab}",
    "SELECT a.s AS a1, b.s AS b1 FROM {A} FULL JOIN {B} ON {ab} WHERE {?ab}",
    "SELECT a.id AS a1, a.s AS a2 FROM {A} WHERE EXISTS (SELECT 1 FROM {B} WHERE {ab}) AND {?a}",
    "SELECT a.id AS a1, a.s AS a2 FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} WHERE {ab} AND b.i > 0) AND {?a}",
    "SELECT a.id AS a1 FROM {A} WHERE a.i NOT IN (SELECT b.i FROM {B}) AND {?a}",
    "SELECT a.id AS a1 FROM {A} WHERE a.i NOT IN (SELECT b.i FROM {B} WHERE b.s = a.s) AND {?a}",
    "SELECT a.id AS a1, a.i IN (SELECT b.i FROM {B} WHERE b.s = a.s) AS m FROM {A} WHERE {?a}",
    "SELECT a.s AS k, count(*) AS n, sum(b.i) AS m FROM {A} JOIN {B} ON {ab} WHERE {?ab} GROUP BY a.s",
    "SELECT a.i AS k, max(b.s) AS m FROM {A} LEFT JOIN {B} ON {ab} WHERE {?a} GROUP BY a.i",
    "SELECT count(*) AS n, min(b.i) AS m FROM {A} JOIN {B} ON {ab} WHERE {?ab}",
    "SELECT g.k, g.n FROM (SELECT a.{k} AS k, count(b.id) AS n FROM {A} LEFT JOIN {B} ON {ab} GROUP BY a.{k}) g"
    " WHERE {?g}",
    "SELECT DISTINCT a.s AS a1, b.i AS b1 FROM {A} JOIN {B} ON {ab} WHERE {?ab}",
    "SELECT g.k, g.v FROM (SELECT DISTINCT a.{k} AS k, b.s AS v FROM {A} JOIN {B} ON {ab}) g WHERE {?g}",
    "SELECT g.k, g.v FROM (SELECT a.{k} AS k, b.s AS v FROM {A} JOIN {B} ON {ab} UNION ALL SELECT {l}, s FROM {C}) g"
    " WHERE {?g}",
    "SELECT g.k, g.v FROM (SELECT a.{k} AS k, b.s AS v FROM {A} JOIN {B} ON {ab} UNION SELECT {l}, s FROM {C}) g"
    " WHERE {?g}",
    "SELECT g.k FROM (SELECT {l} AS k FROM {C} EXCEPT SELECT a.{k} FROM {A} JOIN {B} ON {ab}) g WHERE {?g}",
    "SELECT g.k FROM (SELECT {l} AS k FROM {C} INTERSECT SELECT a.{k} FROM {A} JOIN {B} ON {ab}) g WHERE {?g}",
    "SELECT g.k, g.o, c.s AS s"
    " FROM (SELECT a.{k} AS k, b.id AS o FROM {A} JOIN {B} ON {ab} ORDER BY a.id, b.id LIMIT 3) g"
    " JOIN {C} ON c.{l} = g.k WHERE {?g}",
    "SELECT a.id AS a1, (SELECT count(*) FROM {B} WHERE {ab}) AS n FROM {A} WHERE {?a}",
    "SELECT a.id AS a1, (SELECT b.s FROM {B} WHERE {ab} ORDER BY b.i, b.id, b.s LIMIT 1) AS n FROM {A} WHERE {?a}",
    "SELECT a.id AS a1, (SELECT max(b.i) FROM {B} JOIN {C} ON {bc} WHERE {ab}) AS n FROM {A} WHERE {?a}",
    "SELECT a.id AS a1, b.i AS b1 FROM {A} JOIN {B} ON {ab} WHERE {?ab} ORDER BY b.i DESC, a.id LIMIT 2",
    "SELECT a.id AS a1, b.i AS b1 FROM {A} JOIN {B} ON {ab} WHERE {?ab} ORDER BY a.s LIMIT 3 OFFSET 1",
    "SELECT a.id AS a1, {fails b} AS f FROM {A} JOIN {B} ON {ab} WHERE {?ab}",
    "SELECT a.i AS k, sum({fails b}) AS f FROM {A} JOIN {B} ON {ab} WHERE {?a} GROUP BY a.i",
    "SELECT a.id AS a1, {fails a} AS f, (SELECT count(*) FROM {B} WHERE {ab}) AS n FROM {A} WHERE {?a}",
)
_KEYED: tuple[str, ...] = (
    "SELECT a.id AS a1, a.i AS a2, a.s AS a3 FROM {A} WHERE {?a}",
    "SELECT a.s AS a1 FROM {A} WHERE a.i > 0 AND {?a}",
    "SELECT a.id AS a1, a.s AS a2 FROM {A} WHERE {?a} ORDER BY a.i DESC, a.id LIMIT 2",
)
_ASKED = ("i", "s", "id", "c", "x", "m", "b")
_EQUAL = ("{0}.i = {1}.i", "{0}.i = {1}.id", "{0}.id = {1}.id", "{0}.s = {1}.s", "{0}.id = {1}.i")


@dataclass(slots=True)
class AskedFor:
    """Writes skeletons, and instances of them. `keyed`: mostly of one table that is asked for by values of its columns;
    the others need all of its rows."""

    chance: Chance
    tables: tuple[Table, ...]
    keyed: bool = False

    def queries(self, skeletons: int, instances: int) -> Iterator[list[Query]]:
        """The instances of each skeleton: some of them are the same query, and some ask for the same in other words."""
        for _ in range(skeletons):
            skeleton = self._skeleton(self.keyed and self.chance.likely(0.9))
            yield [Query(skeleton.instance(), ("asked",)) for _ in range(instances)]

    def _skeleton(self, keyed: bool) -> Skeleton:
        form = self.chance.pick(_KEYED if keyed else _FORMS)
        here = {alias: self.chance.pick(self.tables) for alias in "abc"}
        one, other = self._keys(here)
        text = form.replace("{k}", one).replace("{l}", other)
        for alias, table in here.items():
            text = text.replace(f"{{{alias.upper()}}}", f"{table.name} {alias}")
            text = text.replace(f"{{fails {alias}}}", _FAILS.format(alias))
        text = text.replace("{ab}", self._equality(here, "a", "b")).replace("{bc}", self._equality(here, "b", "c"))
        hole = text[text.index("{?") : text.index("}", text.index("{?")) + 1]
        asked = self._columns(hole[2:-1], here, one)
        asked = [replace(each, sign="=") for each in asked] if keyed else asked
        return Skeleton(self.chance, text.replace(hole, "{}"), asked)

    def _equality(self, here: dict[str, Table], one: str, other: str) -> str:
        forms = list(_EQUAL)
        shared = set(here[one].names) & set(here[other].names) & {"c", "x", "m"}
        forms += [f"{{0}}.{name} = {{1}}.{name}" for name in sorted(shared)] * 2
        return self.chance.pick(forms).format(one, other)

    def _keys(self, here: dict[str, Table]) -> tuple[str, str]:
        """A column of `a`, and one of `c`: mostly alike, sometimes of another type or collation."""
        both = [name for name in _ASKED if name in here["a"].names and name in here["c"].names]
        one = self.chance.pick(both)
        return one, self.chance.pick([name for name in _ASKED if name in here["c"].names]) if self.chance.likely(
            0.2
        ) else one

    def _columns(self, aliases: str, here: dict[str, Table], key: str) -> list[Asked]:
        """One condition or several, on columns of these tables, perhaps two on one."""
        if aliases == "g":
            return [Asked("g.k", here["a"].column(key), self._sign())]
        found = []
        for _ in range(self.chance.pick((1, 1, 1, 2, 2, 3))):
            alias = self.chance.pick(aliases)
            column = self.chance.pick([c for c in here[alias].columns if c.name in _ASKED])
            found.append(Asked(f"{alias}.{column.name}", column, self._sign()))
        return found

    def _sign(self) -> str:
        return self.chance.pick(("=", "=", "=", "IN", "IN", "<", ">=", "BETWEEN"))


@dataclass(frozen=True, slots=True)
class Asked:
    name: str
    column: Column
    sign: str


@dataclass(frozen=True, slots=True)
class Skeleton:
    chance: Chance
    text: str
    asked: Sequence[Asked]

    def instance(self) -> str:
        return self.text.replace("{}", " AND ".join(map(self._condition, self.asked)))

    def _condition(self, asked: Asked) -> str:
        some = [self._literal(asked.column) for _ in range(3)]
        match asked.sign:
            case "IN":
                return f"{asked.name} IN {self.chance.pick(_LISTS).format(*some)}"
            case "BETWEEN":
                return f"{asked.name} BETWEEN {some[0]} AND {some[1]}"
            case sign:
                return f"{asked.name} {sign} {some[0]}"

    def _literal(self, column: Column) -> str:
        if self.chance.likely(0.04):
            return "NULL"
        if self.chance.likely(0.1):
            return self.chance.pick(_OTHERS[column.declared])
        domain = ODD if self.chance.odd and self.chance.likely(0.2) else DOMAINS
        return write(self.chance.pick(domain[column.declared]))
