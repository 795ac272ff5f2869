"""Values on the wire and back: to the bit, and as the vectors shared with the browser say."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.model.errors import ProtocolError
from headwater.model.time.interval import Interval
from headwater.model.value import Value
from headwater.model.verbatim import Verbatim
from headwater.protocol.values import from_wire, row_to_wire, to_wire
from tests.support.fuzz import tries
from tests.support.states import VALUES
from tests.support.values import EVERY

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "values.json").read_text(encoding="utf-8"))
KINDS: dict[str, type] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "real": float,
    "text": str,
    "blob": bytes,
    "decimal": Decimal,
    "date": date,
    "time": time,
    "timestamp": datetime,
    "timestamptz": datetime,
    "interval": Interval,
    "uuid": UUID,
    "json": Verbatim,
    "verbatim": Verbatim,
    "array": tuple,
}


def meaning(value: Value) -> str:
    match value:
        case None:
            return ""
        case bytes():
            return value.hex()
        case float():
            return repr(value)
        case date() | time():
            return value.isoformat()
        case tuple():
            return "|".join(map(meaning, value))
        case _:
            return str(value)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in VECTORS])
def test_the_vectors_mean_here_what_they_mean_in_the_browser(case: dict[str, Any]) -> None:
    value = from_wire(case["wire"])
    assert type(value) is KINDS[case["kind"]]
    assert meaning(value) == case["meaning"]
    assert repr(to_wire(value)) == repr(case["wire"])


@tries(300)
@given(VALUES | EVERY)
@example(2**53)
@example(-(2**53))
@example(-0.0)
@example(math.nan)
def test_a_value_comes_back_to_the_bit(value: Value) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(to_wire(value)))
    back = from_wire(sent)
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    assert repr(row_to_wire([value])) == repr([to_wire(value)])


@tries(200)
@given(VALUES)
def test_no_browser_is_handed_a_number_it_would_round(value: Value) -> None:
    sent = to_wire(value)
    if isinstance(sent, int):
        assert int(float(sent)) == sent and abs(sent) < 2**53
    if isinstance(sent, float):
        assert math.isfinite(sent)


@pytest.mark.parametrize(
    "wire",
    [
        {},
        [],
        [1],
        {"$int": 1},
        {"$int": "1.0"},
        {"$int": " 1"},
        {"$int": "1_0"},
        {"$int": "١"},
        {"$int": ""},
        {"$int": "1" * 5000},
        {"$int": None},
        {"$bytes": "?"},
        {"$bytes": "a"},
        {"$bytes": 1},
        {"$bytes": "é"},
        {"$float": "1"},
        {"$float": []},
        {"$float": "nan", "$int": "1"},
        {"$date": "2000-13-01"},
        {"$date": 1},
        {"$decimal": "1_0"},
        {"$decimal": "1e9"},
        {"$decimal": 1},
        {"$timestamp": "2000-01-01T00:00:00Z"},
        {"$timestamptz": "2000-01-01T00:00:00"},
        {"$interval": "1 fortnight"},
        {"$uuid": "x"},
        {"$uuid": None},
        {"$json": {}},
        {"$verbatim": ["inet"]},
        {"$verbatim": ["inet", 1]},
        {"$array": "ab"},
        {"$array": [[]]},
        {"$unheard": "of"},
    ],
)
def test_what_is_no_value_is_refused_with_what_would_be(wire: Any) -> None:
    with pytest.raises(ProtocolError) as refused:
        from_wire(wire)
    assert "$int" in (refused.value.hint or "")


def test_a_boolean_is_a_boolean() -> None:
    assert [repr(from_wire(value)) for value in (True, False)] == ["True", "False"]


@tries(300)
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(), st.lists, max_leaves=5)
)
def test_any_json_is_a_value_or_a_refusal(wire: Any) -> None:
    try:
        value = from_wire(wire)
    except ProtocolError:
        return
    assert value is None or type(value) in (bool, int, float, str, bytes)
