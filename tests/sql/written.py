"""Random SQL as people write it, over one table with a column of every kind: for property tests of sql/ and plan/."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st

from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value
from tests.support.fuzz import MULTIPLIER

FUZZ = MULTIPLIER

TABLE = Table(
    "t",
    (
        Column("id", Type.INTEGER, "INTEGER", nullable=False),
        Column("i", Type.INTEGER, "INT"),
        Column("r", Type.REAL, "REAL"),
        Column("n", Type.ANY, "NUMERIC"),
        Column("s", Type.TEXT, "TEXT"),
        Column("c", Type.TEXT, "VARCHAR(9)", "NOCASE"),
        Column("b", Type.BLOB, "BLOB"),
        Column("x", Type.ANY, ""),
    ),
    ("id",),
)
CREATE = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, i INT, r REAL, n NUMERIC, s TEXT,"
    " c VARCHAR(9) COLLATE NOCASE, b BLOB, x)"
)
KEYLESS = Table("t", TABLE.columns)


def examples(count: int) -> settings:
    return settings(max_examples=count * FUZZ, deadline=None, derandomize=FUZZ <= 1)


def filled(rows: list[Row]) -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:")
    memory.execute(CREATE)
    memory.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return memory


_words = st.sampled_from(
    ["", "a", "A", "b", "aB", "1", "01", " 1", "1.0", "1e0", "2x", "ä", "%", "_", "-1", "10", "x'", "0x1"]
)
_integers = st.sampled_from([-2, -1, 0, 1, 2, 3, 10, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)])
_reals = st.sampled_from([-1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 1e18, 9007199254740992.0, 0.1, 1e300])
_blobs = st.sampled_from([b"", b"a", b"A", b"1", b"\x00\xff"])


def _nullable(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.one_of(st.none(), values, values, values)


_mixed: st.SearchStrategy[Value] = st.one_of(_words, _integers, _reals, _blobs)
_row = st.tuples(
    _nullable(_integers),
    _nullable(_reals),
    _nullable(st.one_of(_integers, _reals, st.sampled_from(["a", "", "z1"]))),
    _nullable(_words),
    _nullable(_words),
    _nullable(_blobs),
    _nullable(_mixed),
)


def rows(least: int = 1, most: int = 4) -> st.SearchStrategy[list[Row]]:
    numbered: Callable[[list[Row]], list[Row]] = lambda some: [(at + 1, *row) for at, row in enumerate(some)]  # noqa: E731
    return st.lists(_row, min_size=least, max_size=most).map(numbered)


def _split(text: str) -> list[str]:
    return text.split()


literals = st.sampled_from(
    [
        *_split("0 1 2 -1 10 1.0 0.5 .5 1. 1e0 1e18 0x10 9223372036854775807 9223372036854775808 -9223372036854775808"),
        *_split("9007199254740993 '' 'a' 'A' 'aB' '1' '1.0' '1e0' '2x' 'ä' '%' 'a%' '_' 'it''s' x'' x'61' X'00ff'"),
        *("' 1'", "NULL", "TRUE", "FALSE", "true"),
    ]
)
_columns = st.sampled_from(
    ["id", "i", "r", "n", "s", "c", "b", "x", "t.s", "main.t.c", "I", '"x"', "[n]", "`r`", "rowid"]
)
_atoms = st.one_of(_columns, _columns, literals)
_binary = st.sampled_from(
    [
        *_split("= == <> != < <= > >= + - * / % || & | << >> AND OR IS LIKE GLOB"),
        *("IS NOT", "NOT LIKE", "NOT GLOB", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
    ]
)
_comparing = st.sampled_from(_split("= == <> != < <= > >= IS"))
_types = st.sampled_from(_split("INTEGER REAL TEXT BLOB NUMERIC VARCHAR(10) STRING BOOLEAN BIGINT FLOAT"))
_unary_functions = st.sampled_from(
    _split("lower upper length trim ltrim rtrim abs round sign typeof hex quote unicode likely unlikely floor")
)
_binary_functions = st.sampled_from(_split("ifnull nullif coalesce min max instr substr trim round like glob"))
_ternary_functions = st.sampled_from(_split("iif replace substr substring coalesce min max"))


def _joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map("".join)


def _larger(e: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Mostly without parentheses: precedence is part of what is tested."""
    negation = st.sampled_from([" ", " NOT "])
    return st.one_of(
        _joined(e, " ", _binary, " ", e),
        _joined(e, " ", _binary, " ", e),
        _joined(_atoms, " ", _comparing, " ", _atoms),
        _joined("(", e, ")"),
        _joined(st.sampled_from(["-", "+", "~", "NOT ", "- ", "+ "]), "(", e, ")"),
        _joined(st.sampled_from(["+", "~", "NOT "]), e),
        _joined(e, negation, "IN (", e, ")"),
        _joined(e, negation, "IN (", e, ", ", e, ")"),
        _joined(e, negation, "IN ()"),
        _joined(_atoms, negation, "IN (", _atoms, ", ", _atoms, ", ", _atoms, ")"),
        _joined(e, negation, "BETWEEN ", e, " AND ", e),
        _joined(e, negation, "LIKE ", e, " ESCAPE '\\'"),
        _joined(
            e,
            st.sampled_from(
                [" ISNULL", " NOTNULL", " NOT NULL", " IS NULL", " IS NOT NULL", " IS TRUE", " IS NOT FALSE"]
            ),
        ),
        _joined(e, " COLLATE ", st.sampled_from(["NOCASE", "binary"])),
        _joined("CASE WHEN ", e, " THEN ", e, " ELSE ", e, " END"),
        _joined("CASE ", e, " WHEN ", e, " THEN ", e, " WHEN ", e, " THEN ", e, " END"),
        _joined("CAST(", e, " AS ", _types, ")"),
        _joined(_unary_functions, "(", e, ")"),
        _joined(_binary_functions, "(", e, ", ", e, ")"),
        _joined(_ternary_functions, "(", e, ", ", e, ", ", e, ")"),
    )


expressions: st.SearchStrategy[str] = st.recursive(_atoms, _larger, max_leaves=6)
