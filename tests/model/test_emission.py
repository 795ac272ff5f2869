"""`apply` alone, on random states: laws 2 to 6, whatever an emission says. And the vectors shared with the browser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.emission import Diff, Emission, Result, RowChange, State, Swap, apply, apply_all
from headwater.model.errors import Resync
from headwater.protocol.emissions import encode_body, from_message, kind_of, with_id
from headwater.protocol.messages import WireDiff, WireResult, WireSwap, decode_from_server
from headwater.protocol.values import from_wire
from tests.support.fuzz import tries
from tests.support.states import COLUMNS, FIELDS, Move, diff, moves, pairs, shown, states

VECTORS = Path(__file__).parents[1] / "vectors"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(VECTORS.glob("apply*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
]


def frozen(state: State) -> str:
    return repr(state)


@tries(200)
@given(moves(ordered=True), st.booleans())
def test_an_ordered_diff_leads_to_the_list_it_was_made_for(move: Move, partial: bool) -> None:
    after = apply(move.before, diff(move, partial=partial))
    assert shown(after.rows) == shown(move.rows)
    assert list(after.hashes) == list(move.hashes)
    assert (after.seq, after.gen, after.position, after.columns) == (12, 1, 101, COLUMNS)


@tries(200)
@given(moves(ordered=False), st.booleans())
def test_an_unordered_diff_leads_to_the_multiset_it_was_made_for(move: Move, partial: bool) -> None:
    after = apply(move.before, diff(move, partial=partial))
    assert len(after.rows) == len(after.hashes) == len(move.hashes)
    assert pairs(after.rows, after.hashes) == pairs(move.rows, move.hashes)


@tries(100)
@given(moves(), st.randoms(use_true_random=False))
def test_the_order_of_changes_within_an_emission_says_nothing(move: Move, chance: Any) -> None:
    emission = diff(move)
    changes = list(emission.changes)
    chance.shuffle(changes)
    expected, found = apply(move.before, emission), apply(move.before, replace(emission, changes=tuple(changes)))
    assert pairs(found.rows, found.hashes) == pairs(expected.rows, expected.hashes)
    assert not move.ordered or shown(found.rows) == shown(expected.rows)


@tries(300)
@given(st.booleans(), states(), st.lists(states(), max_size=6), st.integers(0, 5))
def test_applying_all_at_once_is_applying_one_after_the_other(
    ordered: bool, first: State, later: list[State], seen: int
) -> None:
    """Whatever leaves and comes back meanwhile, and those that were applied before."""
    state, emissions, expected = first, list[Diff](), [first]
    for seq, after in enumerate(later, first.seq + 1):
        became = {hash: hash for hash in state.hashes if hash in after.hashes}
        emissions.append(diff(Move(state, after.rows, after.hashes, became, ordered), seq=seq))
        state = apply(state, emissions[-1])
        expected.append(state)
    start = expected[min(seen, len(later))]
    assert frozen(apply_all(start, emissions)) == frozen(expected[-1])


@tries(100)
@given(moves())
def test_applying_twice_is_applying_once(move: Move) -> None:
    emission = diff(move)
    once = apply(move.before, emission)
    assert apply(once, emission) is once


@tries(100)
@given(moves(), st.integers(0, 12), st.integers(0, 20))
def test_what_was_seen_before_is_ignored_whatever_it_says(move: Move, seq: int, prev: int) -> None:
    state = apply(move.before, diff(move))
    assert apply(state, replace(diff(move), seq=seq, prev=prev)) is state
    assert apply(state, Swap(seq, prev, 1, 7, ((0, 99),))) is state


@tries(100)
@given(moves(), st.integers(0, 30).filter(lambda prev: prev != 10), st.integers(0, 2))
def test_what_does_not_follow_is_refused_and_harms_nothing(move: Move, prev: int, gen: int) -> None:
    before = frozen(move.before)
    with pytest.raises(Resync, match="expected an emission after seq 10 of generation 1"):
        apply(move.before, replace(diff(move, seq=40), prev=prev))
    with pytest.raises(Resync):
        apply(move.before, replace(diff(move), gen=gen * 2))
    assert frozen(move.before) == before
    assert pairs(*_parts(apply(move.before, diff(move)))) == pairs(move.rows, move.hashes)


@tries(100)
@given(moves(), moves())
def test_a_diff_made_for_another_state_is_refused_or_leaves_a_whole_state(move: Move, other: Move) -> None:
    """It cannot always be told; but rows and hashes stay parallel, no hash is there twice, nothing else is raised."""
    before = frozen(move.before)
    try:
        after = apply(move.before, diff(other))
    except Resync:
        pass
    else:
        assert len(after.rows) == len(after.hashes)
        assert other.ordered or len(set(after.hashes)) == len(after.hashes)
    assert frozen(move.before) == before


@tries(100)
@given(moves())
def test_an_old_state_is_never_changed_in_place(move: Move) -> None:
    before = frozen(move.before)
    rows, hashes = move.before.rows, move.before.hashes
    after = apply(move.before, diff(move, partial=True))
    assert frozen(move.before) == before
    assert after.rows is not rows and after.hashes is not hashes
    kept = frozen(after)
    apply(after, Result(13, 12, 1, 102, (), (), COLUMNS))
    assert frozen(after) == kept


@tries(100)
@given(moves())
def test_a_row_keeps_its_identity_through_updates(move: Move) -> None:
    """Law 4: an update carries the row from one hash to the other, with the columns it does not speak of."""
    after = apply(move.before, diff(move, partial=True))
    rows = pairs(after.rows, after.hashes)
    for new_hash in move.became.values():
        assert rows[new_hash] == repr(dict(move.rows[list(move.hashes).index(new_hash)]))


@tries(100)
@given(states(), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=4))
def test_a_swap_exchanges_pair_after_pair(state: State, places: list[tuple[int, int]]) -> None:
    swap = Swap(12, 10, 1, 101, tuple(places))
    if any(max(pair) >= len(state.rows) for pair in places):
        with pytest.raises(Resync):
            apply(state, swap)
        return
    order = list(range(len(state.rows)))
    for a, b in places:
        order[a], order[b] = order[b], order[a]
    after = apply(state, swap)
    assert shown(after.rows) == shown([state.rows[at] for at in order])
    assert list(after.hashes) == [state.hashes[at] for at in order]


@tries(100)
@given(states(), st.lists(FIELDS, max_size=3), st.integers(0, 20), st.integers(0, 2), st.integers(0, 30))
def test_a_result_replaces_all_but_an_older_one_of_its_generation(
    state: State, rows: list[Any], seq: int, gen: int, prev: int
) -> None:
    hashes = tuple(f"r{n}" for n in range(len(rows)))
    after = apply(state, Result(seq, prev, gen, 5, tuple(rows), hashes, ("x",)))
    if gen == state.gen and seq < state.seq:
        assert after is state
    else:
        assert after == State(rows, list(hashes), ("x",), seq, gen, 5)


@tries(50)
@given(st.lists(moves(), min_size=2, max_size=5), st.data())
def test_a_chain_may_stutter_and_repeat_itself(chain: list[Move], data: st.DataObject) -> None:
    """Law 6 over a whole life: each emission sent again at any later time, the end is the same."""
    state, sent = State(gen=1), list[Emission]()
    for number, move in enumerate(chain, 1):
        hashes = [f"{hash}.{number}" for hash in move.hashes]
        rows = tuple(move.rows)
        step = Move(state, rows, hashes, dict(zip(state.hashes, hashes, strict=False)), move.ordered)
        emission = replace(diff(step, seq=number * 3), prev=state.seq)
        state = apply(state, emission)
        sent.append(emission)
        assert apply(state, data.draw(st.sampled_from(sent))) is state
        assert pairs(state.rows, state.hashes) == pairs(rows, hashes)


BEFORE = State([{"a": 1}, {"a": 2}], ["x", "y"], ("a",), 10, 1, 100)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((RowChange("delete", None, None, "y", None, None, -1),), id="a place before the first"),
        pytest.param((RowChange("insert", None, {"a": 3}, None, "z", 4),), id="a place past the end"),
        pytest.param((RowChange("insert", None, {"a": 3}, None, "z", -1),), id="an insert before the first"),
        pytest.param(
            (RowChange("delete", None, None, "x", None), RowChange("insert", None, {"a": 3}, None, "z", 0)),
            id="one change with a place and one without",
        ),
        pytest.param((RowChange("update", None, {"a": 3}, "x", "x", None, 0),), id="moved out and never in"),
        pytest.param((RowChange("delete", None, None, "x", None),) * 2, id="deleted twice"),
        pytest.param(
            (RowChange("delete", None, None, "x", None), RowChange("update", None, {"a": 3}, "x", "x")),
            id="deleted and updated",
        ),
        pytest.param((RowChange("insert", None, {"a": 3}, None, "y"),), id="a hash that is there already"),
        pytest.param((RowChange("update", None, {"a": 3}, "x", "y"),), id="a rename to a hash that is there already"),
        pytest.param((RowChange("insert", None, {"a": 3}, None, "z"),) * 2, id="one hash inserted twice"),
    ],
)
def test_a_diff_that_cannot_be_meant_is_refused(changes: tuple[RowChange, ...]) -> None:
    before = frozen(BEFORE)
    with pytest.raises(Resync):
        apply(BEFORE, Diff(12, 10, 1, 101, changes))
    assert frozen(BEFORE) == before


@pytest.mark.parametrize("pair", [(0, 2), (2, 0), (-1, 0), (0, -1)])
def test_a_swap_of_places_that_are_not_there_is_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(Resync):
        apply(BEFORE, Swap(12, 10, 1, 101, (pair,)))


@pytest.mark.parametrize("case", CASES)
def test_the_vectors_mean_here_what_they_mean_in_the_browser(case: dict[str, Any]) -> None:
    state = _state(case["state"])
    message = decode_from_server(json.dumps({**case["emission"], "id": "q1"}))
    assert isinstance(message, WireResult | WireDiff | WireSwap)
    emission = from_message(message)
    if case["expected"] == "resync":
        with pytest.raises(Resync):
            apply(state, emission)
    else:
        assert repr(apply(state, emission)) == repr(_state(case["expected"]))
    wire = json.loads(with_id(kind_of(emission), "q1", encode_body(emission)))
    assert wire == {**case["emission"], "id": "q1"}


def _state(case: dict[str, Any]) -> State:
    rows = [{name: from_wire(value) for name, value in row.items()} for row in case["rows"]]
    return State(rows, case["hashes"], tuple(case["columns"]), case["seq"], case["gen"], case["position"])


def _parts(state: State) -> tuple[Any, Any]:
    return state.rows, state.hashes
