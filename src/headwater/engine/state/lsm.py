"""The merge policy of log-structured state: when runs are merged, and how many at once. It never looks into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

from headwater.engine.rows.work import Work

R = TypeVar("R", bound=Sized)


def push(runs: list[R], run: R, merged: Callable[[Sequence[R]], R], work: Work) -> None:
    """One more run, and the newest of them merged where it is time. What cancels out is gone."""
    runs.append(run)
    if (count := due(runs)) > 1:
        newest = runs[-count:]
        work.rewritten += sum(map(len, newest))
        one = merged(newest)
        runs[-count:] = [one] if len(one) else []


def due(runs: Sequence[Sized]) -> int:
    """How many of the newest runs become one, so that each is at most half of the one before it.

    All in one go: pair by pair a row would be rewritten once for every run it meets on the way.
    """
    count, size = 1, len(runs[-1])
    while count < len(runs) and 2 * size > len(runs[-count - 1]):
        count += 1
        size += len(runs[-count])
    return count
