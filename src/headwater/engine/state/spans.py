"""Where hashes are in a sorted array of hashes. It never looks at what they stand for."""

from __future__ import annotations

import numpy as np

from headwater.engine.rows.arrays import Bools, Ints
from headwater.model.budget import Budget
from headwater.model.encoding.keys import Uint64s


def spans(hash: Uint64s, wanted: Uint64s, order: Ints | None = None, budget: Budget | None = None) -> tuple[Ints, Ints]:
    """For each hit the number of the wanted hash, and the place in `hash`. `order` sorts what is wanted, where that is
    known: neighbours are then found near each other. The hits are charged to the budget before they are made."""
    start = _starts(hash, wanted, order)
    query = np.flatnonzero(_is_at(hash, start, wanted))
    several = query[_is_at(hash, start[query] + 1, wanted[query])]
    if not len(several):
        if budget is not None:
            budget.charge_pairs(len(query))
        return query, start[query]
    size = np.zeros(len(wanted), np.intp)
    size[query] = 1
    size[several] = hash.searchsorted(wanted[several], "right") - start[several]
    if budget is not None:
        budget.charge_pairs(int(size.sum()))
    query = np.repeat(np.arange(len(wanted)), size)
    within = np.arange(len(query)) - np.repeat(np.cumsum(size) - size, size)
    return query, start[query] + within


def _starts(hash: Uint64s, wanted: Uint64s, order: Ints | None) -> Ints:
    """Where each wanted hash is, or would be."""
    if order is None:
        return hash.searchsorted(wanted)
    start = np.empty(len(order), np.intp)
    start[order] = hash.searchsorted(wanted[order])
    return start


def _is_at(hash: Uint64s, place: Ints, wanted: Uint64s) -> Bools:
    """Whether the hash at each place is the wanted one. A place may be one behind the last."""
    if not len(hash):
        return np.zeros(len(place), np.bool_)
    found: Bools = (hash[np.minimum(place, len(hash) - 1)] == wanted) & (place < len(hash))
    return found
