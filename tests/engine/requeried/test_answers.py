"""Answers of the origin, one after the other: what is emitted leads from each to the next, and says no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.emissions.codec import decode, encode
from headwater.engine.emissions.outbox import EmissionBatch, Outbox
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.requeried.answers import Answers
from headwater.model.emission import Diff, Result, State, apply
from headwater.model.value import Row
from tests.support.fuzz import tries

VALUES = st.sampled_from([None, 0, 1, 1.0, -0.0, 0.0, "a", "", b"a", 2**60])
ROWS = st.lists(st.tuples(st.integers(0, 4), VALUES), max_size=8)
NAMES = ("id", "v")


def emissions(emitted: EmissionBatch) -> list[Result | Diff]:
    again = decode(encode(emitted))
    return read_emissions(again.index, again.edits.get("t"), NAMES, lambda tx: tx)


def exact(rows: list[Row]) -> list[str]:
    return [repr(dict(zip(NAMES, row, strict=True))) for row in rows]


@tries(200)
@given(st.lists(ROWS, min_size=1, max_size=6), st.booleans(), st.integers(0, 5))
def test_each_answer_follows_from_the_one_before(
    tmp_path_factory: pytest.TempPathFactory, answers: list[list[Row]], ordered: bool, saved_at: int
) -> None:
    outbox = Outbox()
    window = Answers(outbox)
    window.subscribe(7, "t", ordered)
    state, before = State(), None
    for tx, rows in enumerate(answers, 1):
        window.answer(7, rows, tx, tx)
        found = emissions(outbox.take())
        changed = before is None or (
            exact(before) != exact(rows) if ordered else sorted(exact(before)) != sorted(exact(rows))
        )
        assert len(found) == (1 if changed else 0)
        for emission in found:
            state = apply(state, emission)
        shown = [repr(dict(row)) for row in state.rows]
        assert shown == exact(rows) if ordered else sorted(shown) == sorted(exact(rows))
        assert len(set(state.hashes)) == len(state.hashes)
        before = rows
        if tx == saved_at:
            outbox = Outbox()
            directory = tmp_path_factory.mktemp("state")
            window, files = Answers(outbox), window.save(directory)
            window.load(directory, files)


def test_a_changed_row_is_one_update_of_the_changed_column() -> None:
    outbox = Outbox()
    window = Answers(outbox)
    window.subscribe(7, "t", True)
    window.answer(7, [(1, "a"), (2, "b"), (3, "c")], 1, 1)
    outbox.take()
    window.answer(7, [(3, "c"), (1, "a"), (2, "B")], 2, 2)
    (diff,) = emissions(outbox.take())
    assert isinstance(diff, Diff)
    assert [(c.type, c.old_index, c.index, c.new) for c in sorted(diff.changes, key=lambda c: c.index or 0)] == [
        ("update", 2, 0, {"id": 3, "v": "c"}),
        ("update", 1, 2, {"id": 2, "v": "B"}),
    ]


def test_a_late_subscriber_is_shown_the_last_answer_under_its_seq() -> None:
    outbox = Outbox()
    window = Answers(outbox)
    window.subscribe(7, "t", False)
    assert not list(outbox.take().index)
    window.answer(7, [(1, "a")], 5, 5)
    outbox.take()
    window.subscribe(7, "t", False)
    (result,) = emissions(outbox.take())
    assert isinstance(result, Result) and result.seq == 5 and result.rows == ({"id": 1, "v": "a"},)
