"""Random schemas, rows and SELECTs over the whole surface, from a seed: for property tests and the engine's fuzzer.

Every query is right for SQLite; most are of the kind we keep current. Values are few, so that joins meet and groups
fill, and sums of reals are exact in any order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value

Visible = tuple[str, Type | None, bool]  # an expression, its type, and whether it may be a key: one value, one look
_DOMAINS: dict[str, tuple[Value, ...]] = {
    "INTEGER": (None, 0, 1, 2, 3, -1),
    "REAL": (None, 0.5, 1.0, 2.25, -1.0),
    "TEXT": (None, "a", "b", "A", "", "1"),
    "BLOB": (None, b"a", b"", b"\x00"),
    "": (None, 1, 1.0, "1", "a", b"a"),
}
_TYPES = {"INTEGER": Type.INTEGER, "REAL": Type.REAL, "TEXT": Type.TEXT, "BLOB": Type.BLOB, "": Type.ANY}
_LITERALS: dict[Type | None, tuple[str, ...]] = {
    Type.INTEGER: ("0", "1", "2", "3", "-1", "'1'", "1.0"),
    Type.REAL: ("0.5", "1.0", "2.25", "1", "-1"),
    Type.TEXT: ("'a'", "'b'", "'A'", "''", "1", "'1'"),
    Type.BLOB: ("x'61'", "x''", "'a'"),
    Type.ANY: ("1", "'1'", "'a'", "x'61'"),
    None: ("1", "NULL"),
}


@dataclass(frozen=True, slots=True)
class World:
    """Some tables with rows, and a query over them. `features` name what the query holds."""

    tables: tuple[Table, ...]
    rows: dict[str, list[Row]]
    script: str
    sql: str
    features: frozenset[str]

    def filled(self) -> sqlite3.Connection:
        memory = sqlite3.connect(":memory:")
        memory.executescript(self.script)
        for table in self.tables:
            holes = ", ".join("?" * len(table.columns))
            memory.executemany(f"INSERT INTO {table.name} VALUES ({holes})", self.rows[table.name])
        return memory


def world(seed: int) -> World:
    random = Random(seed)
    tables = tuple(_table(random, name) for name in ("p", "q", "r")[: random.choice((2, 3, 3))])
    rows = {table.name: _rows(random, table) for table in tables}
    writer = Writing(random, tables)
    sql = writer.query()
    return World(tables, rows, "".join(_create(table) for table in tables), sql, frozenset(writer.features))


# Tables


def _table(random: Random, name: str) -> Table:
    """Foreign keys are integers called pid, qid, rid; keys are single, composite or none."""
    declared = [("id", "INTEGER"), ("i", "INTEGER"), ("s", "TEXT")]
    declared += [(f"{other}id", "INTEGER") for other in "pqr" if other != name]
    extra = [("x", "REAL"), ("c", "TEXT"), ("b", "BLOB"), ("m", "")]
    declared += [pair for pair in extra if random.random() < (0.6 if pair[0] == "x" else 0.3)]
    columns = tuple(
        Column(column, _TYPES[type], type, "NOCASE" if column == "c" else "BINARY", nullable=column != "id")
        for column, type in declared
    )
    key = random.choice((("id",), ("id",), ("id",), ("s", "id"), ()))
    columns = tuple(Column(c.name, c.type, c.declared, c.collation, c.nullable and c.name not in key) for c in columns)
    return Table(name, columns, key)


def _create(table: Table) -> str:
    columns = []
    for column in table.columns:
        null = "" if column.nullable or table.key == ("id",) else " NOT NULL"
        key = " PRIMARY KEY" if table.key == (column.name,) else ""
        columns.append(f"{column.name} {column.declared}{key}{null} COLLATE {column.collation}")
    if len(table.key) > 1:
        columns.append(f"PRIMARY KEY ({', '.join(table.key)})")
    return f"CREATE TABLE {table.name} ({', '.join(columns)});\n"


def _rows(random: Random, table: Table) -> list[Row]:
    seen: dict[Row, Row] = {}
    for number in range(random.choice((0, 3, 5, 7, 8))):
        row = tuple(_value(random, table, column, number) for column in table.columns)
        key = tuple(row[table.index(name)] for name in table.key) if table.key else (number,)
        seen[key] = row
    return list(seen.values())


def _value(random: Random, table: Table, column: Column, number: int) -> Value:
    if column.name == "id" and table.key:
        return number + 1
    domain = _DOMAINS[column.declared]
    return random.choice(domain if column.nullable else domain[1:])


# Queries


@dataclass(slots=True)
class Writing:
    """Writes one query; `features` is what it used so far."""

    random: Random
    tables: tuple[Table, ...]
    features: set[str] = field(default_factory=set)
    aliases: int = 0
    common: list[tuple[str, str, list[tuple[str, Type | None, bool]]]] = field(default_factory=list)

    def query(self) -> str:
        if self._chance(0.12):
            self._define()
        kind = self._pick(("select",) * 5 + ("group",) * 4 + ("distinct", "compound", "compound"))
        text, width = _KINDS[kind](self)
        head = ", ".join(f"{name} AS ({body})" for name, body, _ in self.common)
        return (f"WITH {head} " if head else "") + text + self._ordered(kind, width)

    def _chance(self, likely: float) -> bool:
        return self.random.random() < likely

    def _pick(self, choices: tuple[str, ...] | list[str]) -> str:
        return self.random.choice(choices)

    def _used(self, feature: str) -> None:
        self.features.add(feature)

    def _ordered(self, kind: str, width: int) -> str:
        text = ""
        if self._chance(0.4):
            self._used("order")
            directions = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
            places = [str(self.random.randint(1, width)) for _ in range(self.random.choice((1, 1, 2)))]
            text = " ORDER BY " + ", ".join(place + self._pick(directions) for place in places)
        if self._chance(0.25):
            self._used("limit")
            text += self._pick((" LIMIT 2", " LIMIT 3 OFFSET 1", " LIMIT -1 OFFSET 1"))
        return text

    def _define(self) -> None:
        self._used("cte")
        table = self.random.choice(self.tables)
        self.common.append(("w", f"SELECT id, i, s FROM {table.name} WHERE id > 0", _shown("id i s")))

    # The kinds

    def _select_query(self) -> tuple[str, int]:
        source, columns = self._from()
        outputs = [self._value(columns, 0) for _ in range(self.random.randint(1, 3))]
        named = ", ".join(f"{expr} AS c{place}" for place, (expr, _, _) in enumerate(outputs))
        if self._chance(0.08):
            self._used("star")
            return f"SELECT z.* FROM ({f'SELECT {named} FROM {source}{self._where(columns, 0)}'}) AS z", len(outputs)
        return f"SELECT {named} FROM {source}{self._where(columns, 0)}", len(outputs)

    def _distinct_query(self) -> tuple[str, int]:
        self._used("distinct")
        source, columns = self._from()
        keys = self._keys(columns, 2)
        named = ", ".join(f"{expr} AS c{place}" for place, (expr, _, _) in enumerate(keys))
        return f"SELECT DISTINCT {named} FROM {source}{self._where(columns, 0)}", len(keys)

    def _group_query(self) -> tuple[str, int]:
        source, columns = self._from()
        keys = self._keys(columns, self.random.choice((0, 1, 1, 1, 2)))
        self._used("group" if keys else "scalar aggregate")
        aggregates = [self._aggregate(columns) for _ in range(self.random.randint(1, 3))]
        if " " not in source and "." not in source and self._chance(0.3):
            self._used("group_concat")
            aggregates.append(f"group_concat({columns[0][0]}, '-')")
        where = self._where(columns, 0)
        outputs = [*(expr for expr, _, _ in keys), *aggregates]
        if keys and keys[0][0].endswith(".id") and self._chance(0.5):
            self._used("dependent column")
            owner = keys[0][0].removesuffix("id")
            outputs.append(self._pick([expr for expr, _, _ in columns if expr.startswith(owner)]))
        named = ", ".join(f"{expr} AS c{place}" for place, expr in enumerate(outputs))
        by = f" GROUP BY {self._grouping(keys)}" if keys else ""
        having = ""
        if self._chance(0.3) and keys:
            self._used("having")
            having = f" HAVING {self._pick((f'{aggregates[0]} IS NOT NULL', 'count(*) > 1', f'{keys[0][0]} = 1'))}"
        return f"SELECT {named} FROM {source}{where}{by}{having}", len(outputs)

    def _grouping(self, keys: list[Visible]) -> str:
        style = self._pick(("expression", "number", "alias"))
        if style == "number":
            return ", ".join(str(place) for place in range(1, len(keys) + 1))
        return ", ".join(f"c{place}" if style == "alias" else key[0] for place, key in enumerate(keys))

    def _compound_query(self) -> tuple[str, int]:
        word = self._pick(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
        self._used(word.lower())
        left, right = (self.random.choice(self.tables).name for _ in range(2))
        names = ["i", "s"] if self._chance(0.5) else ["id"]
        outputs = ", ".join(names)
        sides = [f"SELECT {outputs} FROM {side}{self._side_where(side)}" for side in (left, right)]
        text = f" {word} ".join(sides)
        if self._chance(0.25):
            other = self._pick(("UNION", "EXCEPT", "UNION ALL"))
            row = "1" if names == ["id"] else "1, 'a'"
            text = f"VALUES ({row}) {other} {text}" if self._chance(0.5) else f"{text} {other} SELECT {row}"
            self._used("values")
        elif self._chance(0.35):
            self._used("derived")
            text = f"SELECT u.{names[0]} AS i, count(*) AS n FROM ({text}) AS u GROUP BY u.{names[0]}"
            return text, 2
        return text, len(names)

    def _side_where(self, table: str) -> str:
        return f" WHERE {self._pick(('i > 0', 'id = 1', 's IS NOT NULL'))}" if self._chance(0.5) else ""

    # FROM

    def _alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"

    def _source(self) -> tuple[str, list[Visible]]:
        if self.common and self._chance(0.5):
            alias = self._alias()
            return f"{self.common[0][0]} AS {alias}", [(f"{alias}.{n}", t, k) for n, t, k in self.common[0][2]]
        if self._chance(0.15):
            return self._derived()
        table, alias = self.random.choice(self.tables), self._alias()
        return f"{table.name} AS {alias}", [(f"{alias}.{c.name}", c.type, _plain(c)) for c in table.columns]

    def _derived(self) -> tuple[str, list[Visible]]:
        self._used("derived")
        table, alias = self.random.choice(self.tables).name, self._alias()
        shapes = (
            (f"SELECT id, i AS i, s || 'x' AS s FROM {table}", "id i s"),
            (f"SELECT i, s, count(*) AS id FROM {table} GROUP BY i, s", "id i s"),
            (f"SELECT DISTINCT i, s FROM {table}", "i s"),
            (f"SELECT 1 AS id, max(i) AS i, lower(s) AS s FROM {table} GROUP BY lower(s)", "id i s"),
            (f"SELECT id, i, s FROM {table} UNION ALL SELECT i, id, s FROM {table}", "id i s"),
            (f"SELECT n.id, n.i, m.s FROM {table} n LEFT JOIN {table} m ON m.id = n.i WHERE n.id > 0", "id i s"),
            (f"SELECT id, i, s FROM {table} ORDER BY i DESC, s LIMIT 3", "id i s"),
            ("SELECT column1 AS i, column2 AS s FROM (VALUES (1, 'a'), (2, 'b'))", "i s"),
        )
        body, names = self.random.choice(shapes)
        if "LIMIT" in body:
            self._used("top")
        return f"({body}) AS {alias}", [(f"{alias}.{n}", t, k) for n, t, k in _shown(names)]

    def _from(self) -> tuple[str, list[Visible]]:
        text, columns = self._source()
        if self.aliases == 1 and self._chance(0.2):
            return self._single()
        for _ in range(self.random.choice((0, 1, 1, 1, 2))):
            right, theirs = self._source()
            if self._chance(0.12):
                self._used("joins in parentheses")
                inner, more = self._source()
                how = self._pick(("JOIN", "LEFT JOIN", "FULL JOIN"))
                right = f"({right} {how} {inner} ON {self._condition(theirs, more)})"
                theirs = [*theirs, *more]
            kind = self._pick(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","))
            self._used("comma" if kind == "," else kind.lower())
            condition = "" if kind in (",", "CROSS JOIN") else f" ON {self._condition(columns, theirs)}"
            text = f"{text}{kind if kind == ',' else ' ' + kind} {right}{condition}"
            columns = [*columns, *theirs]
        return text, columns

    def _single(self) -> tuple[str, list[Visible]]:
        """A table by its own name; sometimes NATURAL or USING with another."""
        first, second = self.random.sample(self.tables, 2)
        if self._chance(0.5):
            return first.name, [(f"{first.name}.{c.name}", c.type, _plain(c)) for c in first.columns]
        kind = self._pick(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        if self._chance(0.3):
            self._used("natural")
            every: list[Visible] = [
                (f"{t.name}.{c.name}", c.type, _plain(c)) for t in (first, second) for c in t.columns
            ]
            return f"{first.name} NATURAL {kind} {second.name}", every
        self._used("using")
        shared: list[Visible] = [("id", Type.INTEGER, True), ("i", Type.INTEGER, True)]
        mine: list[Visible] = [(f"{first.name}.s", Type.TEXT, True), (f"{second.name}.s", Type.TEXT, True)]
        return f"{first.name} {kind} {second.name} USING (id, i)", [*shared, *mine]

    def _condition(self, left: list[Visible], right: list[Visible]) -> str:
        if self._chance(0.15):
            self._used("theta join")
            return f"{self._of(left, Type.INTEGER)} < {self._of(right, Type.INTEGER)}"
        text = f"{self._of(left, Type.INTEGER)} = {self._of(right, Type.INTEGER)}"
        return f"{text} AND {self._comparison([*left, *right])}" if self._chance(0.3) else text

    def _of(self, columns: list[Visible], type: Type) -> str:
        return self._pick([expr for expr, own, _ in columns if own is type] or ["1"])

    # Expressions

    def _value(self, columns: list[Visible], depth: int) -> Visible:
        expr, type, plain = self.random.choice(columns)
        match self.random.randrange(12):
            case 0 if type is Type.INTEGER:
                return f"{expr} + 1", type, True
            case 1:
                return f"coalesce({expr}, {self._pick(_LITERALS[type])})", Type.ANY, False
            case 2:
                return f"CASE WHEN {self._comparison(columns)} THEN 1 ELSE 0 END", Type.INTEGER, True
            case 3 if depth < 2:
                return self._scalar(columns), None, False
            case 4 if depth < 1:
                return f"({self._predicate(columns, depth + 1)})", Type.INTEGER, False
            case _:
                return expr, type, plain

    def _keys(self, columns: list[Visible], count: int) -> list[Visible]:
        usable = [column for column in columns if column[2]]
        keys = self.random.sample(usable, min(count, len(usable)))
        if keys and keys[0][1] is Type.INTEGER and self._chance(0.2):
            keys[0] = f"{keys[0][0]} % 2", Type.INTEGER, True
        return keys

    def _aggregate(self, columns: list[Visible]) -> str:
        expr, type, plain = self.random.choice(columns)
        functions = ["count"]
        if type in (Type.INTEGER, Type.REAL):
            functions += ["sum", "total", "avg", "sum", "avg"]
        if plain:
            functions += ["min", "max"]
        name = self._pick(functions)
        self._used(name)
        text = f"{name}({expr})" if name != "count" or self._chance(0.6) else "count(*)"
        if name in ("count", "sum", "avg", "total") and "*" not in text and self._chance(0.25):
            self._used("distinct aggregate")
            text = text.replace("(", "(DISTINCT ", 1)
        if self._chance(0.2):
            self._used("filter")
            text += f" FILTER (WHERE {self._comparison(columns)})"
        return f"{text} + 1" if type is Type.INTEGER and self._chance(0.15) else text

    def _where(self, columns: list[Visible], depth: int) -> str:
        if self._chance(0.4):
            return ""
        conjuncts = [self._predicate(columns, depth) for _ in range(self.random.choice((1, 1, 2)))]
        return " WHERE " + " AND ".join(conjuncts)

    def _predicate(self, columns: list[Visible], depth: int) -> str:
        match self.random.randrange(12):
            case 0 | 1 if depth < 2:
                return self._exists(columns, depth)
            case 2 | 3 if depth < 2:
                return self._member(columns, depth)
            case 4:
                return f"({self._predicate(columns, depth + 1)} OR {self._predicate(columns, depth + 1)})"
            case 5:
                return f"NOT ({self._predicate(columns, depth + 1)})"
            case 6 if depth < 2:
                return f"{self._scalar(columns)} {self._pick(('=', '>', '<='))} {self._of(columns, Type.INTEGER)}"
            case _:
                return self._comparison(columns)

    def _comparison(self, columns: list[Visible]) -> str:
        expr, type, _ = self.random.choice(columns)
        sign = self._pick(("=", "=", "=", "<>", "<", ">=", "IS", "IS NOT"))
        match self.random.randrange(6):
            case 0:
                return f"{expr} IS {self._pick(('', 'NOT '))}NULL"
            case 1:
                return f"{expr} IN ({', '.join(self.random.sample(_LITERALS[type], 2))})"
            case 2:
                other = self.random.choice(columns)
                return f"{expr} {sign} {other[0]}"
            case _:
                return f"{expr} {sign} {self._pick(_LITERALS[type])}"

    # Subqueries

    def _inner(self) -> tuple[Table, str, list[Visible]]:
        table, alias = self.random.choice(self.tables), self._alias()
        return table, alias, [(f"{alias}.{c.name}", c.type, _plain(c)) for c in table.columns]

    def _exists(self, columns: list[Visible], depth: int) -> str:
        self._used("exists")
        table, alias, mine = self._inner()
        negated = self._pick(("", "NOT "))
        conditions = [self._comparison(mine)] if self._chance(0.4) else []
        if self._chance(0.85):
            self._used("correlated")
            sign = self._pick(("=", "=", "=", "<"))
            conditions.append(f"{self._of(mine, Type.INTEGER)} {sign} {self._of(columns, Type.INTEGER)}")
        if self._chance(0.15):
            conditions.append(self._predicate(mine, depth + 1))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{negated}EXISTS (SELECT 1 FROM {table.name} AS {alias}{where})"

    def _member(self, columns: list[Visible], depth: int) -> str:
        self._used("in")
        table, alias, mine = self._inner()
        needle, type, _ = self.random.choice(columns)
        chosen = self._pick([expr for expr, own, _ in mine if own is type] or [mine[0][0]])
        where = f" WHERE {self._comparison(mine)}" if self._chance(0.5) else ""
        if self._chance(0.3):
            self._used("correlated")
            equal = f"{self._of(mine, Type.INTEGER)} = {self._of(columns, Type.INTEGER)}"
            where = f"{where} AND {equal}" if where else f" WHERE {equal}"
        negated = self._pick(("", "NOT "))
        return f"{needle} {negated}IN (SELECT {chosen} FROM {table.name} AS {alias}{where})"

    def _scalar(self, columns: list[Visible]) -> str:
        self._used("scalar")
        table, alias, mine = self._inner()
        conditions = [self._comparison(mine)] if self._chance(0.3) else []
        if self._chance(0.7):
            self._used("correlated")
            conditions.append(f"{self._of(mine, Type.INTEGER)} = {self._of(columns, Type.INTEGER)}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if self._chance(0.6):
            chosen = self._pick(("count(*)", f"sum({alias}.i)", f"max({alias}.i)", f"count({alias}.s) + 1"))
            return f"(SELECT {chosen} FROM {table.name} AS {alias}{where})"
        self._used("first row")
        order = f" ORDER BY {alias}.i DESC" if self._chance(0.5) else ""
        return f"(SELECT {alias}.i FROM {table.name} AS {alias}{where}{order}{self._pick(('', ' LIMIT 1'))})"


_KINDS: dict[str, Callable[[Writing], tuple[str, int]]] = {
    "select": Writing._select_query,
    "group": Writing._group_query,
    "distinct": Writing._distinct_query,
    "compound": Writing._compound_query,
}


def _shown(names: str) -> list[Visible]:
    types = {"id": Type.INTEGER, "i": Type.INTEGER, "s": Type.TEXT}
    return [(name, types[name], True) for name in names.split()]


def _plain(column: Column) -> bool:
    return column.type is not Type.ANY and column.collation == "BINARY"
