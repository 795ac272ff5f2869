"""What is tried of numeric on PostgreSQL, over columns `n` and `m` of any scale and `d` of two digits."""

from __future__ import annotations

import math
from decimal import Decimal

from hypothesis import strategies as st

_SIGNS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_SIDES = (("n", "m"), ("n", "d"), ("d", "a"), ("c", "n"), ("f", "n"), ("n", "0.50"), ("1.5", "d"), ("d", "'2.50'"))

NUMERIC = [
    *(f"{x} {sign} {y}" for sign in "+-*/" for x, y in _SIDES),
    *(f"{x} % {y}" for x, y in _SIDES if x != "f"),
    *(f"{x} {sign} {y}" for sign in _SIGNS for x, y in _SIDES),
    *("-n", "+d", "-d * 1e3", "d * d - n", "n / d / 3", "s * 1.5", "a / 2.0", "c / 3.0", "1e-5 * a", "2.50 + a"),
    *("n IN (1, 1.50, 0.00)", "d NOT IN (1.5, NULL)", "n IN ('NaN', m)", "d BETWEEN 0 AND 1.5", "n BETWEEN m AND d"),
    *("n IS NULL", "d IS NOT NULL", "n IS DISTINCT FROM 'NaN'", "n = 'Infinity'", "n < '-inf'"),
    *("n::int2", "n::int", "d::int8", "n::float8", "d::double precision", "n::text", "d::text", "d || t", "t || n"),
    *("s::numeric", "a::numeric", "c::decimal", "f::numeric", "g::dec", "f::numeric(9,3)", "a::numeric(5,2)"),
    *("n::numeric(5,2)", "n::numeric(9)", "d::numeric(9,2)", "d::numeric(6,1)", "n::numeric(4,-2)", "f::text"),
    *("round(n, 2)", "round(d, 1)", "round(n, -1)", "trunc(n, 3)", "trunc(d, -2)", "round(a, -1)", "round(n, s % 20)"),
    *("CASE WHEN p THEN n ELSE a END", "CASE WHEN p THEN d END", "CASE WHEN p THEN 1.5 ELSE d END", "f || t"),
    *("CASE WHEN p THEN f ELSE n END", "coalesce(d, 0)", "coalesce(n, d, 1.50)", "coalesce(n, f)", "nullif(n, m)"),
    *("nullif(d, 0)", "greatest(n, m, d)", "least(n, 0.50, d)", "greatest(a, n)", "concat(n, d, f)", "1.50"),
    *(
        "coalesce(a, 1.5)",
        "d = 12345678901234567890",
        "CAST(n AS numeric(20,10))",
        "round(d) * 2",
        "1.5::float8 * f",
        "n * d * 1.000",
    ),
]
_REAL_SIDES = (("r", "z"), ("r", "f"), ("a", "r"), ("r", "n"), ("r", "0.1"), ("1", "z"))
NUMERIC += [
    *(f"{x} {sign} {y}" for sign in _SIGNS for x, y in _REAL_SIDES),
    *(f"{x} {sign} {y}" for sign in "+-*/" for x, y in _REAL_SIDES[1:]),
    *("r::float8", "r::text", "r::int", "r::int8", "r::numeric", "z::numeric(9,3)", "r || t", "concat(r, t)"),
    *("coalesce(r, z)", "CASE WHEN p THEN r ELSE z END", "r IS NULL", "r BETWEEN 0 AND f"),
]
_EDGES = (
    *("0", "0.00", "0.1", "-0.50", "1.5", "1.50", "2.5", "-2.5", "9999.5", "10000", "0.00001", "-99999999.99"),
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "9223372036854775807.5",
        "-2147483648.5",
        "32767.4999",
        f"1{'0' * 400}",
        "-1E-30",
    ),
)


def _fitting(scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**20), 10**20).map(lambda digits: Decimal(digits).scaleb(-scale))


NUMBERS = st.none() | st.sampled_from(_EDGES).map(Decimal) | st.integers(0, 24).flatmap(_fitting)
PRICES = (
    st.none()
    | st.sampled_from(["0.00", "0.50", "1.50", "-2.50", "9999999.99", "NaN", "100.00"]).map(Decimal)
    | st.integers(-(10**5), 10**5).map(lambda cents: Decimal(cents).scaleb(-2))
)
SHORT = st.none() | st.sampled_from(
    [0.0, -0.0, 0.1, -1.5, 2.5, 1e6, 123456.7, 3.4e38, -1e-40, 16777216.0, 9.223372e18, math.nan, math.inf, -math.inf]
)
