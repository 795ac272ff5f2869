"""When runs are merged, and how many at once. It never looks into them."""

from __future__ import annotations

from collections.abc import Sequence, Sized


def due(runs: Sequence[Sized]) -> int:
    """How many of the newest runs become one, so that each is at most half of the one before it.

    All in one go: pair by pair a row would be rewritten once for every run it meets on the way.
    """
    count, size = 1, len(runs[-1])
    while count < len(runs) and 2 * size > len(runs[-count - 1]):
        count += 1
        size += len(runs[-count])
    return count
