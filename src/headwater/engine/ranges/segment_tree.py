"""SegmentTree: which ranges contain a point, for many points and many ranges at once.

The tree is in arrays. The ends of all ranges cut the line into pieces. A range is stored at the few nodes of the tree
that cover it exactly; a point is contained in the ranges stored on the way from its piece to the root: about log n
nodes, however many ranges there are. Long ends are cut short, so that a range may be found that ends just before the
point; none is ever missed. It never changes once built.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headwater.engine.ranges.ranges import Span
from headwater.engine.rows.arrays import Int64s

NOTHING = np.zeros(0, np.int64)
_BYTES_MAX = 64


class SegmentTree:
    """`exact`: no span is found that the point is not in."""

    def __init__(self, spans: Sequence[Span]) -> None:
        longest = max(len(end) for span in spans for end in span)
        self.exact = longest <= _BYTES_MAX
        self._width = min(longest, _BYTES_MAX)
        low, high = (self._cut(ends) for ends in zip(*spans, strict=True))
        self._ends = np.unique(np.concatenate((low, high)))
        self._size = 1 << (len(self._ends) + 1).bit_length()
        self._ways = np.arange(self._size.bit_length())
        first = np.searchsorted(self._ends, low) + 1
        past = np.searchsorted(self._ends, high) + 1
        past += np.array([len(end) > _BYTES_MAX for _, end in spans], np.int64)
        self._file(first, past)

    def _cut(self, ends: Sequence[bytes]) -> npt.NDArray[np.bytes_]:
        return np.array(ends, f"S{self._width}")

    def _file(self, first: Int64s, past: Int64s) -> None:
        nodes, spans = [NOTHING], [NOTHING]
        span = np.flatnonzero(first < past)
        low, high = first[span] + self._size, past[span] + self._size
        while len(span):
            left, right = (low & 1) == 1, (high & 1) == 1
            nodes += [low[left], high[right] - 1]
            spans += [span[left], span[right]]
            low, high = (low + left) >> 1, (high - right) >> 1
            open = low < high
            low, high, span = low[open], high[open], span[open]
        node = np.concatenate(nodes)
        order = np.argsort(node, kind="stable")
        self._span = np.concatenate(spans)[order]
        self._start = np.searchsorted(node[order], np.arange(2 * self._size + 1))

    def find(self, points: Sequence[bytes]) -> tuple[Int64s, Int64s]:
        """Pairs of a point and a span it lies in, by point."""
        piece = np.searchsorted(self._ends, self._cut(points), side="right") + self._size
        node = (piece[:, None] >> self._ways).reshape(-1)
        start = self._start[node]
        count = self._start[node + 1] - start
        point = np.repeat(np.repeat(np.arange(len(points)), len(self._ways)), count)
        base = np.repeat(start - (np.cumsum(count) - count), count)
        return point, self._span[base + np.arange(len(base))]
