"""DemandedKeys: the keys of a table's rows that subscribers ask for, by their hashes, and how many ask for each.

It compares hashes alone: a row that came by a hash in common is asked for by nobody, which is for others to notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools
from headwater.engine.rows.hashes import key_hash
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.model.size import SMALL


@dataclass(slots=True, eq=False)
class DemandedKeys:
    """`columns` are named as in the table. `turned` are the hashes that the last change of demand turned: asked for by
    nobody before, or by nobody since."""

    columns: tuple[str, ...]
    collations: tuple[str, ...]
    counts: Counter[int] = field(default_factory=Counter)
    turned: list[int] = field(default_factory=list)
    _sorted: Uint64s | None = None

    def count(self, hashes: Iterable[int], diff: int) -> list[int]:
        """Notes subscribers that come or leave: the hashes of each, each once."""
        self.turned = []
        for hash in hashes:
            before = self.counts[hash]
            self.counts[hash] = after = before + diff
            if not after:
                del self.counts[hash]
            if not before or not after:
                self.turned.append(hash)
        if self.turned:
            self._sorted = None
        return self.turned

    def among(self, hash: Uint64s) -> Bools:
        """Which of the hashes some subscriber asks for."""
        if not self.counts:
            return np.zeros(len(hash), np.bool_)
        if len(hash) <= SMALL.grouped_rows:
            return np.array([each in self.counts for each in hash.tolist()], np.bool_)
        if self._sorted is None:
            self._sorted = np.sort(np.fromiter(self.counts, np.uint64, len(self.counts)))
        place = np.minimum(np.searchsorted(self._sorted, hash), len(self._sorted) - 1)
        asked: Bools = self._sorted[place] == hash
        return asked

    def of_rows(self, rows: pa.RecordBatch, table: Table) -> Bools:
        """Which of the rows of the table, with these columns at least. A NULL equals nothing that is asked for."""
        if not self.counts:
            return np.zeros(rows.num_rows, np.bool_)
        arrays = [rows.column(table.index(name)) for name in self.columns]
        types = [table.column(name).type for name in self.columns]
        asked = self.among(key_hash(arrays, types, self.collations, rows.num_rows))
        for array in arrays:
            if array.null_count:
                asked &= np.asarray(array.is_valid())
        return asked
