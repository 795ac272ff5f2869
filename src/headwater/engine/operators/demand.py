"""demand: of the rows of its input, those whose key some subscriber asks for.

All rows of the input are found by that key: in the store of the table, or in a bag. Those that were not asked for come
out when the first subscriber asks, and go when the last one leaves. It compares hashes alone (`DemandedKeys`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.engine.rows.arrays import Bools, same
from headwater.engine.rows.batch import Batch, nothing
from headwater.engine.rows.hashes import key_hash
from headwater.engine.rows.work import Work
from headwater.engine.state.bag import Bag
from headwater.engine.state.persistence import State
from headwater.engine.state.shared_contents import contents
from headwater.engine.state.table.demanded_keys import DemandedKeys
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.scan_index import ScanIndex, ScanIndexes
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.model.value import Row, to_array
from headwater.sql.ir.relation import Demand


@dataclass(frozen=True, slots=True)
class DemandChange:
    """At `tx` a subscriber with these values, one for each hole of its template, comes (`diff` 1) or leaves (−1)."""

    values: Row
    tx: int
    diff: int


class DemandOperator:
    def __init__(self, demand: Demand, table: Table, work: Work, scans: ScanIndexes | None = None) -> None:
        self.table = table
        self._holes = demand.holes
        self._places = tuple(table.index(name) for name in demand.columns)
        self._types = [table.columns[place].type for place in self._places]
        self._collations = demand.collations
        self._held = self._holder(demand, work, scans)
        held = self._held if isinstance(self._held, ScanIndex) else None
        self._asked = DemandedKeys(() if held is None else held.key.columns, self._collations)
        if scans is not None and held is not None:
            scans.note(demand, self._asked, held)

    def _holder(self, demand: Demand, work: Work, scans: ScanIndexes | None) -> Bag | ScanIndex:
        """Of the rows of the input by the asked columns."""
        places, collations, safe = self._places, self._collations, (False,) * len(self._places)
        key = IndexKey((), collations, "join", safe)
        index = None if scans is None else scans.of(demand.input, self.table, work, places, key)
        return index or Bag(self.table, work, contents(demand.input, places, collations, safe, null_aware=False))

    def step(self, inputs: list[Batch]) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return nothing(self.table)
        arrays = [batch.rows.column(place) for place in self._places]
        hash = key_hash(arrays, self._types, self._collations, len(batch))
        if any(array.null_count for array in arrays):  # a NULL equals nothing that is asked for
            valid: Bools = np.logical_and.reduce([np.asarray(array.is_valid()) for array in arrays])
            batch, hash = batch.filter(valid), hash[valid]
        self._held.absorb(hash, batch)
        return batch.filter(self._asked.among(hash)) if self._asked.counts else nothing(self.table)

    def demanded(self, changes: Sequence[DemandChange]) -> Batch:
        """The rows that come or go with subscribers: those that no other asks for. All come at one tx, or all go."""
        turned = self.count(changes)
        if not turned:
            return nothing(self.table)
        found = self._held.probe(np.array(turned, np.uint64))
        tx = same(changes[0].tx, len(found))
        return Batch(found.rows(), found.id, tx, found.weight * changes[0].diff).consolidated()

    def count(self, changes: Sequence[DemandChange]) -> list[int]:
        """Notes who asks; the hashes that were asked for by nobody before, or are by nobody now."""
        hashes = [self._hashes(list(self._keys(change.values))).tolist() for change in changes]
        return self._asked.count([hash for each in hashes for hash in dict.fromkeys(each)], changes[0].diff)

    def _keys(self, values: Row) -> Iterator[Row]:
        """What a subscriber asks for here: one key, or one for each value of its list."""
        asked = [values[hole] for hole in self._holes]
        if isinstance(asked[0], tuple) and len(asked) == 1:
            yield from ((each,) for each in asked[0])
        else:
            yield tuple(asked)

    def _hashes(self, keys: Sequence[Row]) -> Uint64s:
        columns = zip(*keys, strict=True)
        arrays = [to_array(list(column), type) for column, type in zip(columns, self._types, strict=True)]
        return key_hash(arrays, self._types, self._collations, len(keys))

    def state(self) -> list[State]:
        return [self._held] if isinstance(self._held, Bag) else []

    def resume(self) -> None:
        """Who asks is counted again as the windows are opened."""
