"""Where hashes are in a sorted array of hashes. It never looks at what they stand for."""

from __future__ import annotations

import numpy as np

from headwater.engine.rows.arrays import Ints
from headwater.model.budget import Budget
from headwater.model.encoding.keys import Uint64s


def spans(hash: Uint64s, wanted: Uint64s, order: Ints | None = None, budget: Budget | None = None) -> tuple[Ints, Ints]:
    """For each hit the number of the wanted hash, and the place in `hash`. `order` sorts what is wanted, where that is
    known: neighbours are then found near each other. The hits are charged to the budget before they are made."""
    start, end = _bounds(hash, wanted, order)
    size = end - start
    if budget is not None:
        budget.charge_pairs(int(size.sum()))
    if (size == 1).all():
        return np.arange(len(wanted)), start
    query = np.repeat(np.arange(len(wanted)), size)
    within = np.arange(len(query)) - np.repeat(np.cumsum(size) - size, size)
    return query, start[query] + within


def _bounds(hash: Uint64s, wanted: Uint64s, order: Ints | None) -> tuple[Ints, Ints]:
    """Where each wanted hash begins and ends."""
    if order is None:
        return hash.searchsorted(wanted, "left"), hash.searchsorted(wanted, "right")
    in_turn = wanted[order]
    start, end = np.empty(len(order), np.intp), np.empty(len(order), np.intp)
    start[order], end[order] = hash.searchsorted(in_turn, "left"), hash.searchsorted(in_turn, "right")
    return start, end
