"""Values of every type, into Arrow, packed, and back: to the last digit. Equality and order as PostgreSQL has them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_address, ip_interface
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.model.coalesce import same
from headwater.model.encoding.keys import encode_value
from headwater.model.encoding.python_values import Range, natural
from headwater.model.encoding.tagged_bytes import pack_any, storable, stored, unpack_any
from headwater.model.time.interval import Interval
from headwater.model.value import Type, Value, from_array, to_array, type_of
from headwater.model.verbatim import Verbatim
from tests.support.fuzz import tries
from tests.support.values import DECIMALS, EVERY, INTERVALS, OF_TYPE


@pytest.mark.parametrize("type", list(OF_TYPE))
@tries(60)
@given(data=st.data())
def test_a_column_of_every_type_comes_back_from_arrow(type: Type, data: st.DataObject) -> None:
    values: list[Value] = data.draw(st.lists(st.none() | OF_TYPE[type], max_size=6))
    array = to_array(values, type)
    assert array.type == type.arrow
    assert repr(from_array(array, type)) == repr(values)
    assert {type_of(value) for value in values} <= {type, None}


@tries(300)
@given(EVERY)
def test_a_packed_value_comes_back_alone_and_in_a_row(value: Value) -> None:
    assert repr(unpack_any(pack_any(value))) == repr(value)
    held = msgspec.msgpack.encode(storable([value]))
    assert repr(msgspec.msgpack.decode(held, ext_hook=stored)) == repr([value])


def _sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _rank(value: Decimal) -> tuple[int, Decimal]:
    return (1, Decimal(0)) if value.is_nan() else (0, value)


@tries(400)
@given(DECIMALS, DECIMALS)
@example(Decimal("1.0"), Decimal("1.00"))
@example(Decimal(2**53) + Decimal("0.5"), Decimal(2**53 + 1))
@example(Decimal("0.1"), Decimal.from_float(0.1))
def test_decimals_order_by_their_value_whatever_their_scale(a: Decimal, b: Decimal) -> None:
    assert _sign(encode_value(a), encode_value(b)) == _sign(_rank(a), _rank(b))
    assert _sign(encode_value(a, descending=True), encode_value(b, descending=True)) == -_sign(_rank(a), _rank(b))


@tries(300)
@given(DECIMALS, OF_TYPE[Type.INTEGER] | OF_TYPE[Type.REAL])
def test_decimals_order_among_other_numbers(a: Decimal, b: Any) -> None:
    assert _sign(encode_value(a), encode_value(b)) == _sign(_rank(a), _rank(Decimal(b)))


@tries(200)
@given(INTERVALS, INTERVALS)
@example(Interval(1), Interval(0, 30))
@example(Interval(0, 1), Interval(0, 0, 86_400_000_000))
def test_intervals_order_by_their_measure(a: Interval, b: Interval) -> None:
    assert _sign(encode_value(a), encode_value(b)) == _sign(a.measure_us, b.measure_us)


@tries(200)
@given(INTERVALS)
def test_an_interval_reads_as_it_is_written(interval: Interval) -> None:
    assert Interval.parse(str(interval)) == interval


def test_moments_that_python_does_not_reach_are_in_order_with_those_it_does() -> None:
    days: list[str | date] = [
        "-infinity",
        "0044-03-15 BC",
        date(1, 1, 1),
        date(9999, 12, 31),
        "10000-01-01",
        "infinity",
    ]
    values = [day if isinstance(day, date) else Verbatim("date", day) for day in days]
    encoded = [encode_value(value) for value in values]
    assert encoded == sorted(encoded)
    times: list[str | datetime] = [
        "-infinity",
        "0044-03-15 12:00:00 BC",
        datetime.min,
        datetime.max,
        "10000-01-01 00:00:00",
        "infinity",
    ]
    encoded = [encode_value(one if isinstance(one, datetime) else Verbatim("timestamp", one)) for one in times]
    assert encoded == sorted(encoded)


def test_equal_is_not_the_same() -> None:
    pairs: list[tuple[Value, Value]] = [(Decimal("1.0"), Decimal("1.00")), (Interval(1), Interval(0, 30)), (0.0, -0.0)]
    for a, b in pairs:
        assert encode_value(a) == encode_value(b)
        assert not same((a,), (b,))
    assert same((Decimal("NaN"),), (Decimal("NaN"),))


def test_python_programs_get_what_python_has() -> None:
    assert natural(Verbatim("json", '{"a": [1, null]}')) == {"a": [1, None]}
    assert natural((1, None, (Decimal("1.0"),))) == [1, None, [Decimal("1.0")]]
    assert natural(Verbatim("inet", "10.0.0.1")) == ip_address("10.0.0.1")
    assert natural(Verbatim("inet", "10.0.0.1/8")) == ip_interface("10.0.0.1/8")
    assert natural(Verbatim("int4range", "[1,5)")) == Range(1, 5, "[)")
    assert natural(Verbatim("tsrange", '("2024-01-01 00:00:00",]')) == Range(datetime(2024, 1, 1), None, "(]")
    assert natural(Verbatim("int8range", "empty")) == Range()
    assert natural(Verbatim("point", "(1,2)")) == "(1,2)"
    assert Interval(13, 2, 3_000_000).timedelta == timedelta(days=365 + 30 + 2, seconds=3)
