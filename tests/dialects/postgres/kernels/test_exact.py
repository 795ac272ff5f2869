"""Expressions on PostgreSQL against a real server: every operator and function that we evaluate, errors included."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import psycopg
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from headwater.dialects.bind import bind
from headwater.dialects.postgres.bind.signatures import FUNCTIONS, SPECIAL
from headwater.dialects.postgres.types.kinds import BOOLEAN, TYPES, kind_of
from headwater.engine.expressions.evaluator import Expressions
from headwater.model.limits import DEFAULT
from headwater.model.schema import Column, Table
from headwater.model.value import Type, from_array
from headwater.sql.ir.expr import Expr
from tests.dialects.postgres.against_postgres import ATTEMPT, ATTEMPTS
from tests.dialects.postgres.numeric_expressions import NUMBERS, NUMERIC, PRICES, SHORT
from tests.engine.world import batch_of
from tests.support.fuzz import tries
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_COLUMNS = {
    "id": "integer",
    "s": "smallint",
    "a": "integer",
    "b": "integer",
    "c": "bigint",
    "f": "double precision",
    "g": "double precision",
    "t": "text",
    "u": "text",
    "p": "boolean",
    "q": "boolean",
    "n": "numeric",
    "m": "numeric",
    "d": "numeric(9,2)",
    "r": "real",
    "z": "real",
}
_KINDS = {
    "integer": "int4",
    "smallint": "int2",
    "bigint": "int8",
    "double precision": "float8",
    "boolean": "bool",
    "numeric": "numeric",
    "numeric(9,2)": "numeric",
    "real": "float4",
}
TABLE = Table(
    "v",
    tuple(
        Column(name, TYPES[_KINDS.get(declared, "text")], declared, "C" if declared == "text" else "BINARY")
        for name, declared in _COLUMNS.items()
    ),
    ("id",),
    dialect="postgres",
)
PREFIXED = replace(TABLE, columns=tuple(replace(one, name=f"v.{one.name}") for one in TABLE.columns), key=("v.id",))
_OPERATORS = [
    *(f"{x} {sign} {y}" for sign in "+-*/%" for x in ("s", "a", "c") for y in ("s", "b", "c", "7", "'2'")),
    *(
        f"{x} {sign} {y}"
        for sign in "+-*/"
        for x, y in (("f", "g"), ("f", "a"), ("c", "f"), ("f", "2.5"), ("f", "'3'"))
    ),
    *(
        f"{x} {sign} {y}"
        for sign in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
        for x, y in (
            ("a", "b"),
            ("s", "c"),
            ("f", "g"),
            ("f", "a"),
            ("f", "0.5"),
            ("t", "u"),
            ("t", "'ab'"),
            ("p", "q"),
        )
    ),
    *("-s", "-a", "-c", "-f", "+a", "NOT p", "p AND q", "p OR q", "p AND a / b > 0", "b <> 0 AND a / b > 0"),
    *("a IS NULL", "t IS NOT NULL", "p IS TRUE", "p IS NOT FALSE", "p IS UNKNOWN", "(a = b) IS NOT UNKNOWN"),
    *("a IN (1, 2, -3)", "a NOT IN (1, NULL)", "t IN ('a', u)", "f IN (1, 0.5)", "a BETWEEN b AND 5"),
    *("a NOT BETWEEN 1 AND c", "t BETWEEN 'a' AND u", "t || u", "t || a", "s || t", "c || t || 'x'"),
    *("t LIKE 'a%'", "t LIKE '_b%'", "t NOT LIKE '%\\%%'", "t LIKE 'a!%%' ESCAPE '!'", "t LIKE '\\a_' ESCAPE ''"),
    *(
        "t LIKE u || '%'",
        "t LIKE '%' || u || 'a'",
        "t NOT LIKE u || '_' ESCAPE '!'",
        "t ILIKE '_' || u || 'b'",
        "t ILIKE u || 'x'",
    ),
    *("t SIMILAR TO '%(a|b)'", "t SIMILAR TO '_[a-zA]*'", "t NOT SIMILAR TO 'a.%|\\%_'"),
    *("t ILIKE 'A%'", "t ILIKE '%Ä_'", "t NOT ILIKE '%B'", 't COLLATE "C" < u', "t LIKE '%é%'"),
    *("s::int4", "a::int2", "c::int4", "c::smallint", "a::bigint", "a::float8", "c::double precision", "f::int2"),
    *("f::int", "f::int8", "a::text", "c::text", "p::text", "p::int", "a::bool", "CAST(a AS text)", "t::varchar"),
    *("CASE WHEN a > b THEN 1 WHEN p THEN c ELSE s END", "CASE a WHEN 1 THEN t WHEN b THEN 'same' END"),
    *("CASE WHEN b = 0 THEN NULL ELSE a / b END", "CASE WHEN p THEN f ELSE a END", "CASE WHEN p THEN 1.5 ELSE f END"),
    *(
        "a + b * c",
        "(a + b) * c",
        "a - b - s",
        "-a * b",
        "a = b IS NULL",
        "NOT a = b",
        "p = (a < b)",
        "a + -2147483648",
    ),
]
_ARGUMENTS = {
    "int2": ("s",),
    "int4": ("a % 9", "s", "a"),
    "int8": ("c", "a"),
    "float8": ("f", "a", "g"),
    "text": ("t", "u", "t || 'aXb'"),
    "text!": ("t", "u"),
    "numeric": ("n", "m", "d"),
}
_SPECIALS = {
    "coalesce": ("coalesce(a, b, 7)", "coalesce(t, 'none')", "coalesce(a, c)", "coalesce(f, a)", "coalesce(a, 1 / b)"),
    "nullif": ("nullif(a, b)", "nullif(t, 'a')", "nullif(c, 0)", "nullif(f, g)"),
    "greatest": ("greatest(a, b, 3)", "greatest(t, u)", "greatest(s, c)"),
    "least": ("least(a, b)", "least(t, u, 'b')", "least(c, 5)"),
    "concat_ws": ("concat_ws(', ', t, a, u)", "concat_ws(t, u, c, NULL)", "concat_ws(u, 'x')"),
    "concat": ("concat(t, a, u)", "concat(t, NULL, 'x')"),
}


def _calls() -> Iterator[str]:
    """Each signature, with a few arguments of each kind."""
    for name, signatures in FUNCTIONS.items():
        for signature in signatures:
            known = {*signature.takes, signature.gives} <= {*_ARGUMENTS, "bool"}  # the others have tests of their own
            for turn in range(3 if known else 0):
                args = [_ARGUMENTS[kind][(turn + n) % len(_ARGUMENTS[kind])] for n, kind in enumerate(signature.takes)]
                yield f"{name}({', '.join(args)})"
    for name in SPECIAL:
        yield from _SPECIALS[name]


EXPRESSIONS = list(dict.fromkeys([*_OPERATORS, *NUMERIC, *_calls()]))


def _whole(bits: int) -> st.SearchStrategy[int | None]:
    edge = 1 << (bits - 1)
    return st.none() | st.integers(-4, 4) | st.sampled_from([-edge, 1 - edge, edge - 1]) | st.integers(-edge, edge - 1)


_REALS = st.none() | st.sampled_from([0.0, -0.0, 0.5, -1.5, 2.5, math.inf, -math.inf, math.nan, 1e308, 5e-324, -1e-200])
_LETTERS = st.sampled_from(["a", "b", "A", "B", "X", " ", "%", "_", "\\", "ä", "É", "é", "😀", "1", "-", "'"])
_TEXTS = st.none() | st.lists(_LETTERS, max_size=5).map("".join)
_TRUTHS = st.none() | st.booleans()
ROWS = st.lists(
    st.tuples(
        _whole(16),
        _whole(32),
        _whole(32),
        _whole(64),
        _REALS | st.floats(allow_nan=False),
        _REALS,
        _TEXTS,
        _TEXTS,
        _TRUTHS,
        _TRUTHS,
        NUMBERS,
        NUMBERS,
        PRICES,
        SHORT,
        SHORT,
    ),
    min_size=12,
    max_size=12,
)


_READ: dict[Type, Callable[[str], Any]] = {
    BOOLEAN: lambda text: {"true": True, "false": False}[text],
    Type.INTEGER: lambda text: int({"true": "1", "false": "0"}.get(text, text)),
    Type.REAL: float,
    Type.TEXT: str,
    Type.NUMERIC: Decimal,
}


@pytest.fixture(params=VERSIONS, scope="module")
def db(request: pytest.FixtureRequest, servers: Servers) -> Iterator[psycopg.Connection[Any]]:
    server = servers[request.param]
    with server.database() as database, server.connect(database) as db:
        columns = ", ".join(f"{name} {declared}" for name, declared in _COLUMNS.items())
        db.execute(f"CREATE TABLE v ({columns})".encode())
        db.execute(ATTEMPT)
        yield db


@cache
def _bound(text: str) -> Expr:
    return bind(f"SELECT {text} AS v FROM v", [TABLE]).outputs[0].expr


@settings(tries(4), phases=(Phase.explicit, Phase.generate))  # a failure names its row: there is little to shrink
@given(rows=ROWS)
@example(rows=[(None,) * 15] * 12)
def test_every_operator_and_function_answers_as_postgres_does(db: psycopg.Connection[Any], rows: list[Any]) -> None:
    db.execute("TRUNCATE v")
    numbered = [(number, *row) for number, row in enumerate(rows)]
    places = ", ".join(["%s"] * len(_COLUMNS))
    with db.cursor() as cursor:
        cursor.executemany(f"INSERT INTO v VALUES ({places})".encode(), numbered)
    batch = batch_of(PREFIXED, [tuple(map(_held, row)) for row in numbered])
    answers = iter(db.execute(ATTEMPTS, (EXPRESSIONS,)).fetchall())
    for text in EXPRESSIONS:
        expressions = Expressions([_bound(text)], PREFIXED)
        evaluated = expressions.evaluate(batch)
        type = expressions.types[0]
        for place, ours in enumerate(from_array(evaluated.columns[0], type)):
            value, error = next(answers)
            wanted = error if error is not None else None if value is None else _READ[type](value)
            found = evaluated.failed.get(place, ours)
            if "that Headwater computes" in str(found):  # our limit, not PostgreSQL's: its text is longer than that
                found = wanted if len(str(wanted)) > DEFAULT.value_bytes_max else found
            assert (text, repr(found)) == (text, repr(wanted)), numbered[place]


def test_every_operator_and_function_is_of_the_type_that_postgres_says(db: psycopg.Connection[Any]) -> None:
    names = dict(db.execute("SELECT oid::int8, typname FROM pg_type").fetchall())
    for text in EXPRESSIONS:
        described = db.execute(f"SELECT {text} FROM v LIMIT 0".encode()).description
        assert described is not None
        kind = kind_of(_bound(text)).base
        assert names[described[0].type_code].replace("varchar", "text") == kind, text


def _held(value: Any) -> Any:
    """As a column holds it."""
    return int(value) if isinstance(value, bool) and BOOLEAN is Type.INTEGER else value
