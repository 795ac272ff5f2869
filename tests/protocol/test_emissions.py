"""Emissions to bytes and back: what the receiver applies is what the sender meant, and no column goes twice."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.emission import Diff, Emission, Result, RowChange, State, Swap, apply
from headwater.model.errors import ProtocolError
from headwater.model.value import Value
from headwater.protocol import emissions
from headwater.protocol.emissions import changed_columns, encode_body, from_message, kind_of, with_id
from headwater.protocol.messages import WireDiff, WireResult, WireSwap, decode_from_server
from tests.support.fuzz import tries
from tests.support.states import COLUMNS, FIELDS, Move, diff, moves, pairs, shown, states

IDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def received(emission: Emission, id: str = "q") -> Emission:
    message = decode_from_server(with_id(kind_of(emission), id, encode_body(emission)))
    assert isinstance(message, WireResult | WireDiff | WireSwap)
    assert message.id == id
    return from_message(message)


@tries(200)
@given(moves(), IDS)
def test_a_diff_received_does_what_the_diff_sent_does(move: Move, id: str) -> None:
    sent = diff(move)
    here, there = apply(move.before, sent), apply(move.before, received(sent, id))
    assert shown(there.rows) == shown(here.rows)
    assert (there.hashes, there.seq, there.gen, there.position) == (here.hashes, here.seq, here.gen, here.position)


@tries(100)
@given(states(), IDS)
def test_a_result_received_is_the_result_sent(state: State, id: str) -> None:
    sent = Result(7, 3, 1, 9, tuple(state.rows), tuple(state.hashes), COLUMNS)
    assert repr(received(sent, id)) == repr(sent)


@tries(50)
@given(states(), st.integers(1, 20))
def test_a_large_result_is_encoded_in_pieces_to_the_same_bytes(state: State, at_once: int) -> None:
    sent = Result(7, 3, 1, 9, tuple(state.rows), tuple(state.hashes), COLUMNS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emissions, "_VALUES_AT_ONCE", 1 << 30)
        whole = encode_body(sent)
        patch.setattr(emissions, "_VALUES_AT_ONCE", at_once)
        assert encode_body(sent) == whole


@pytest.mark.parametrize("pairs", [(), ((0, 1),), ((0, 1), (1, 2))])
def test_a_swap_received_is_the_swap_sent(pairs: tuple[tuple[int, int], ...]) -> None:
    assert received(Swap(7, 3, 1, 9, pairs)) == Swap(7, 3, 1, 9, pairs)


def test_a_result_of_no_columns_keeps_its_rows() -> None:
    assert received(Result(7, 3, 1, 9, ({}, {}), ("a", "b"), ())) == Result(7, 3, 1, 9, ({}, {}), ("a", "b"), ())


@tries(200)
@given(FIELDS, FIELDS, st.booleans())
def test_an_update_carries_the_columns_that_changed_and_no_other(old: Any, new: Any, same_a: bool) -> None:
    """Law 5. 1 and 1.0 are different values to the receiver; NaN is the same as NaN."""
    after = {**new, "a": old["a"]} if same_a else new
    sent = changed_columns(RowChange("update", old, after, "h", "h"))
    assert sent is not None
    assert set(sent) == {name for name in COLUMNS if repr(old[name]) != repr(after[name])}
    assert repr({**old, **sent}) == repr(after)


def test_an_insert_carries_all_columns_and_a_delete_none() -> None:
    row = {"a": 1, "b": None}
    assert changed_columns(RowChange("insert", None, row, None, "h")) == row
    assert changed_columns(RowChange("delete", row, None, "h", None)) is None


def test_a_move_with_nothing_changed_carries_no_column() -> None:
    row: dict[str, Value] = {"a": 1, "b": "x"}
    moved = Diff(2, 1, 0, 5, (RowChange("update", row, row, "h", "h", 0, 1),))
    [change] = json.loads(with_id("diff", "q", encode_body(moved)))["changes"]
    assert change == {"type": "update", "new": {}, "old_hash": "h", "new_hash": "h", "old_index": 1, "index": 0}
    back = received(moved)
    assert isinstance(back, Diff)
    assert back.changes[0].new == {}


@tries(100)
@given(moves())
def test_the_old_row_stays_at_home(move: Move) -> None:
    """The receiver has it; only hashes and places travel."""
    for change in json.loads(with_id("diff", "q", encode_body(diff(move))))["changes"]:
        assert set(change) <= {"type", "new", "old_hash", "new_hash", "old_index", "index"}


@tries(100)
@given(moves(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4))
def test_one_body_serves_every_subscriber(move: Move, other: str) -> None:
    emission = diff(move)
    body = encode_body(emission)
    first, second = (json.loads(with_id("diff", id, body)) for id in ('"id":""', other))
    assert first.pop("id") == '"id":""' and second.pop("id") == other
    assert first == second


def test_text_that_looks_like_an_empty_id_does_not_confuse_the_body() -> None:
    row = {"a": '"id":""', "b": ""}
    emission = Result(1, 0, 0, 1, (row,), ('"id":""',), COLUMNS)
    assert received(emission) == emission
    assert received(replace(emission, columns=('"id":""', "b"), rows=({'"id":""': 1, "b": 2},))).rows[0]["b"] == 2  # type: ignore[union-attr]


@tries(50)
@given(moves())
def test_what_came_over_the_wire_can_be_sent_on(move: Move) -> None:
    """A relay has no old rows: what it was given is already minimal."""
    once = received(diff(move))
    assert encode_body(received(once)) == encode_body(once)
    after = apply(move.before, received(once))
    assert pairs(after.rows, after.hashes) == pairs(move.rows, move.hashes)


@pytest.mark.parametrize(
    "message",
    [
        WireResult("q", 1, 0, 0, 1, [[1, 2], [3]], ["a", "b"], ["x", "y"]),
        WireResult("q", 1, 0, 0, 1, [[1]], ["a", "b"], ["x"]),
        WireResult("q", 1, 0, 0, 1, [[[1]]], ["a"], ["x"]),
    ],
)
def test_a_result_that_does_not_fit_together_is_refused(message: WireResult) -> None:
    with pytest.raises(ProtocolError, match="expected"):
        from_message(message)
