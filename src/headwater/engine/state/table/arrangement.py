"""Arrangement: the rows of a table store by one key, as templates read them: an index, and no rows of its own.

Without key columns it is every row of the store. It never finds a row with a NULL in its key: that matches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools, Ints
from headwater.engine.state.sort_hashes import rising
from headwater.engine.state.table.key_index import IndexKey, KeyIndex
from headwater.engine.state.table.table_store import TableStore
from headwater.model.encoding.keys import Uint64s, hash_encoded
from headwater.model.schema import Table


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows with their identities, in order of identity."""

    id: Uint64s
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Arrangement:
    """`index` is None where there are no keys."""

    store: TableStore
    keys: tuple[str, ...]
    index: KeyIndex | None

    @classmethod
    def of(cls, store: TableStore, keys: tuple[str, ...]) -> Arrangement:
        """By an index that the store has."""
        return cls(store, keys, store.indexes[IndexKey.of(store.table, keys)] if keys else None)

    @property
    def table(self) -> Table:
        return self.store.table

    def encode(self, rows: pa.RecordBatch) -> list[bytes] | None:
        """The encoded key of each row; None where all rows are one bucket."""
        return None if self.index is None else self.index.encode(rows)

    def hash_rows(self, rows: pa.RecordBatch) -> Uint64s:
        """The key hash of each row."""
        return np.broadcast_to(np.uint64(0), rows.num_rows) if self.index is None else self.index.hash_rows(rows)

    def hashes(self, encoded: Sequence[bytes] | None, rows: pa.RecordBatch) -> Uint64s:
        """The key hash of each row, whose keys were encoded already."""
        if self.index is None or encoded is None:
            return np.zeros(rows.num_rows, np.uint64)
        return self.index.hashes(encoded, rows)

    def folded(self, rows: pa.RecordBatch, hash: Uint64s) -> Uint64s:
        """Key hashes with texts folded as NOCASE does; `hash` where that is the same."""
        return hash if self.index is None else self.index.folded(rows, hash)

    def keyed(self, rows: pa.RecordBatch) -> Bools | None:
        """Which rows have no NULL in their key; None where all do."""
        return None if self.index is None else self.index.keyed(rows)

    def hash(self, key: bytes) -> int:
        return hash_encoded(key) if self.keys else 0

    def bucket(self, key: bytes) -> Gathered:
        """All rows of one encoded key."""
        if self.index is None:
            return self._everything()
        places = self.index.places.places(self.hash(key))
        places = places[self.store.heap.live[places]]
        gathered = self._verified(self._at(places), key)
        self.store.work.gathered += len(gathered.id)
        return gathered

    def _at(self, places: Ints) -> Gathered:
        heap = self.store.heap
        if len(places) == 1:
            place = int(places[0])
            return Gathered(np.array([heap.id_at(place)], np.uint64), heap.few([place]))
        id = heap.ids(places)
        order = rising(id)
        return Gathered(id[order], heap.rows(places[order]))

    def _everything(self) -> Gathered:
        id, rows = self.store.heap.all()
        if len(id) > 1 and not (id[1:] > id[:-1]).all():
            order = rising(id)
            id, rows = id[order], rows.take(pa.array(order))
        self.store.work.gathered += len(id)
        return Gathered(id, rows)

    def _verified(self, gathered: Gathered, key: bytes) -> Gathered:
        """Two keys may have one hash."""
        assert self.index is not None
        encoded = self.index.encode(gathered.rows)
        if all(each == key for each in encoded):
            return gathered
        mine = np.array([each == key for each in encoded], np.bool_)
        return Gathered(gathered.id[mine], gathered.rows.filter(pa.array(mine)))

    def find(self, wanted: Sequence[tuple[int, int]]) -> pa.RecordBatch:
        """The row of each (key hash, identity), in that order. All of them must be there."""
        self.store.work.gathered += len(wanted)
        return self.store.find([id for _, id in wanted])

    def all(self) -> Gathered:
        """Every row of the store, in no order that means anything."""
        return Gathered(*self.store.heap.all())
