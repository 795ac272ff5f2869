"""Random SELECTs by recursion: anything may stand wherever the grammar lets it. Most are right for SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from headwater.model.schema import Table
from headwater.model.value import Type

_LITERALS = ("0", "1", "2", "3", "-1", "1.0", "0.5", "2.25", "'a'", "'b'", "'A'", "''", "'1'", "x'61'", "NULL")
_FITTING = {
    Type.INTEGER: ("0", "1", "2", "3", "-1", "'1'"),
    Type.REAL: ("0.5", "1.0", "2.25", "1"),
    Type.TEXT: ("'a'", "'b'", "'A'", "''", "'1'"),
    Type.BLOB: ("x'61'", "x''"),
}
_FUNCTIONS = ("length({})", "lower({})", "upper({})", "abs({})", "typeof({})", "-{}", "+{}", "NOT {}", "hex({})")
_PAIRS = ("{} + {}", "{} - {}", "{} * {}", "{} || {}", "coalesce({}, {})", "nullif({}, {})", "{} % {}", "{} / {}")
_MORE = ("min({}, {})", "max({}, {})", "ifnull({}, {})", "{} & {}", "substr({}, {})", "instr({}, {})", "round({}, {})")
_SIGNS = ("=", "=", "=", "=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT", "IS DISTINCT FROM")
_PATTERNS = ("'a%'", "'_'", "'*'")
_CASTS = ("INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC")
_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
_SETS = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT")
_AGGREGATES = ("count", "sum", "total", "avg", "min", "max", "count", "sum", "group_concat")
_DIRECTIONS = ("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST", " COLLATE NOCASE")


@dataclass(slots=True)
class Wild:
    random: Random
    tables: Sequence[Table]
    made: int = 0
    common: dict[str, list[str]] = field(default_factory=dict)

    def query(self) -> str:
        head = ""
        if self._chance(0.15):
            body, names = self.select(1, [])
            self.common["w"] = names
            head = f"WITH w AS ({body}) "
        if self._chance(0.12):
            return head + self._compound(0, [])[0] + self._ending(())
        body, names = self.select(0, [])
        return head + body + self._ending(names)

    def _ending(self, names: Sequence[str]) -> str:
        places = [str(n) for n in range(1, len(names) + 1)] or ["1"]
        order = f" ORDER BY {', '.join(self._pick(places) + self._pick(_DIRECTIONS) for _ in range(2))}"
        limit = self._pick((" LIMIT 1", " LIMIT 3", " LIMIT 4 OFFSET 1", " LIMIT 0", " LIMIT 5 OFFSET 2"))
        return (order if self._chance(0.5) else "") + (limit if self._chance(0.3) else "")

    # SELECT

    def select(self, depth: int, outer: list[str], width: int = 0) -> tuple[str, list[str]]:
        """The text, and the names of its columns. `outer` are columns of the queries around."""
        source, columns = self._from(depth, outer)
        where = f" WHERE {self.predicate(columns, depth, outer)}" if self._chance(0.6) else ""
        if self._chance(0.3):
            return self._grouped(source, columns, where, depth, outer, width)
        count = width or self.random.randint(1, 3)
        distinct = "DISTINCT " if self._chance(0.15) else ""
        values = [self.value(columns, depth, outer) for _ in range(count)]
        return self._named(distinct, values, f"{source}{where}")

    def _named(self, distinct: str, values: list[str], rest: str) -> tuple[str, list[str]]:
        names = [f"c{n}" for n in range(len(values))]
        shown = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        return f"SELECT {distinct}{shown} FROM {rest}", names

    def _grouped(
        self, source: str, columns: list[str], where: str, depth: int, outer: list[str], width: int
    ) -> tuple[str, list[str]]:
        count = width or self.random.randint(1, 3)
        keys = [self._key(columns) for _ in range(min(count, self.random.choice((0, 1, 1, 2))))]
        values = keys + [self._aggregate(columns, depth, outer) for _ in range(count - len(keys))]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = ""
        if self._chance(0.25) and keys:
            having = f" HAVING {self._aggregate(columns, depth, outer)} {self._pick(_SIGNS)} {self._pick(_LITERALS)}"
        return self._named("", values, f"{source}{where}{by}{having}")

    def _key(self, columns: list[str]) -> str:
        column = self._pick(columns)
        return self._pick((column, column, column, f"{column} % 2", f"lower({column})", f"typeof({column})"))

    def _aggregate(self, columns: list[str], depth: int, outer: list[str]) -> str:
        function = self._pick(_AGGREGATES)
        if function == "count" and self._chance(0.4):
            text = "count(*)"
        else:
            distinct = "DISTINCT " if function != "group_concat" and self._chance(0.2) else ""
            value = self._pick(columns) if self._chance(0.7) else self.value(columns, 3, [])
            text = f"{function}({distinct}{value})"
        if self._chance(0.15):
            text += f" FILTER (WHERE {self.predicate(columns, 3, [])})"
        return self._pick((text, text, text, f"coalesce({text}, 0)", f"{text} + 1", f"{text} > 1"))

    def _compound(self, depth: int, outer: list[str]) -> tuple[str, list[str]]:
        width = self.random.randint(1, 2)
        parts = [self.select(depth + 1, outer, width)[0] for _ in range(self.random.choice((2, 2, 3)))]
        text = parts[0]
        for part in parts[1:]:
            text = f"{text} {self._pick(_SETS)} {part}"
        return text, [f"c{n}" for n in range(width)]

    # FROM

    def _from(self, depth: int, outer: list[str]) -> tuple[str, list[str]]:
        text, columns = self._source(depth, outer)
        for _ in range(self.random.choice((0, 0, 1, 1, 2) if depth == 0 else (0, 0, 0, 1))):
            other, theirs = self._source(depth, outer)
            join = self._pick(_JOINS)
            on = "" if join == "CROSS JOIN" else f" ON {self._condition(columns, theirs)}"
            text, columns = f"{text} {join} {other}{on}", [*columns, *theirs]
        return text, columns

    def _source(self, depth: int, outer: list[str]) -> tuple[str, list[str]]:
        self.made += 1
        alias = f"t{self.made}"
        if self.common and self._chance(0.4):
            return f"w AS {alias}", [f"{alias}.{name}" for name in self.common["w"]]
        if depth < 2 and self._chance(0.2):
            body, names = self._compound(depth, []) if self._chance(0.3) else self.select(depth + 1, [])
            order = f" ORDER BY {self._pick(names)} LIMIT 3" if self._chance(0.25) else ""
            return f"({body}{order}) AS {alias}", [f"{alias}.{name}" for name in names]
        table = self.random.choice(self.tables)
        return f"{table.name} AS {alias}", [f"{alias}.{name}" for name in table.names]

    def _condition(self, left: list[str], right: list[str]) -> str:
        """Mostly an equality, of columns of any type."""
        equal = f"{self._pick(left)} {self._pick(('=', '=', '=', '=', 'IS', '<'))} {self._pick(right)}"
        if self._chance(0.25):
            return f"{equal} AND {self._pick(left)} = {self._pick(right)}"
        if self._chance(0.25):
            return f"{equal} {self._pick(('AND', 'AND', 'OR'))} {self.predicate([*left, *right], 3, [])}"
        return equal

    # Expressions

    def value(self, columns: list[str], depth: int, outer: list[str]) -> str:
        column = self._pick(outer if outer and self._chance(0.1) else columns)
        match self.random.randrange(20):
            case 0:
                return self._pick(_FUNCTIONS).format(column)
            case 1 | 2:
                return f"({self._pick(_PAIRS).format(column, self._operand(columns, column))})"
            case 3:
                return f"({self._pick(_MORE).format(column, self._operand(columns))})"
            case 4:
                return f"CAST({column} AS {self._pick(_CASTS)})"
            case 5:
                return f"CASE WHEN {self.predicate(columns, 3, [])} THEN {column} ELSE {self._operand(columns)} END"
            case 6 | 7 if depth < 2:
                return self._scalar(columns, depth)
            case 8 if depth < 2:
                return f"({self.predicate(columns, depth + 1, outer)})"
            case _:
                return column

    def _operand(self, columns: list[str], beside: str = "") -> str:
        """A column, or a constant: mostly one of the type of what stands beside it."""
        if self._chance(0.4):
            return self._pick(columns)
        return self._pick(self._fitting(beside) if self._chance(0.7) else _LITERALS)

    def _items(self, column: str) -> str:
        every = self._fitting(column) if self._chance(0.7) else _LITERALS
        return ", ".join(self.random.sample(every, min(3, len(every))))

    def _fitting(self, column: str) -> Sequence[str]:
        name = column.rpartition(".")[2]
        types = [column.type for table in self.tables for column in table.columns if column.name == name]
        return _FITTING.get(types[0], _LITERALS) if types else _LITERALS

    def predicate(self, columns: list[str], depth: int, outer: list[str]) -> str:
        one = self._pick(columns)
        match self.random.randrange(18):
            case 0 | 1 if depth < 3:
                return f"({self.predicate(columns, depth + 1, outer)} AND {self.predicate(columns, depth + 1, outer)})"
            case 2 if depth < 3:
                return f"({self.predicate(columns, depth + 1, outer)} OR {self.predicate(columns, depth + 1, outer)})"
            case 3 if depth < 3:
                return f"NOT {self.predicate(columns, depth + 1, outer)}"
            case 4:
                return f"{one} BETWEEN {self._operand(columns, one)} AND {self._operand(columns, one)}"
            case 5:
                return f"{one} {self._pick(('', 'NOT '))}IN ({self._items(one)})"
            case 6:
                return f"{one} {self._pick(('LIKE', 'NOT LIKE', 'GLOB'))} {self._pick((*_PATTERNS, one))}"
            case 7 | 8 if depth < 2:
                return self._exists(columns, depth)
            case 9 | 10 if depth < 2:
                return f"{one} {self._pick(('', 'NOT '))}IN ({self._inner(columns, depth, 1)})"
            case 11 if depth < 2:
                return f"{self._scalar(columns, depth)} {self._pick(_SIGNS)} {self._operand(columns)}"
            case 12 if outer:
                return f"{one} = {self._pick(outer)}"
            case _:
                return f"{one} {self._pick(_SIGNS)} {self._operand(columns, one)}"

    # Subqueries

    def _inner(self, columns: list[str], depth: int, width: int) -> str:
        """A subquery that mostly compares with a column of the query around it."""
        if self._chance(0.1):
            return self._compound(depth + 1, columns)[0] if width == 0 else self.select(depth + 1, columns, width)[0]
        source, mine = self._from(depth + 1, columns)
        conditions = [f"{self._pick(mine)} {self._pick(('=', '=', '=', '<'))} {self._pick(columns)}"]
        conditions += [self.predicate(mine, depth + 1, columns)] if self._chance(0.4) else []
        where = f" WHERE {' AND '.join(conditions)}" if self._chance(0.75) else ""
        return f"SELECT {', '.join(self._pick(mine) for _ in range(width))} FROM {source}{where}"

    def _exists(self, columns: list[str], depth: int) -> str:
        limit = " LIMIT 1" if self._chance(0.1) else ""
        return f"{self._pick(('', 'NOT '))}EXISTS ({self._inner(columns, depth, 1)}{limit})"

    def _scalar(self, columns: list[str], depth: int) -> str:
        if self._chance(0.4):
            ending = self._pick((" ORDER BY 1 LIMIT 1", " LIMIT 1", "", " ORDER BY 1 DESC LIMIT 1 OFFSET 1"))
            return f"({self._inner(columns, depth, 1)}{ending})"
        source, mine = self._from(2, [])
        where = f" WHERE {self._pick(mine)} = {self._pick(columns)}" if self._chance(0.7) else ""
        return f"(SELECT {self._aggregate(mine, 3, [])} FROM {source}{where})"

    def _chance(self, likely: float) -> bool:
        return self.random.random() < likely

    def _pick(self, choices: Sequence[str]) -> str:
        return self.random.choice(choices)
