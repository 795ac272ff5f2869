"""Random queries over given tables: those that SQLite runs, and that have more than one possible answer."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwater.dialects.sqlite.literals import write
from headwater.model.schema import Column, Table
from tests.fuzz.case import Case, Query, Rows
from tests.fuzz.chance import DOMAINS, ROWS_MAX, Chance
from tests.fuzz.oracle import Oracle
from tests.fuzz.tally import operators, planned_now
from tests.fuzz.wild import Wild
from tests.sql.queries import Writing

_LITERAL = r"('\w?'|-?\d+\b(?!\.))"
_CONSTANT = re.compile(rf"(?:(?<=[=<>] )|(?<=IN \()|(?<=EEN )){_LITERAL}|(?<=LIMIT )\d")
_WORLDS = 8
_OFFERED = 6


@dataclass(slots=True)
class Asking:
    chance: Chance
    tables: tuple[Table, ...]

    def queries(self, count: int) -> tuple[Query, ...]:
        """Some differ from another only in a constant. How often an answer will change plays no part."""
        found: dict[str, Query] = {}
        self.choose(self._endless(found), count, found)
        return tuple(found.values())

    def choose(self, offered: Iterable[Query], count: int, found: dict[str, Query]) -> None:
        """Takes the possible ones into `found`, until there are so many."""
        with contextlib.ExitStack() as opened:
            worlds = [opened.enter_context(self._world()) for _ in range(_WORLDS)]
            for query in offered:
                if query.sql not in found and _possible(worlds, query.sql):
                    found[query.sql] = query
                if len(found) == count:
                    break

    def covering(self, count: int, kinds: Collection[str]) -> tuple[Query, ...]:
        """As many; the first ones use, together, as many of these kinds of operators as chance offers."""
        offered = self.queries(count * _OFFERED)
        wanted, first = set(kinds), []
        for query in offered:
            planned = planned_now(query.sql, {table.name: table for table in self.tables})
            new = wanted & operators(planned) if planned is not None else ()
            if new:
                wanted -= set(new)
                first.append(query)
        return tuple([*first, *(query for query in offered if query not in first)][:count])

    def _world(self) -> Oracle:
        """The tables with some rows, which have nothing to do with those of the case."""
        oracle, rows = Oracle(self.tables), Rows.of(Case(self.tables, {}, (), ()))
        for table in self.tables:
            for _ in range(self.chance.random.randint(0, ROWS_MAX)):
                rows.insert(table.name, self.chance.row(table))
        oracle.fill(rows)
        return oracle

    def _endless(self, found: dict[str, Query]) -> Iterator[Query]:
        while True:
            yield self._query(list(found.values()))

    def _query(self, known: list[Query]) -> Query:
        if known and self.chance.likely(0.2):
            return self._sibling(self.chance.pick(known))
        if self.chance.likely(0.12):
            return self._plain()
        if self.chance.likely(0.4):
            return Query(Wild(self.chance.random, self.tables).query(), ("wild",))
        tables = self.tables if len(self.tables) > 1 else self.tables * 2
        writer = Writing(self.chance.random, tables)
        sql = writer.query()
        return Query(sql, tuple(sorted(writer.features)))

    def _sibling(self, query: Query) -> Query:
        """Another constant in the same place."""
        places = list(_CONSTANT.finditer(query.sql))
        if not places:
            return query
        place = self.chance.pick(places)
        other = self.chance.pick(("'a'", "'b'", "''") if place[0].startswith("'") else ("0", "1", "2", "3"))
        return Query(query.sql[: place.start()] + other + query.sql[place.end() :], (*query.features, "sibling"))

    def _plain(self) -> Query:
        """One table, by its own name, as most live queries are."""
        table = self.chance.pick(self.tables)
        names = self.chance.some(table.names, len(table.names))
        asked = [self._asked(column) for column in table.columns]
        where = f" WHERE {' AND '.join(self.chance.some(asked, 2))}" if self.chance.likely(0.6) else ""
        keys = [name + self.chance.pick(("", " DESC")) for name in self.chance.some(table.names, 2)]
        order = f" ORDER BY {', '.join(keys)}" if self.chance.likely(0.6) else ""
        limit = f" LIMIT {self.chance.random.randint(1, 6)}" if self.chance.likely(0.4) else ""
        return Query(f"SELECT {', '.join(names)} FROM {table.name}{where}{order}{limit}", ("one table",))

    def _asked(self, column: Column) -> str:
        """By a value, a list of them, or bounds: what queries that share a template differ in."""
        one, other = self._literal(column), self._literal(column)
        forms = ("= {0}", "= {0}", "< {0}", "<= {0}", "> {0}", ">= {0}", "IN ({0}, {1})", "BETWEEN {0} AND {1}")
        return f"{column.name} {self.chance.pick(forms).format(one, other)}"

    def _literal(self, column: Column) -> str:
        return write(self.chance.pick(DOMAINS[column.declared]))


def _possible(worlds: Sequence[Oracle], sql: str) -> bool:
    """SQLite runs it, and its answer depends on the rows: `id <> id` and LIMIT 0 do not."""
    try:
        first, *others = (sorted(world.answer(sql)) for world in worlds)
    except sqlite3.Error:
        return False
    return any(other != first for other in others)
