"""The gateway's cache of a window: emissions are folded late, and what it shows is what they say."""

from __future__ import annotations

import pytest

from headwater.gateway.hub.history import HistoryBudget
from headwater.gateway.hub.window_cache import Resume, WindowCache
from headwater.model.emission import Diff, Result, RowChange
from headwater.model.errors import Resync

MANY = 1_000


def _opened() -> tuple[WindowCache, HistoryBudget]:
    window, budget = WindowCache(1, 1), HistoryBudget(1 << 20)
    window.ask(0)
    assert window.take(Result(10, 0, 1, 100, ({"n": 0},), ("h0",), ("n",)), MANY, budget)
    return window, budget


def _insert(seq: int, prev: int, hash: str) -> Diff:
    return Diff(seq, prev, 1, 90 + seq, (RowChange("insert", None, {"n": seq}, None, hash),))


def test_a_late_subscriber_gets_the_rows_of_all_emissions() -> None:
    for count in (0, 1, 63, 64, 65, 200):
        window, budget = _opened()
        for n in range(count):
            assert window.take(_insert(11 + n, 10 + n, f"h{n + 1}"), MANY, budget)
        [result] = window.opening(None)
        assert isinstance(result, Result)
        assert result.hashes == tuple(f"h{n}" for n in range(count + 1))
        assert (result.seq, result.position) == (window.seq, window.position) == (10 + count, 100 + count)
        assert len(list(window.opening(Resume(10)))) == count


def test_an_emission_that_does_not_follow_is_refused_at_once() -> None:
    window, budget = _opened()
    with pytest.raises(Resync):
        window.take(_insert(12, 11, "h1"), MANY, budget)
    assert not window.shows


def test_an_emission_of_other_rows_is_refused_when_they_are_asked_for() -> None:
    window, budget = _opened()
    assert window.take(_insert(11, 10, "h0"), MANY, budget)
    with pytest.raises(Resync):
        window.opening(None)
    assert not window.shows
