"""Random queries in PostgreSQL's dialect over two tables, all of forms that we follow ourselves."""

from __future__ import annotations

from random import Random

SCHEMA = (
    "CREATE TABLE parents (id int PRIMARY KEY, name text, level smallint, ok bool)",
    "CREATE TABLE children (id bigint PRIMARY KEY, parent int, n int, big bigint, f float8, note varchar(8), ok bool, "
    "price numeric(7,2), amount numeric)",
)
_NAMES = ("ann", "Bob", "bo", "Ümit", "a_b", "")
_INTEGERS = {"p": ("p.id", "p.level"), "c": ("c.id", "c.parent", "c.n", "c.big")}
_TEXTS = {"p": ("p.name",), "c": ("c.note",)}


_SUMS = (
    ", sum(c.big) AS t, avg(c.n) AS v",
    ", sum(c.price) AS t, avg(c.price) AS v, max(c.price) AS w",
    ", sum(c.amount) AS t, avg(c.amount) FILTER (WHERE c.ok) AS v, count(DISTINCT c.amount) AS w",
    ", sum(c.f) AS t, avg(c.f) AS v, min(c.f) AS w, count(DISTINCT c.f) AS x",
    ", sum(DISTINCT c.price) AS t, avg(DISTINCT c.n) AS v",
    ", bool_and(c.ok) AS t, bool_or(c.ok) AS v, every(c.n > 2) FILTER (WHERE c.f > 0) AS w",
)


