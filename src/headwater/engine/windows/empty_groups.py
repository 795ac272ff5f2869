"""Scalar aggregates of many subscriptions: one group per value that is asked for, and a row even without a group.

A new group was the row of an empty group before, and a group that goes becomes that row again: to the windows a group
only changes. The arrangement holds the groups that exist; the row of an empty group is made when it is needed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.engine.ranges.ranges import Wanted
from headwater.engine.rows.arrays import Bools, Int64s
from headwater.engine.state.sort_hashes import rising
from headwater.engine.state.table.arrangement import Arrangement, Gathered
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.windows.changes import Changes
from headwater.engine.windows.row_identity import key_hashes
from headwater.engine.windows.window import WindowGroup
from headwater.model.schema import Table
from headwater.model.value import Row, to_array
from headwater.plan.template import Template


def padded(changes: Changes, template: Template, table: Table) -> tuple[Changes, Int64s]:
    """The changes with a row on either side, and of each row the one whose key it has: itself, or its other side."""
    came, went = np.flatnonzero(changes.old < 0), np.flatnonzero(changes.new < 0)
    beside = np.concatenate((changes.new[came], changes.old[went]))
    count = changes.rows.num_rows
    key_row = np.concatenate((np.arange(count), beside))
    old, new = changes.old.copy(), changes.new.copy()
    old[came] = count + np.arange(len(came))
    new[went] = count + len(came) + np.arange(len(went))
    rows = pa.concat_batches([changes.rows, _emptied(changes.rows.take(pa.array(beside)), template, table)])
    return replace(changes, rows=rows, id=changes.id[key_row], old=old, new=new), key_row


def _emptied(rows: pa.RecordBatch, template: Template, table: Table) -> pa.RecordBatch:
    """The same keys over nothing."""
    empty = dict(template.empty or ())
    columns = [
        to_array([empty[column.name]] * rows.num_rows, column.type) if column.name in empty else rows.column(n)
        for n, column in enumerate(table.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def bucket(arrangement: Arrangement, template: Template, group: WindowGroup, came: Gathered | None = None) -> Gathered:
    """The rows of a group of subscriptions, read unless all `came` just now; over nothing, the row of nothing."""
    if group.wanted is not None:
        gathered = came or _by_list(arrangement, group.wanted) or arrangement.bucket(group.bucket)
        return _chosen(gathered, group.wanted.mask(gathered.rows, arrangement.table))
    gathered = came or arrangement.bucket(group.bucket)
    if template.empty is None or len(gathered.id):
        return gathered
    return _nothing(arrangement.table, template, group.windows[0].instance.keyed(template))


def _by_list(arrangement: Arrangement, wanted: Wanted) -> Gathered | None:
    """Of a table that is held by the values of a list: the rows of these, found by its index."""
    store, columns = arrangement.store, wanted.columns[:1]
    if arrangement.keys or store.whole or IndexKey.of(store.table, columns) not in store.indexes:
        return None
    listed = Arrangement.of(store, columns)
    found = [listed.bucket(low) for low, _ in wanted.spans[0]]
    id, rows = np.concatenate([one.id for one in found]), pa.concat_batches([one.rows for one in found])
    order = rising(id)
    return Gathered(id[order], rows.take(pa.array(order)))


def _chosen(gathered: Gathered, mask: Bools) -> Gathered:
    return gathered if mask.all() else Gathered(gathered.id[mask], gathered.rows.filter(pa.array(mask)))


def _nothing(table: Table, template: Template, values: Row) -> Gathered:
    known = {**dict(zip(template.keys, values, strict=True)), **dict(template.empty or ())}
    columns = [to_array([known[column.name]], column.type) for column in table.columns]
    rows = pa.RecordBatch.from_arrays(columns, schema=table.arrow)
    return Gathered(key_hashes(table, rows), rows)
