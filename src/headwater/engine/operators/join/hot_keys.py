"""Hot keys: where both sides of a join change often under one key within a step, the step is split into two halves.

Otherwise every change of one side would be paired with every change of the other, most of which are already undone. By
the operators' contract the halves give the same output as the whole.
"""

from __future__ import annotations

import numpy as np

from headwater.engine.operators.join.sides import KeyedUpdates
from headwater.engine.rows.arrays import at_once
from headwater.engine.rows.batch import Batch

PAIRS_MAX = 1 << 14


def halves(left: KeyedUpdates, right: KeyedUpdates) -> tuple[list[Batch], list[Batch]] | None:
    """The inputs up to a transaction in the middle, and past it; None where one step will do."""
    if len(left.hash) * len(right.hash) <= PAIRS_MAX:
        return None
    if at_once(left.batch.tx, right.batch.tx) or _pairs(left, right) <= PAIRS_MAX:
        return None
    moments = np.unique(np.concatenate((left.batch.tx, right.batch.tx)))
    end = moments[len(moments) // 2]
    batches = (left.batch, right.batch)
    return [each.filter(each.tx < end) for each in batches], [each.filter(each.tx >= end) for each in batches]


def _pairs(left: KeyedUpdates, right: KeyedUpdates) -> int:
    mine, count = np.unique(left.hash, return_counts=True)
    others, other_count = np.unique(right.hash, return_counts=True)
    _, here, there = np.intersect1d(mine, others, assume_unique=True, return_indices=True)
    return int((count[here] * other_count[there]).sum())
