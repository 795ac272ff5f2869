"""Timeline: the numbers of keys before and after each transaction of a step.

Aggregates and match counts read it to emit what changed with each transaction. It keeps no state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.engine.rows.arrays import Bools, Int64s, firsts
from headwater.model.encoding.keys import Uint64s


@dataclass(frozen=True, slots=True)
class Timeline:
    """One entry for each (key, tx) with an event, by key and then time. `last`: no later one of the key follows."""

    key: Uint64s
    tx: Int64s
    before: Int64s
    after: Int64s
    last: Bools


def timeline(key: Uint64s, tx: Int64s, change: Int64s, initial: Int64s) -> Timeline:
    """`initial[i]` are the numbers that the key of event i had when the step began."""
    order = np.lexsort((tx, key))
    key, tx = key[order], tx[order]
    start = firsts((key, tx))
    change = np.add.reduceat(change[order], start, axis=0)
    initial, key, tx = initial[order][start], key[start], tx[start]
    begin = firsts((key,))
    total = np.cumsum(change, axis=0)
    length = np.diff(np.append(begin, len(key)))
    after = total - np.repeat(total[begin] - change[begin], length, axis=0) + initial
    last = np.zeros(len(key), np.bool_)
    last[begin[1:] - 1] = True
    last[-1:] = True
    return Timeline(key, tx, after - change, after, last)
