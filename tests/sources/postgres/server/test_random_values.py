"""Random rows of every type, by snapshot and by stream: to the digit what psycopg reads of the same table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.range import Range as TheirRange

from headwater.model.change import Transaction
from headwater.model.encoding.python_values import Range, natural
from headwater.model.time.interval import Interval
from headwater.model.value import Row
from headwater.sources.postgres.row_cache.row_cache import rows_of
from headwater.sources.postgres.source import PostgresSource
from tests.sources.replica import drained, exact
from tests.support.fuzz import MULTIPLIER

pytestmark = pytest.mark.slow
Db = psycopg.Connection[Any]
_BEFORE = """
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy');
CREATE TYPE pair AS (n int, word text);
CREATE DOMAIN small AS numeric(8, 3) CHECK (VALUE < 10000);
"""
_words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_digits = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20).map("{:f}".format)
_near = st.datetimes().map(str)
_zones = st.sampled_from(["+00", "+05:30", "-11"])


def _whole(bits: int) -> st.SearchStrategy[str]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(str)


def _listed(each: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return st.lists(st.just("NULL") | each.map(quoted), max_size=3).map(lambda some: "{" + ",".join(some) + "}")


def _ranged(ends: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    pairs = st.tuples(ends, ends).map(sorted)
    bounds = st.sampled_from(["[{},{})", "({},{}]", "[{},)", "(,{1}]", "empty"])
    return st.builds(lambda form, pair: form.format(*(f'"{end}"' for end in pair)), bounds, pairs)


_clock = st.times().map(str)
_json = st.recursive(
    st.sampled_from(["null", "true", "1.50", '"x"', "-7"]),
    lambda each: (
        st.lists(each, max_size=2).map(lambda some: "[" + ", ".join(some) + "]")
        | each.map(lambda one: '{"k": ' + one + ', "é": 1}')
    ),
    max_leaves=4,
)
_span = st.tuples(st.integers(-200, 200), st.integers(-40, 40), st.integers(-(10**12), 10**12)).map(
    lambda parts: "{} months {} days {} microseconds".format(*parts)
)
_pair = st.builds(
    lambda n, word: "({},{})".format(n, '"' + word.replace("\\", "\\\\").replace('"', '""') + '"'),
    st.integers(0, 9),
    _words,
)
TYPES: dict[str, st.SearchStrategy[str]] = {
    "smallint": _whole(16),
    "integer": _whole(32),
    "bigint": _whole(64),
    "numeric": _digits | st.sampled_from(["NaN", "Infinity", "-Infinity", "1.000", "0.00"]),
    "numeric(12, 3)": st.decimals(-(10**8), 10**8, places=3).map(str),
    "real": st.floats(width=32).map(str),
    "double precision": st.floats().map(str),
    "boolean": st.sampled_from(["t", "f"]),
    "text": _words,
    "varchar(8)": _words,
    "char(5)": st.text("ab é", max_size=5),
    "bytea": st.binary(max_size=8).map(lambda raw: "\\x" + raw.hex()),
    "date": st.dates().map(str),
    "time": _clock,
    "timetz": st.tuples(_clock, _zones).map("".join),
    "timestamp": _near,
    "timestamptz": st.tuples(st.datetimes().filter(lambda at: 2 < at.year < 9998).map(str), _zones).map("".join),
    "interval": _span,
    "uuid": st.uuids().map(str),
    "json": _json,
    "jsonb": _json,
    "mood": st.sampled_from(["sad", "it's ok", "happy"]),
    "small": st.decimals(-9999, 9999, places=3).map(str),
    "inet": st.ip_addresses().map(str) | st.ip_addresses(v=4).map(lambda one: f"{one}/9"),
    "cidr": st.sampled_from(["10.0.0.0/8", "::/0", "192.168.1.0/24"]),
    "integer[]": _listed(_whole(32)),
    "numeric[]": _listed(_digits),
    "text[]": _listed(_words),
    "timestamp[]": _listed(_near),
    "uuid[]": _listed(st.uuids().map(str)),
    "bytea[]": _listed(st.binary(max_size=4).map(lambda raw: "\\x" + raw.hex())),
    "int4range": _ranged(st.integers(-99, 99)),
    "int8range": _ranged(st.integers(-(2**40), 2**40)),
    "numrange": _ranged(st.integers(-99, 99)),
    "daterange": _ranged(st.dates()),
    "tsrange": _ranged(st.datetimes()),
    "tstzrange": _ranged(st.datetimes().filter(lambda at: 2 < at.year < 9998)),
    "pair": _pair,
}
ROWS = st.lists(st.tuples(*(st.none() | each for each in TYPES.values())), min_size=1, max_size=4)


@dataclass(frozen=True, slots=True)
class _Table:
    source: PostgresSource
    db: Db
    ids: list[int]


@pytest.fixture
def table(source: PostgresSource, db: Db) -> _Table:
    db.execute(_BEFORE.encode())
    columns = ", ".join(f"c{place} {type}" for place, type in enumerate(TYPES))
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})".encode())
    db.execute("SET TimeZone = 'UTC'")
    source.capture("t")
    return _Table(source, db, [0])


@settings(
    max_examples=25 * MULTIPLIER,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(rows=ROWS)
def test_snapshot_and_stream_equal_what_the_driver_reads(table: _Table, rows: list[tuple[str | None, ...]]) -> None:
    start = table.source.position()
    table.db.execute("TRUNCATE t")
    places = ", ".join(["%s::text::int", *(f"%s::text::{type}" for type in TYPES)])
    for row in rows:
        table.ids[0] += 1
        table.db.execute(f"INSERT INTO t VALUES ({places})".encode(), (str(table.ids[0]), *row))
    streamed = _inserted(drained(table.source, start))
    with table.source.snapshot("t") as snapshot:
        snapped = [row for batch in snapshot for row in rows_of(batch, snapshot.table)]
    assert sorted(map(exact, streamed)) == sorted(map(exact, snapped))
    theirs = {row[0]: row for row in table.db.execute("SELECT * FROM t")}
    assert len(theirs) == len(streamed)
    for ours in streamed:
        for name, value, theirs_value in zip(["id", *TYPES], ours, theirs[ours[0]], strict=True):
            assert _alike(natural(value), theirs_value), (name, value, theirs_value)


def _inserted(items: list[Any]) -> list[Row]:
    transactions = [item for item in items if isinstance(item, Transaction)]
    return [change.new for item in transactions for change in item.changes if change.new is not None]


def _alike(ours: Any, theirs: Any) -> bool:
    """To the digit: `repr` tells 1.0 from 1.00, and one NaN from no other."""
    if isinstance(ours, Interval):
        ours = ours.timedelta
    if isinstance(ours, Range):
        return isinstance(theirs, TheirRange) and _bounds(ours) == (theirs.lower, theirs.upper, theirs.isempty)
    return repr(ours).replace("datetime.timezone.utc", "UTC") == _repr(theirs)


def _bounds(ours: Range) -> tuple[Any, Any, bool]:
    return ours.lower, ours.upper, not ours.bounds


def _repr(theirs: Any) -> str:
    return repr(theirs).replace("zoneinfo.ZoneInfo(key='UTC')", "UTC").replace("datetime.timezone.utc", "UTC")
