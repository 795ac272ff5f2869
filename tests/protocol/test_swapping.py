"""A swap is said only where it has exactly the effect of the diff."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.emissions.outbox import Outbox
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.requeried.answers import Answers
from headwater.model.emission import Diff, State, Swap, apply
from headwater.protocol.swap import as_swap
from tests.support.fuzz import tries


def moved(before: list[int], after: list[int]) -> tuple[State, Diff | None]:
    """The state of an ordered window before, and the diff that leads to the rows after."""
    outbox = Outbox()
    window = Answers(outbox)
    window.subscribe(1, "t", True)
    emitted = []
    for tx, rows in enumerate((before, after), 1):
        window.answer(1, [(row,) for row in rows], tx, tx)
        taken = outbox.take()
        emitted += read_emissions(taken.index, taken.edits.get("t"), ("v",), lambda tx: tx)
    state = apply(State(), emitted[0])
    diff = emitted[1] if len(emitted) > 1 else None
    assert diff is None or isinstance(diff, Diff)
    return state, diff


@tries(300)
@given(st.permutations(range(6)))
def test_a_swap_has_the_effect_of_its_diff(after: list[int]) -> None:
    state, diff = moved(list(range(6)), after)
    if diff is not None:
        said = as_swap(diff)
        assert [row["v"] for row in apply(state, said).rows] == after
        assert apply(state, said).hashes == apply(state, diff).hashes


def test_neighbours_and_distant_pairs_are_swaps() -> None:
    for after, pairs in (([1, 0, 2, 3], ((0, 1),)), ([3, 1, 2, 0], ((0, 3),))):
        _, diff = moved([0, 1, 2, 3], after)
        assert diff is not None
        said = as_swap(diff)
        assert isinstance(said, Swap) and said.pairs == pairs


def test_a_changed_value_or_a_rotation_stays_a_diff() -> None:
    for after in ([1, 2, 0, 3], [1, 0, 2, 9]):
        _, diff = moved([0, 1, 2, 3], after)
        assert diff is not None and as_swap(diff) is diff
