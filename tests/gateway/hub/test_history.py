"""Law 11 for what clients resume from: one budget for all windows, and the oldest emissions go first."""

from __future__ import annotations

from headwater.gateway.hub.history import History, HistoryBudget, weight_of
from headwater.model.emission import Diff, RowChange, Swap


def diff(seq: int, prev: int, text: str = "") -> Diff:
    return Diff(seq, prev, 0, seq, (RowChange("insert", None, {"a": text}, None, "h"),))


def test_the_oldest_emissions_of_any_window_go_first() -> None:
    one, other = History(), History()
    budget = HistoryBudget(4 * weight_of(diff(1, 0)))
    for seq in range(1, 9):
        history = one if seq % 2 else other
        emission = diff(seq, max(seq - 2, 0))
        history.add(emission, most=100)
        budget.add(history, emission)
        assert budget.bytes_held <= budget.bytes_max
    assert [each.seq for each in one.emissions] == [5, 7]
    assert [each.seq for each in other.emissions] == [6, 8]
    assert one.since(5, 7) == [one.emissions[1]]
    assert one.since(1, 7) is None


def test_a_window_that_is_gone_weighs_nothing() -> None:
    gone, stays = History(), History()
    one = weight_of(diff(1, 0))
    budget = HistoryBudget(10 * one)
    for seq in range(1, 5):
        for history in (gone, stays):
            history.add(diff(seq, seq - 1), 100)
            budget.add(history, diff(seq, seq - 1))
    budget.release(gone)
    assert budget.bytes_held == 4 * one and not gone.emissions
    for seq in range(5, 11):
        stays.add(diff(seq, seq - 1), 100)
        budget.add(stays, diff(seq, seq - 1))
    assert budget.bytes_held == 10 * one and len(stays.emissions) == 10
    stays.add(diff(11, 10), 100)
    budget.add(stays, diff(11, 10))
    assert budget.bytes_held == 10 * one and len(stays.emissions) == 10


def test_a_chain_that_began_anew_is_not_forgotten_for_the_old_ones_sake() -> None:
    history, budget = History(), HistoryBudget(3 * weight_of(diff(1, 0)))
    for emission in (diff(1, 0), diff(2, 1), diff(9, 8), diff(10, 9)):
        history.add(emission, most=100)
        budget.add(history, emission)
    assert [each.seq for each in history.emissions] == [9, 10]


def test_long_values_weigh_more() -> None:
    assert weight_of(diff(1, 0, "x" * 1000)) == weight_of(diff(1, 0)) + 1000
    assert weight_of(Swap(1, 0, 0, 1, ((0, 1),))) < weight_of(diff(1, 0))
