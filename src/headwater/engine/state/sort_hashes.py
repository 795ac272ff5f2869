"""The order in which hashes rise; equal ones stay as they came.

Hashes are spread evenly, so that their upper half nearly always decides, and two passes by sixteen bits each are faster
than comparing. It does not rely on that: what the upper half leaves out of order is sorted afterwards.
"""

from __future__ import annotations

import numpy as np

from headwater.engine.rows.arrays import Ints
from headwater.model.encoding.keys import Uint64s
from headwater.model.size import SMALL

_WRONG_SHARE = 1000  # one in so many out of order, and it is not worth putting right


def rising(hash: Uint64s) -> Ints:
    if len(hash) <= SMALL.sorted_hashes:
        return np.argsort(hash, kind="stable")
    order = np.argsort((hash >> np.uint64(32)).astype(np.uint16), kind="stable")
    order = order[np.argsort((hash >> np.uint64(48)).astype(np.uint16)[order], kind="stable")]
    found = hash[order]
    wrong = np.flatnonzero(found[1:] < found[:-1])
    if len(wrong) * _WRONG_SHARE > len(hash):
        return np.argsort(hash, kind="stable")
    _put_right(order, hash, found >> np.uint64(32), wrong)
    return order


def rising_by(hash: Uint64s, id: Uint64s) -> Ints:
    """By the first, then by the second."""
    if len(hash) <= SMALL.sorted_hashes:
        return np.lexsort((id, hash))
    order = rising(id)
    return order[rising(hash[order])]


def _put_right(order: Ints, hash: Uint64s, upper: Uint64s, wrong: Ints) -> None:
    """Sorts those among equal upper halves that are out of order."""
    for half in np.unique(upper[wrong]):
        start, end = upper.searchsorted(half, "left"), upper.searchsorted(half, "right")
        some = order[start:end]
        order[start:end] = some[np.argsort(hash[some], kind="stable")]
