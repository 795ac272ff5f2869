"""A step's changes as each of several groups sees them, where a row belongs to more than one.

A row is copied for each of its groups, as a number: it was projected once. A change from one row to another within a
group stays one change there; for a group that has only one of the two rows, that row came or went. Afterwards every row
has one group. It never looks at a value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headwater.engine.rows.arrays import Int64s
from headwater.engine.windows.changes import ABSENT, Changes
from headwater.engine.windows.template_program import Projection


def spread(changes: Changes, seen: Projection, row: Int64s, group: Int64s) -> tuple[Changes, Projection]:
    """Copy `i` is row `row[i]` in group `group[i]`. The rows themselves stay behind: there are no copies of them."""
    change, came = changes.of_rows()
    order = np.lexsort((came[row], group, change[row]))
    order = order[change[row[order]] != ABSENT]
    place, number = change[row[order]], group[order]
    second = np.zeros(len(order), np.bool_)
    second[1:] = (place[1:] == place[:-1]) & (number[1:] == number[:-1])
    first = np.flatnonzero(~second)
    new = np.where(came[row[order]], order, ABSENT)[first]
    paired = np.flatnonzero(second)
    new[np.searchsorted(first, paired) - 1] = order[paired]
    old = np.where(came[row[order]], ABSENT, order)[first]
    nothing = changes.rows.slice(0, 0)
    copied = replace(changes, rows=nothing, id=changes.id[row], old=old, new=new, tx=changes.tx[place[first]])
    return copied, _copied(seen, row)


def _copied(seen: Projection, row: Int64s) -> Projection:
    failed = seen.failed
    again = {copy: failed[one] for copy, one in enumerate(row.tolist()) if one in failed} if failed else {}
    return Projection(seen.place[row], seen.pool, seen.keys, again)
