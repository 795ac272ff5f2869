"""Values by chance, of every type: those that databases have trouble with more often than they come by themselves."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal

from hypothesis import strategies as st

from headwater.model.time.interval import Interval
from headwater.model.value import Type, Value
from headwater.model.verbatim import Verbatim

INTEGERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.integers(-1025, 1025).map(lambda n: max(-(2**63), min(2**63 - 1, 2**53 + n))),
    st.integers(0, 3000).map(lambda n: 2**63 - 1 - n),
)
REALS = st.one_of(
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, 2.0**53, 2.0**63, -(2.0**63), float("inf"), float("-inf"), 5e-324]),
    INTEGERS.map(float),
)
TEXTS = st.one_of(st.text(max_size=6), st.text(alphabet="aAbBZz \x00é", max_size=5))
BLOBS = st.binary(max_size=5)
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6),
    st.sampled_from(
        [
            "1",
            "1.0",
            "1.00",
            "0",
            "0.00",
            "0.1",
            "0." + "0" * 29 + "1",
            "9" * 40,
            "-" + "9" * 40 + ".5",
            "1" + "0" * 400,
        ]
    ).map(Decimal),
    st.sampled_from(["NaN", "Infinity", "-Infinity"]).map(Decimal),
    INTEGERS.map(Decimal),
    st.floats(allow_nan=False, allow_infinity=False).map(Decimal),
)
FAR_DATES = st.sampled_from(["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "5874897-12-31"])
FAR_MOMENTS = ["infinity", "-infinity", "0044-03-15 12:34:56.7{} BC", "10000-01-01 00:00:00{}"]
INTERVALS = st.builds(
    Interval, st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
)
OTHERS = st.recursive(
    st.one_of(st.sampled_from(["::1", "10.0.0.1"]).map(lambda text: Verbatim("inet", text)), INTEGERS, DECIMALS),
    lambda each: st.lists(each | st.none(), max_size=3).map(tuple),
    max_leaves=4,
).filter(lambda value: isinstance(value, tuple | Verbatim))
OF_TYPE: dict[Type, st.SearchStrategy[Value]] = {
    Type.INTEGER: INTEGERS,
    Type.REAL: REALS,
    Type.TEXT: TEXTS,
    Type.BLOB: BLOBS,
    Type.BOOLEAN: st.booleans(),
    Type.NUMERIC: DECIMALS,
    Type.DATE: st.dates() | FAR_DATES.map(lambda text: Verbatim("date", text)),
    Type.TIME: st.times().map(lambda one: one.replace(fold=0)) | st.just(Verbatim("time", "24:00:00")),
    Type.TIMESTAMP: st.datetimes().map(lambda one: one.replace(fold=0))
    | st.sampled_from(FAR_MOMENTS).map(lambda text: Verbatim("timestamp", text.format(""))),
    Type.TIMESTAMPTZ: st.datetimes(timezones=st.just(UTC)).map(lambda one: one.replace(fold=0))
    | st.sampled_from(FAR_MOMENTS).map(lambda text: Verbatim("timestamptz", text.format("+00"))),
    Type.INTERVAL: INTERVALS
    | st.sampled_from([Interval(1), Interval(0, 30), Interval(), Interval(0, 0, 86_400_000_000)]),
    Type.UUID: st.uuids(),
    Type.JSON: st.sampled_from(["null", "1", '{"a": [1, null]}', '"text"']).map(lambda text: Verbatim("json", text)),
    Type.OTHER: OTHERS,
}
EVERY: st.SearchStrategy[Value] = st.one_of(st.none(), *OF_TYPE.values())
