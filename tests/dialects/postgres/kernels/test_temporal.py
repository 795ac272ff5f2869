"""Dates, times and intervals on PostgreSQL against a real server: compared, computed with, cast, taken apart.

Infinity has rules of its own: what the versions of PostgreSQL do not agree on is tried without it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from headwater.dialects.postgres.bind.signatures import FUNCTIONS, UNITS
from tests.dialects.postgres.against_postgres import Against, against
from tests.support.fuzz import tries
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_COLUMNS = {
    **{"d": "date", "e": "date", "s": "timestamp", "t": "timestamp", "y": "timestamptz", "z": "timestamptz"},
    **{"c": "time", "k": "time", "i": "interval", "j": "interval", "n": "integer", "m": "smallint"},
}
_SIGNS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_MOMENTS = ("d", "s", "y")
_PAIRS = [
    *(("d", "e"), ("s", "t"), ("y", "z"), ("c", "k"), ("i", "j")),
    *((one, other) for one in _MOMENTS for other in _MOMENTS if one != other),
    *(("d", "'2024-02-29'"), ("s", "'2024-02-29 12:30'"), ("y", "'2024-02-29T12:30:00.5+02'"), ("c", "'12:30'")),
    *(("y", "'2024-02-29'::date"), ("date '2024-02-29'", "s"), ("s", "'2024-02-29 00:00Z'::timestamptz")),
    *(("i", "'1 month'"), ("i", "interval '1 day -02:00'"), ("d", "'infinity'"), ("y", "'-infinity'")),
    ("time without time zone '01:02:03'", "k"),
]
_COMPARED = [f"{x} {sign} {y}" for sign in _SIGNS for x, y in _PAIRS]
_COMPUTED = [
    *("d + n", "n + d", "d - n", "d + m", "d + 7", "d - 1", "d + c", "c + d", "c + i", "i + c", "c - i"),
    *("i + j", "i - j", "-i", "c - k", "d + interval '1 month'", "s + interval '1 year -2 mons'"),
    *(f"{x} {sign} i" for x in _MOMENTS for sign in "+-"),
    *(f"i + {x}" for x in _MOMENTS),
    *("s + '2 weeks 3 hours'::interval", "y - interval 'P1Y2M3DT4H5M6.5S'"),
    *("greatest(d, e)", "least(s, t)", "coalesce(y, z)", "nullif(c, k)", "CASE WHEN i > j THEN i ELSE j END"),
    *("d IN ('2024-02-29', NULL)", "s IN (t, '2024-01-01')", "y BETWEEN '2020-01-01' AND z", "i IN (j, '1 day')"),
    *("s IN ('2024-02-29 12:30', '2024-01-01')", "d BETWEEN e AND 'infinity'"),
]
_CAST = [
    *("d::timestamp", "d::timestamptz", "s::date", "y::date", "s::time", "y::time", "s::timestamptz", "y::timestamp"),
    *("c::interval", "y::timestamp with time zone", "s::timestamp without time zone", "y AT TIME ZONE 'UTC'"),
    *(f"{x}::text" for x in ("d", "s", "y", "c", "i")),
    *("s AT TIME ZONE 'UTC'", "i::text || d", "concat(s, ' ', y)", "isfinite(d)", "isfinite(s)", "isfinite(y)"),
]
_FORMATS = (
    *("YYYY-MM-DD", "YYYY-MM-DD HH24:MI:SS", "DD.MM.YY", "YYYYMMDD", "yyyy/mm/dd hh:mi am", "HH12:MI:SS.MS PM", "US"),
    *(
        "Mon DD, YYYY",
        "FMMonth FMDD",
        "Month",
        "MONTH",
        "month",
        "MON",
        "mon",
        "Day",
        "DAY",
        "day",
        "Dy DY dy",
        "FMDay",
    ),
    *(
        "IYYY-IW-ID",
        "DDD D Q WW",
        'YYYY-MM-DD"T"HH24:MI:SS"Z"',
        "FMHH24:FMMI FMMS FMUS",
        "FMYYYY FMYY FMDDD",
        "HH24MISSMS",
    ),
)
_ARGUMENTS = {
    **{"date": ("d", "e"), "timestamp": ("s", "t"), "timestamptz": ("y", "z", "d"), "time": ("c", "k")},
    **{"interval": ("i", "j"), "int4": ("n", "m", "n % 5000")},
    "format": tuple(f"'{format}'" for format in _FORMATS),
    **{unit: tuple(f"'{word}'" for word in sorted(words)) for unit, words in UNITS.items()},
}


def _calls() -> Iterator[str]:
    """Each function that takes or gives such a type, with every unit."""
    kinds = {*_ARGUMENTS} - {"int4"}
    for name, signatures in FUNCTIONS.items():
        for signature in signatures:
            if {*signature.takes, signature.gives} & kinds and {*signature.takes} <= {*_ARGUMENTS}:
                choices = [_ARGUMENTS[kind] for kind in signature.takes]
                for turn in range(max(map(len, choices))):
                    args = [choice[(turn + n) % len(choice)] for n, choice in enumerate(choices)]
                    yield (
                        f"{name}({', '.join(args)})"
                        if name != "extract"
                        else f"extract({args[0][1:-1]} FROM {args[1]})"
                    )


_MADE = [f"make_date({args})" for args in ("n, m, m", "m, 2, 29", "m, m % 13, m % 32", "2024, 2, m")]
EXPRESSIONS = list(dict.fromkeys([*_COMPARED, *_COMPUTED, *_CAST, *_MADE, *_calls(), "d - e", "s - t", "y - z"]))
ENDLESS = [text for text in EXPRESSIONS if text not in ("s - t", "y - z") and not text.startswith("age(")]

_DATES = st.sampled_from(
    [
        "2024-02-29",
        "2023-12-31",
        "2001-01-01",
        "0001-01-01",
        "4714-11-24 BC",
        "0044-03-15 BC",
        "5874897-12-31",
        "1970-01-01",
    ]
)
_ANY_DATE = _DATES | st.dates().map(str)
_ANY_MOMENT = (
    st.sampled_from(["2024-02-29 12:30", "2024-03-31 23:59:59.999999", "4714-11-24 BC", "0100-01-01 00:00:00.5 BC"])
    | st.sampled_from(["200000-12-31 23:59", "2000-01-01", "1999-12-31 23:59:59.999999", "1000-06-30 06:00"])
    | st.datetimes().map(str)
)
_ENDS = st.sampled_from(["infinity", "-infinity"])
_TIMES = st.sampled_from(["00:00", "12:30", "23:59:59.999999", "24:00"]) | st.times().map(str)
_SPANS = st.sampled_from(
    [
        "1 mon",
        "30 days",
        "-1 year 2 days -03:04:05.6",
        "720:00",
        "0",
        "1 year -1 mon +3 days",
        "-00:00:00.000001",
        "100000 days",
    ]
)
_WHOLE = st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-40, 40) | st.integers(1, 2500)
_SHORT = st.integers(-40, 40) | st.integers(-(1 << 15), (1 << 15) - 1)


def _rows(ends: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str | None, ...]]]:
    date, moment = st.none() | _ANY_DATE | ends, st.none() | _ANY_MOMENT | ends
    time, span = st.none() | _TIMES, st.none() | _SPANS
    row = st.tuples(
        date, date, moment, moment, moment, moment, time, time, span, span, _WHOLE.map(str), _SHORT.map(str)
    )
    return st.lists(row, min_size=12, max_size=12)


@pytest.fixture(params=VERSIONS, scope="module")
def world(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Against]:
    with against(servers[request.param], _COLUMNS, EXPRESSIONS) as world:
        yield world


@settings(tries(4), phases=(Phase.explicit, Phase.generate))
@given(rows=_rows(st.nothing()))
def test_times_are_computed_with_as_postgres_does(world: Against, rows: list[tuple[str | None, ...]]) -> None:
    world.check(rows)


@settings(tries(3), phases=(Phase.explicit, Phase.generate))
@given(rows=_rows(_ENDS))
@example(rows=[(None,) * len(_COLUMNS)] * 12)
def test_infinity_is_computed_with_as_postgres_does(world: Against, rows: list[tuple[str | None, ...]]) -> None:
    world.check(rows, ENDLESS)


def test_every_expression_is_of_the_type_that_postgres_says(world: Against) -> None:
    world.check_types()
