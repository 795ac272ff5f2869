"""Constants cross between Python and SQL text without losing a bit."""

from __future__ import annotations

import math
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.dialects.sqlite.affinity import Affinity
from headwater.dialects.sqlite.literals import _as_product, evaluate, read_number, with_affinity, write
from tests.sql.written import examples

_reals = st.floats(allow_nan=False)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@examples(300)
@given(st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), _reals, _texts, st.binary(max_size=8)))
def test_what_is_written_reads_the_same(value: int | float | str | bytes | None) -> None:
    read = evaluate(write(value))
    assert (type(read), read) == (type(value), value)


@examples(100)
@given(_reals.filter(math.isfinite))
def test_a_real_is_also_an_exact_product(value: float) -> None:
    assert evaluate(_as_product(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("0x1F", 31), ("9223372036854775808", 9223372036854775808.0), ("1e400", math.inf), (".5", 0.5)],
)
def test_numbers_read_as_sqlite_reads_them(text: str, value: int | float) -> None:
    read = read_number(text)
    assert (type(read), read) == (type(value), value)


_numberlike = st.text("0123456789+-.eE \tx", max_size=6)


@examples(300)
@given(_numberlike, st.sampled_from(["INTEGER", "REAL", "NUMERIC", "TEXT", "BLOB"]), st.integers(-3, 12))
def test_affinity_is_applied_as_sqlite_does(text: str, affinity: str, number: int) -> None:
    """A stored value equals the text by SQLite's rules exactly when it equals the converted text by type alone."""
    memory = sqlite3.connect(":memory:")
    memory.execute(f"CREATE TABLE t (v {affinity})")
    memory.executemany("INSERT INTO t VALUES (?)", [(text,), (number,), (float(number),)])
    by_sqlite = memory.execute("SELECT v = ? FROM t", (text,)).fetchall()
    converted = with_affinity(text, Affinity(affinity))
    assert memory.execute("SELECT +v = ? FROM t", (converted,)).fetchall() == by_sqlite
