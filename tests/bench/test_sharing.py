"""What queries share: one template for many values, one window for equal queries, one question for all who ask it."""

from __future__ import annotations

import pytest

from bench.sharing import extrapolated
from bench.subscribers import KINDS, main


@pytest.mark.parametrize("kind", KINDS)
def test_subscribers_are_measured(kind: str) -> None:
    found = main(kind, 12, "hub", 3, 50)
    assert found["templates"] == (12 if kind == "filters" else 1)
    most = {"requery": 1.0, "asked": 0.5}.get(kind, 0.0)  # of a change: half of them concern one of those who ask
    assert 2 <= found["questions"] <= 12 if kind == "asked" else found["questions"] == 1
    assert min(most, 0.01) <= found["questions_a_change"] <= most
    assert found["strategy"] == ("requery" if most else "incremental")
    assert found["one_ms"] > 0 and found["none_ms"] > 0 and found["one_hub_ms"] > 0


def test_the_pipeline_alone_is_measured() -> None:
    assert main("values", 12, "pipeline", 0, 50)["questions"] == 1


def test_figures_beyond_those_measured_lie_on_a_line() -> None:
    names = ("one_ms", "none_ms", "one_hub_ms", "none_hub_ms")
    same = {"kind": "filters", "strategy": "incremental", "bytes_each": 9, "subscribe_us": 9, "questions_a_change": 0}
    points = [{**same, "count": n, "questions": 1, **dict.fromkeys(names, 3.0 + 2 * n)} for n in (100, 1000)]
    found = extrapolated(points, 10_000)
    assert found["extrapolated"] and [found[name] for name in names] == [20_003.0] * 4
