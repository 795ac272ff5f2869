"""Random queries that ask for values of a column, and near misses: conditions that look so and are not. Most are right
for both databases; which of them are, the database says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

_RANK = "rank() OVER (ORDER BY {0}.v, {0}.id)"
_SUM = "sum({0}.v) OVER (PARTITION BY {0}.r ORDER BY {0}.id)"
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with one parameter, written as `{}` in `sql`."""

    sql: str
    postgres: bool

    @property
    def text(self) -> str:
        return self.sql.replace("{}", "$1" if self.postgres else "?")


@dataclass(slots=True)
class Invented:
    random: Random
    postgres: bool

    def query(self) -> Asked:
        pick = self.random.choice
        alias, other = pick((("t", "u"), ("x", "y"), ("u", "t")))
        table, beside = ("u", "t") if alias == "u" else ("t", "u")
        results = pick((_RANK, _SUM, "count(*) OVER ()", f"(SELECT max(k.v) FROM {pick('tuw')} k WHERE k.r = {{0}}.r)"))
        source = self._source(table, alias, beside, other)
        where = self._where(alias, other, pick("tuw"))
        shown = f"SELECT {pick(('', '', 'DISTINCT '))}{alias}.id AS a, {results.format(alias)} AS b"
        body = f"{shown} FROM {source} WHERE {where}{self._ending(alias)}"
        return Asked(self._wrapped(body, pick("tuw"), where), self.postgres)

    def _source(self, table: str, alias: str, beside: str, other: str) -> str:
        pick = self.random.choice
        mine = f"{table} {pick(('', 'AS '))}{alias}" if alias != table else table
        far = f"{beside} {other}" if beside != other else beside
        join = f"{mine} {pick(_JOINS)} {far} ON {alias}.r = {other}.r"
        turned = f"{far} {pick(_JOINS)} {mine} ON {alias}.id = {other}.id AND {other}.v > 1"
        inner = f"{mine} {pick(_JOINS)} (SELECT r, count(*) AS n FROM {pick('tuw')} GROUP BY r) z ON z.r = {alias}.r"
        merged = f"{mine} {pick(_JOINS)} {far} USING (id, s)"
        three = f"{mine} {pick(_JOINS)} w ON w.r = {alias}.r {pick(_JOINS)} {far} ON {other}.id = w.id"
        lateral = (
            f"{mine} LEFT JOIN LATERAL (SELECT count(*) AS n FROM {pick('tuw')} k WHERE k.r = {alias}.r) z ON true"
        )
        choices = [mine, mine, mine, join, join, turned, turned, inner, merged, three, f"{mine}, {far}"]
        return pick([*choices, lateral] if self.postgres else choices)

    def _where(self, alias: str, other: str, inside: str) -> str:
        pick = self.random.choice
        column = pick((f"{alias}.s", f"{alias}.s", f"{alias}.s", "s", f'{alias}."s"', f"{other}.s"))
        equal = (f"{column} = {{}}", f"{{}} = {column}", f"({column} = {{}})", f"{column} IN ({{}})")
        near = (
            f"{column} = {{}} OR {alias}.v > 2",
            f"NOT {column} = {{}}",
            f"{alias}.v BETWEEN 1 AND 3 AND {column} = {{}}",
            f"({column} = {{}} OR {alias}.v = 1)",
            f"({column} = {{}}) IS NOT TRUE",
            f"{column} IS NOT DISTINCT FROM {{}}",
            f"CASE WHEN {alias}.v > 1 THEN {column} = {{}} ELSE true END",
            f"coalesce({column} = {{}}, true)",
        )
        conjunct = pick(equal) if self.random.random() < 0.75 else pick(near)
        more = (
            "",
            "",
            f" AND {alias}.v > 1",
            f" AND EXISTS (SELECT 1 FROM {inside} k WHERE k.r = {alias}.r)",
            f" AND NOT {alias}.v = 2",
            f" OR {alias}.v = 9",
            f" AND ({alias}.v = 1 OR {alias}.v > 2)",
        )
        return conjunct + pick(more)

    def _ending(self, alias: str) -> str:
        return self.random.choice(("", "", "", " ORDER BY 1, 2 LIMIT 3", f" GROUP BY {alias}.id, {alias}.v, {alias}.r"))

    def _wrapped(self, body: str, inside: str, where: str) -> str:
        match self.random.randrange(12):
            case 0:
                return f"WITH k AS (SELECT * FROM {inside}) {body}"
            case 1:
                return f"WITH {inside} AS (SELECT * FROM w WHERE v > 1) {body}"
            case 2:
                return f"SELECT a, b FROM ({body}) AS q"
            case 3:
                return f"{body} UNION ALL SELECT id, v FROM {inside}" if "ORDER" not in body else body
            case 6:
                return f"SELECT id AS a, v AS b FROM {inside} UNION ALL {body}"
            case 4 if self.postgres:
                return body.replace("SELECT ", "SELECT DISTINCT ON (1) ", 1).replace(
                    "DISTINCT ON (1) DISTINCT", "DISTINCT"
                )
            case 5:
                gathered = "array_agg(id ORDER BY id)" if self.postgres else "group_concat(id, ',')"
                return f"SELECT s AS a, {gathered} AS b FROM t WHERE s = {{}} GROUP BY s"
        return body


def statement(random: Random, values: Sequence[Any], place: str) -> tuple[str, tuple[Any, ...]]:
    """A change of some rows, with parameters written as `place`."""
    table, id, value = random.choice("ttuuw"), random.randrange(12), random.choice(values)
    number = random.randrange(4)
    match random.randrange(6):
        case 0 | 1:
            sql = f"INSERT INTO {table} VALUES ({{0}}, {{1}}, {{2}}, {{3}}) ON CONFLICT (id) DO NOTHING"
            given: tuple[Any, ...] = (id, value, number, random.randrange(3))
        case 2:
            sql, given = f"DELETE FROM {table} WHERE id = {{0}}", (id,)
        case 3:
            sql, given = f"UPDATE {table} SET s = {{0}} WHERE id = {{1}}", (value, id)
        case 4:
            sql, given = f"UPDATE {table} SET v = {{0}} WHERE id = {{1}}", (number, id)
        case _:
            sql, given = f"UPDATE {table} SET s = {{0}}, id = id + 20 WHERE id = {{1}}", (value, id)
    return sql.format(*(place.replace("n", str(n + 1)) for n in range(len(given)))), given