class Asking:
    """Draws queries; the same from the same number."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def query(self) -> str:
        forms = (self._rows, self._rows, self._joined, self._joined, self._grouped, self._set, self._nested, self._top)
        return self.random.choice(forms)()

    # Expressions

    def _integer(self, of: str) -> str:
        column = self.random.choice(_INTEGERS[self.random.choice(of)])
        forms = (
            column,
            column,
            f"{column} + 3",
            f"{column} % 4",
            f"-{column}",
            f"abs({column})",
            f"coalesce({column}, 7)",
        )
        return self.random.choice((*forms, f"length({self._text(of)})", f"CASE WHEN {column} > 2 THEN 1 ELSE 0 END"))

    def _number(self, of: str) -> str:
        """What is numeric."""
        one = self.random.choice(("c.price", "c.amount", f"{self._integer(of)}::numeric"))
        forms = (one, f"{one} * 1.50", f"{one} / 3", f"{one} + c.price", f"round({one}, 1)", f"-{one}", f"{one} % 0.7")
        return self.random.choice(forms)

    def _text(self, of: str) -> str:
        column = self.random.choice(_TEXTS[self.random.choice(of)])
        return self.random.choice((column, column, f"lower({column})", f"{column} || '!'", f"left({column}, 2)"))

    def _condition(self, of: str, depth: int = 2) -> str:
        one, other = self._integer(of), self._integer(of)
        sign = self.random.choice(["=", "<", ">=", "<>", "IS DISTINCT FROM"])
        like = f"{self.random.choice(['LIKE', 'ILIKE', 'NOT LIKE'])} '{self.random.choice(['b%', '%o%', '_n_'])}'"
        forms = [
            f"{one} {sign} {self.random.choice([other, '2', '0'])}",
            f"{one} IN (1, 2, 5)",
            f"{one} NOT IN (0, 3)",
            f"{one} BETWEEN 1 AND 4",
            f"{self._text(of)} {self.random.choice(['=', '<', '>='])} '{self.random.choice(_NAMES)}'",
            f"{self._text(of)} {like}",
            f"{self.random.choice(of)}.ok",
            f"{self.random.choice(of)}.ok IS NOT TRUE",
            f"{one} IS NOT NULL",
        ]
        if "c" in of:
            forms += ["c.f > 0.5", "c.f <= c.n", "c.f IS NULL", "c.price = c.amount", f"c.amount < {one}"]
            forms += ["c.price > 1.5", "c.amount IN (0, 1.50, 'NaN')", "c.price * 2 - c.amount >= 0.5", "c.f < c.price"]
        if depth:
            forms += [
                f"({self._condition(of, depth - 1)} {word} {self._condition(of, depth - 1)})" for word in ("AND", "OR")
            ]
            forms.append(f"NOT ({self._condition(of, depth - 1)})")
        return self.random.choice(forms)

    # Queries

    def _rows(self) -> str:
        of, table = self.random.choice((("p", "parents p"), ("c", "children c")))
        shown = f"{of}.id, {self._integer(of)} AS x, {self._text(of)} AS y, {self._condition(of)} AS z"
        if of == "c":
            shown += f", {self._number('c')} AS w"
        return f"SELECT {shown} FROM {table} WHERE {self._condition(of)}"

    def _joined(self) -> str:
        kind = self.random.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        extra = f" AND {self._condition('pc', 1)}" if self.random.random() < 0.3 and kind != "FULL JOIN" else ""
        where = f" WHERE {self._condition('pc')}" if self.random.random() < 0.5 else ""
        return (
            f"SELECT p.id, c.id AS child, p.name, c.f FROM parents p {kind} children c ON c.parent = p.id{extra}{where}"
        )

    def _grouped(self) -> str:
        key = self.random.choice((self._integer("c"), self._text("p"), "p.ok", "c.price", "round(c.amount)"))
        having = f" HAVING count(*) > {self.random.randrange(3)}" if self.random.random() < 0.4 else ""
        aggregates = "count(*) AS a, count(c.note) AS b, sum(c.n) AS s, min(c.big) AS l, max(c.note) AS m"
        distinct = ", count(DISTINCT c.n) FILTER (WHERE c.ok) AS d"
        aggregates += self.random.choice(("", *_SUMS))
        grouped = (
            f"SELECT {key} AS k, {aggregates}{distinct} FROM parents p JOIN children c ON c.parent = p.id GROUP BY 1"
        )
        scalar = f"SELECT {aggregates} FROM children c WHERE {self._condition('c')}"
        return self.random.choice((grouped + having, grouped + having, scalar))

    def _set(self) -> str:
        word = self.random.choice(("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"))
        left = f"SELECT c.parent AS x, c.note AS y FROM children c WHERE {self._condition('c', 1)}"
        right = f"SELECT p.id, p.name FROM parents p WHERE {self._condition('p', 1)}"
        return self.random.choice(
            (f"{left} {word} {right}", f"SELECT DISTINCT c.n, c.ok, {self._text('c')} AS t FROM children c")
        )

    def _nested(self) -> str:
        inside = f"SELECT 1 FROM children c WHERE c.parent = p.id AND {self._condition('c', 1)}"
        asked = self._condition("c", 1)
        member = f"p.id {self.random.choice(['IN', 'NOT IN'])} (SELECT c.parent FROM children c WHERE {asked})"
        forms = (
            f"SELECT p.id FROM parents p WHERE {self.random.choice(['', 'NOT '])}EXISTS ({inside})",
            f"SELECT p.id, EXISTS ({inside}) AS there, {member} AS found FROM parents p",
            "SELECT p.id, (SELECT max(c.n) FROM children c WHERE c.parent = p.id) AS best FROM parents p",
            "WITH t AS (SELECT c.parent AS k, count(*) AS n FROM children c GROUP BY c.parent) "
            f"SELECT p.name, t.n FROM t JOIN parents p ON p.id = t.k WHERE {self._condition('p', 1)}",
        )
        return self.random.choice(forms)

    def _top(self) -> str:
        key = self.random.choice((self._integer("c"), "c.f", self._text("c"), "c.ok", "c.price", self._number("c")))
        order = f"{key} {self.random.choice(['', 'DESC', 'NULLS FIRST', 'DESC NULLS LAST'])}"
        where = self._condition("c", 1)
        return f"SELECT c.id, c.f, c.n, c.note FROM children c WHERE {where} ORDER BY {order} LIMIT 4 OFFSET 1"


class Writing:
    """Draws statements by key: their effect follows from the rows they lock, so in commit order it is the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def statement(self) -> str:
        id = self.random.randrange(14)
        kind = self.random.random()
        table = self.random.choice(("parents", "children", "children"))
        if kind < 0.35:
            return f"INSERT INTO {table} VALUES ({id}, {self._values(table)}) ON CONFLICT DO NOTHING"
        if kind < 0.5:
            return f"DELETE FROM {table} WHERE id = {id}"
        if kind < 0.55:
            return f"UPDATE {table} SET id = {id + 14} WHERE id = {id}"
        return f"UPDATE {table} SET {self._change(table)} WHERE id = {id}"

    def _change(self, table: str) -> str:
        own = (f"level = {self._number()}", f"name = {self._text()}") if table == "parents" else ()
        child = (
            f"n = {self._number()}",
            "n = n + 1",
            f"parent = {self._number()}",
            f"f = {self._real()}",
            f"note = {self._text()}",
            f"price = {self._digits()}",
            f"amount = {self._digits()}",
        )
        changes: tuple[str, ...] = (*(own or child), f"ok = {self._truth()}")
        return self.random.choice(changes)

    def _values(self, table: str) -> str:
        if table == "parents":
            return f"{self._text()}, {self._number()}, {self._truth()}"
        numbers = ", ".join(self._number() for _ in range(3))
        return f"{numbers}, {self._real()}, {self._text()}, {self._truth()}, {self._digits()}, {self._digits()}"

    def _number(self) -> str:
        return self.random.choice(("NULL", *map(str, range(-1, 8))))

    def _digits(self) -> str:
        return self.random.choice(("NULL", "0", "0.00", "1.5", "1.50", "-2.125", "3", "'NaN'", "1000.1", "0.7"))

    def _real(self) -> str:
        return self.random.choice(("NULL", "0", "'-0'", "0.5", "1.5", "'NaN'", "'Infinity'", "-2"))

    def _text(self) -> str:
        return self.random.choice(("NULL", *(f"'{name}'" for name in _NAMES)))

    def _truth(self) -> str:
        return self.random.choice(("NULL", "true", "false"))
