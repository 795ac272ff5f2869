"""Random SELECTs in PostgreSQL's dialect over given tables, typed, over the whole surface. Most are right for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tests.fuzz.postgres.case import Query, Table
from tests.fuzz.postgres.domains import CONSTANTS, TYPES, given
from tests.fuzz.postgres.forms import AGGREGATES, CONDITIONS, HOLE, LOOKING, VALUES, needed

T = TypeVar("T")
Seen = tuple[str, str]  # an expression that can be named here, and its kind
_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
_SETS = ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
_DIRECTIONS = ("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")
_LIMITS = (" LIMIT 1", " LIMIT 3", " LIMIT 4 OFFSET 1", " OFFSET 2", " LIMIT 5 OFFSET 2")
_SIGNS = ("=", "=", "=", "<", "<=", ">", ">=")


@dataclass(slots=True)
class Asking:
    """Writes one query. `outer` in its methods are what the queries around can name."""

    random: Random
    tables: Sequence[Table]
    made: int = 0
    certain: bool = True
    params: list[int | float | str | bool] = field(default_factory=list)
    common: list[Seen] = field(default_factory=list)

    def query(self) -> Query:
        head = f"WITH w AS ({self._common()}) " if self._likely(0.12) else ""
        forms = (self._plain, self._selected, self._selected, self._grouped, self._grouped, self._distinct, self._set)
        body, kinds = self._pick(forms)(0, [])
        return Query(head + body + self._ending(kinds), tuple(self.params), self.certain)

    def _common(self) -> str:
        body, kinds = self._pick((self._selected, self._grouped, self._distinct))(1, [])
        self.common = [(f"c{n}", kind) for n, kind in enumerate(kinds)]
        return body

    def _ending(self, kinds: Sequence[str], order: float = 0.45, limit: float = 0.3) -> str:
        """`certain` stays what it was only where every column is ordered by."""
        places = [n for n, kind in enumerate(kinds, 1) if kind != "tongue"]
        self.random.shuffle(places)
        few = places if self._likely(0.3) else places[:2]
        text = f" ORDER BY {', '.join(f'{n}{self._pick(_DIRECTIONS)}' for n in few)}" if self._likely(order) else ""
        if not few or not self._likely(limit):
            return text if few else ""
        self.certain = self.certain and bool(text) and len(few) == len(kinds)
        return text + self._pick(_LIMITS)

    # SELECT

    def _plain(self, depth: int, outer: list[Seen]) -> tuple[str, list[str]]:
        """One table, by its own name, as most live queries are."""
        table = self._pick(self.tables)
        columns = self.random.sample(table.columns, self.random.randint(1, len(table.columns)))
        seen: list[Seen] = [(column.name, column.kind) for column in table.columns]
        conditions = [self._asked(seen) for _ in range(self.random.choice((0, 1, 1, 2)))]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(c.name for c in columns)} FROM {table.name}{where}", [c.kind for c in columns]

    def _asked(self, seen: list[Seen]) -> str:
        """By a value, often a parameter: what queries that share a template differ in."""
        column, kind = self._pick(seen)
        constant = self._constant(kind)
        if self._likely(0.5):
            self.params.append(given(kind, constant))
            constant = f"${len(self.params)}"
        sign = "=" if kind in ("tongue", "bool") else self._pick(_SIGNS)
        return f"{column} {sign} {constant}"

    def _selected(self, depth: int, outer: list[Seen], kinds: Sequence[str] = ()) -> tuple[str, list[str]]:
        source, seen = self._from(depth, kinds[0] if kinds else "int")
        shown = [(self.value(kind, seen, depth, outer), kind) for kind in kinds or self._kinds(seen)]
        return self._select("", shown, f"{source}{self._where(seen, depth, outer)}")

    def _distinct(self, depth: int, outer: list[Seen]) -> tuple[str, list[str]]:
        source, seen = self._from(depth)
        shown = [(self.value(kind, seen, 2, outer), kind) for kind in self._kinds(seen)]
        return self._select("DISTINCT ", shown, f"{source}{self._where(seen, depth, outer)}")

    def _grouped(self, depth: int, outer: list[Seen], kinds: Sequence[str] = ()) -> tuple[str, list[str]]:
        source, seen = self._from(depth)
        keys = [self._key(seen) for _ in range(self.random.choice((0, 1, 1, 2)) if not kinds else 0)]
        asked = kinds or [self._pick(self._added(seen)) for _ in range(self.random.randint(1, 3))]
        found = [(self._aggregate(kind, seen), kind) for kind in asked]
        by = f" GROUP BY {', '.join(self._grouping(keys))}" if keys else ""
        having = f" HAVING {self._aggregate('int', seen)} > {self._pick('012')}" if self._likely(0.2) else ""
        return self._select("", [*keys, *found], f"{source}{self._where(seen, depth, outer)}{by}{having}")

    def _added(self, seen: list[Seen]) -> list[str]:
        return ["int", *(kind for _, kind in seen if kind in AGGREGATES)]

    def _key(self, seen: list[Seen]) -> Seen:
        kind = self._pick(self._kinds(seen))
        return self.value(kind, seen, 2, [], plain=0.85), kind

    def _grouping(self, keys: list[Seen]) -> list[str]:
        numbered = self._likely(0.5)
        return [str(n) if numbered else key for n, (key, _) in enumerate(keys, 1)]

    def _select(self, distinct: str, shown: Sequence[Seen], rest: str) -> tuple[str, list[str]]:
        named = ", ".join(f"{text} AS c{n}" for n, (text, _) in enumerate(shown))
        return f"SELECT {distinct}{named} FROM {rest}", [kind for _, kind in shown]

    def _set(self, depth: int, outer: list[Seen]) -> tuple[str, list[str]]:
        kinds = self._kinds([(column.name, column.kind) for table in self.tables for column in table.columns])[:2]
        text = self._selected(depth + 1, outer, kinds)[0]
        for _ in range(self.random.choice((1, 1, 2))):
            text = f"{text} {self._pick(_SETS)} {self._selected(depth + 1, outer, kinds)[0]}"
        return text, kinds

    def _where(self, seen: list[Seen], depth: int, outer: list[Seen]) -> str:
        conditions = [self.condition(seen, depth, outer) for _ in range(self.random.choice((0, 0, 1, 1, 2)))]
        if depth == 0 and self._likely(0.25):
            conditions.append(self._asked(seen))
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _kinds(self, seen: list[Seen]) -> list[str]:
        return [self._pick(seen)[1] for _ in range(self._pick((1, 2, 3)))]

    # FROM

    def _from(self, depth: int, wanted: str = "int") -> tuple[str, list[Seen]]:
        text, seen = self._source(depth, wanted)
        for _ in range(self.random.choice((0, 1, 1, 1, 2) if depth == 0 else (0, 0, 0, 1))):
            other, theirs = self._source(depth)
            join = self._pick(_JOINS)
            on = "" if join == "CROSS JOIN" else f" ON {self._joined(seen, theirs, join == 'FULL JOIN')}"
            text, seen = f"{text} {join} {other}{on}", [*seen, *theirs]
        return text, seen

    def _source(self, depth: int, wanted: str = "int") -> tuple[str, list[Seen]]:
        """Where there is a column of the kind `wanted`, if it is a table."""
        self.made += 1
        alias = f"t{self.made}"
        if self.common and self._likely(0.4):
            return f"w AS {alias}", [(f"{alias}.{name}", kind) for name, kind in self.common]
        if depth < 2 and self._likely(0.15):
            body, kinds = self._pick((self._selected, self._grouped, self._distinct, self._set))(depth + 1, [])
            text = f"({body}{self._ending(kinds, 0.3, 0.6)}) AS {alias}"
            return text, [(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)]
        table = self._pick([table for table in self.tables if wanted in table.kinds] or self.tables)
        return f"{table.name} AS {alias}", [(f"{alias}.{column.name}", column.kind) for column in table.columns]

    def _joined(self, left: list[Seen], right: list[Seen], hashed: bool) -> str:
        """Mostly an equality of two columns of one kind."""
        pairs = [(one, other) for one, kind in left for other, also in right if kind == also]
        whole = [pair for pair in pairs if (dict(left)[pair[0]], dict(right)[pair[1]]) == ("int", "int")]
        one, other = self._pick((whole if whole and self._likely(0.7) else pairs) or [("1", "1")])
        equal = f"{one} = {other}"
        if hashed or self._likely(0.65):
            return equal
        return self._pick((f"{equal} AND {self.condition([*left, *right], 2, [])}", f"{one} < {other}"))

    # Expressions

    def value(self, kind: str, seen: list[Seen], depth: int, outer: list[Seen], plain: float = 0.65) -> str:
        columns = [text for text, own in (seen if not outer or self._likely(0.9) else outer) if own == kind]
        if columns and (depth > 2 or self._likely(plain)):
            return self._pick(columns)
        forms = self._fitting(VALUES[kind], seen) if depth <= 2 else []
        if not forms:
            return f"{self._constant(kind)}::{TYPES[kind]}"
        return f"({self._filled(self._pick(forms), seen, depth, outer)})"

    def condition(self, seen: list[Seen], depth: int, outer: list[Seen]) -> str:
        if depth < 2 and self._likely(0.2):
            return self._filled(self._pick(self._fitting(LOOKING, seen)), seen, depth, outer)
        if depth < 2 and self._likely(0.2):
            parts = [self.condition(seen, depth + 1, outer) for _ in range(2)]
            return f"({self._pick((' AND ', ' OR ', ' OR ')).join(parts)})"
        form = self._pick(self._fitting(CONDITIONS, seen))
        return self._filled(form, seen, depth + 1, outer)

    def _fitting(self, forms: Sequence[str], seen: list[Seen]) -> list[str]:
        """Those that need no kind which is not there: few tables have a column of every kind."""
        kinds = {kind for _, kind in seen}
        return [form for form in forms if needed(form) <= kinds]

    def _filled(self, form: str, seen: list[Seen], depth: int, outer: list[Seen]) -> str:
        same: dict[str, str] = {}

        def fill(hole: re.Match[str]) -> str:
            word, _, kind = hole[1].rpartition(" ")
            if word == "same":
                return same.setdefault(kind, self.value(kind, seen, 3, outer))
            if word == "in" or kind == "exists":
                return self._inner(kind if word else "int", seen, depth)
            if kind.startswith("?"):
                return self._scalar(kind[1:], seen, depth)
            if kind.startswith("="):
                return self._constant(kind[1:])
            return self.value(kind, seen, depth + 1, outer)

        text = HOLE.sub(fill, form)
        return f"EXISTS ({text})" if form == "{exists}" else text

    def _aggregate(self, kind: str, seen: list[Seen]) -> str:
        text = self._filled(self._pick(self._fitting(AGGREGATES[kind], seen)), seen, 2, [])
        plain = text.endswith(")") and text.count("(") - text.count("::") > 0 and not text.startswith("coalesce")
        return f"{text} FILTER (WHERE {self.condition(seen, 3, [])})" if plain and self._likely(0.15) else text

    # Subqueries

    def _inner(self, kind: str, around: list[Seen], depth: int) -> str:
        """Mostly compares with something of the query around it."""
        source, seen = self._from(depth + 1, kind)
        conditions = [self._joined(seen, around, True)] if self._likely(0.75) else []
        conditions += [self.condition(seen, depth + 1, around)] if self._likely(0.4) else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {self.value(kind, seen, 3, [])} FROM {source}{where}"

    def _scalar(self, kind: str, around: list[Seen], depth: int) -> str:
        if depth > 2:
            return f"{self._constant(kind)}::{TYPES[kind]}"
        source, seen = self._from(2, kind)
        if kind in self._added(seen) and self._likely(0.6):
            where = f" WHERE {self._joined(seen, around, True)}" if self._likely(0.7) else ""
            return f"(SELECT {self._aggregate(kind, seen)} FROM {source}{where})"
        ending = " ORDER BY 1 LIMIT 1" if kind != "tongue" else " LIMIT 1"
        self.certain = self.certain and kind != "tongue"
        return f"({self._inner(kind, around, depth)}{ending})"

    def _constant(self, kind: str) -> str:
        return self._pick(CONSTANTS[kind])

    def _likely(self, share: float) -> bool:
        return self.random.random() < share

    def _pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)
