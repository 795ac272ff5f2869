"""Expressions over rows of one table, evaluated by us and by a real server: values, types and errors are compared.

Values are compared as PostgreSQL writes them, read back: 1.0 is not 1.00, and -0 is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg

from headwater.dialects.bind import bind
from headwater.dialects.postgres.types.kinds import kind_of
from headwater.engine.expressions.evaluator import Expressions
from headwater.model.schema import Column, Table
from headwater.model.value import from_array
from headwater.sources.postgres.server.value_types import BUILT_IN
from headwater.sql.ir.expr import Expr
from tests.engine.world import batch_of
from tests.support.postgres import Postgres

ATTEMPT = """
CREATE FUNCTION attempt(expression text, row_id int, OUT value text, OUT error text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT (' || expression || ')::text FROM v WHERE id = $1' INTO value USING row_id;
EXCEPTION WHEN OTHERS THEN error := SQLERRM;
END $$
"""
ATTEMPTS = """
SELECT a.value, a.error FROM unnest(%s::text[]) WITH ORDINALITY e(expression, n) CROSS JOIN v
CROSS JOIN LATERAL attempt(e.expression, v.id) a ORDER BY e.n, v.id
"""
_BOOL = 16
_PINNED = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; SET extra_float_digits = 1"


class Against:
    """One table `v` with an `id`, in a database of its own. `expressions` are the SQL of each."""

    def __init__(self, db: psycopg.Connection[Any], columns: Mapping[str, str], expressions: Sequence[str]) -> None:
        self.db, self.expressions = db, list(expressions)
        self._columns = {"id": "integer", **columns}
        db.execute(_PINNED)
        db.execute(f"CREATE TABLE v ({', '.join(f'{name} {type}' for name, type in self._columns.items())})".encode())
        db.execute(ATTEMPT)
        described = self._described("SELECT * FROM v LIMIT 0")
        self._parsers = [_reader(oid) for oid in described]
        types = [BUILT_IN.type_of(oid) for oid in described]
        titles = dict(
            db.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'v'::regclass"
            )
        )
        made = [
            Column(name, type, titles[name], "C" if titles[name] == "text" else "BINARY")
            for name, type in zip(self._columns, types, strict=True)
        ]
        self.table = Table("v", tuple(made), ("id",), dialect="postgres")
        self._read = replace(
            self.table, columns=tuple(replace(one, name=f"v.{one.name}") for one in made), key=("v.id",)
        )
        self.bound: dict[str, Expr] = {text: self.bind(text) for text in self.expressions}

    def bind(self, text: str) -> Expr:
        return bind(f"SELECT {text} AS v FROM v", [self.table]).outputs[0].expr

    def check_types(self) -> None:
        names: dict[int, str] = dict(self.db.execute("SELECT oid::int8, typname FROM pg_type").fetchall())
        for text, expr in self.bound.items():
            (oid,) = self._described(f"SELECT {text} FROM v LIMIT 0")
            theirs = names[oid].replace("varchar", "text")
            ours = kind_of(expr).base
            assert ours == theirs, f"{text} is {ours} to us, {theirs} to PostgreSQL"

    def check(self, rows: Sequence[Sequence[str | None]], expressions: Sequence[str] | None = None) -> None:
        """`rows` hold each value as text, without the id; `expressions` are all unless told."""
        asked = list(self.expressions if expressions is None else expressions)
        batch = batch_of(self._read, self._put(rows))
        answers = iter(self.db.execute(ATTEMPTS, (asked,)).fetchall())
        for text in asked:
            (oid,) = self._described(f"SELECT {text} FROM v LIMIT 0")
            parse = _reader(oid)
            evaluated = Expressions([self.bound[text]], self._read)
            found = evaluated.evaluate(batch)
            for place, ours in enumerate(from_array(found.columns[0], evaluated.types[0])):
                value, error = next(answers)
                theirs = error if error is not None else None if value is None else parse(value)
                mine = repr(found.failed.get(place, ours))
                assert mine == repr(theirs), f"{text} is {mine} to us, {theirs!r} to PostgreSQL, of {rows[place]}"

    def _put(self, rows: Sequence[Sequence[str | None]]) -> list[tuple[Any, ...]]:
        self.db.execute("TRUNCATE v")
        numbered = [(str(number), *row) for number, row in enumerate(rows)]
        places = ", ".join(f"%s::text::{type}" for type in self._columns.values())
        with self.db.cursor() as cursor:
            cursor.executemany(f"INSERT INTO v VALUES ({places})".encode(), numbered)
        texts = ", ".join(f"{name}::text" for name in self._columns)
        stored = self.db.execute(f"SELECT {texts} FROM v ORDER BY v.id".encode()).fetchall()
        return [tuple(self._value(n, text) for n, text in enumerate(row)) for row in stored]

    def _value(self, place: int, text: str | None) -> Any:
        return None if text is None else self._parsers[place](text)

    def _described(self, sql: str) -> list[int]:
        description = self.db.execute(sql.encode()).description
        assert description is not None
        return [column.type_code for column in description]


def _reader(oid: int) -> Callable[[str], Any]:
    """Of what a cast to text gives: a truth is written out there."""
    parse = BUILT_IN.parser(oid)
    return (lambda text: text == "true") if oid == _BOOL else lambda text: parse(text.encode())


@contextmanager
def against(server: Postgres, columns: Mapping[str, str], expressions: Sequence[str]) -> Iterator[Against]:
    with server.database() as database, server.connect(database) as db:
        yield Against(db, columns, expressions)
