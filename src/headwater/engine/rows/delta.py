"""Delta: the changes of one table: its columns, `tx` and `diff`.

It never looks at what rows mean: `windows/row_identity.py` identifies rows, `windows/changes.py` pairs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RENAMES = pa.schema([("tx", pa.int64()), ("old_hash", pa.uint64()), ("new_hash", pa.uint64())])


@dataclass(frozen=True, slots=True)
class Delta:
    """`batch`: a table's columns, then `tx` int64 and `diff` int8, `tx` ascending.
    `renames`: (tx, old_hash, new_hash) of rows whose identity changed."""

    batch: pa.RecordBatch
    renames: pa.RecordBatch | None = None

    @property
    def last_tx(self) -> int:
        """0 where nothing happened."""
        tx = self.batch.column(self.batch.num_columns - 2)
        return int(tx[-1].as_py()) if len(tx) else 0


def merge(deltas: Sequence[Delta]) -> Delta:
    """Everything that waits, as one batch by `tx`."""
    if len(deltas) == 1:
        return deltas[0]
    renames = [delta.renames for delta in deltas if delta.renames is not None and delta.renames.num_rows]
    batch = pa.concat_batches([delta.batch for delta in deltas])
    return Delta(_by_tx(batch), pa.concat_batches(renames) if renames else None)


def until(delta: Delta, tx: int) -> Delta:
    """What happened before a transaction."""
    batch, renames = delta.batch, delta.renames
    kept = batch.filter(pc.less(batch.column(batch.num_columns - 2), tx))
    return Delta(kept, None if renames is None else renames.filter(pc.less(renames.column(0), tx)))


def since(delta: Delta, tx: int) -> Delta:
    """What happened in a transaction and after it."""
    batch, renames = delta.batch, delta.renames
    kept = batch.filter(pc.greater_equal(batch.column(batch.num_columns - 2), tx))
    return Delta(kept, None if renames is None else renames.filter(pc.greater_equal(renames.column(0), tx)))


def transactions_in(deltas: Mapping[str, Sequence[Delta]], tables: Iterable[str]) -> int:
    """How many transactions changed some of these tables."""
    batches = [part.batch for name in tables for part in deltas.get(name, ())]
    if sum(batch.num_rows for batch in batches) <= 1:
        return len(batches)
    return len(np.unique(np.concatenate([batch.column(batch.num_columns - 2).to_numpy() for batch in batches])))


def by_transaction(deltas: Mapping[str, Sequence[Delta]]) -> Iterator[dict[str, list[Delta]]]:
    """The same changes, a transaction at a time."""
    merged = {name: merge(parts) for name, parts in deltas.items() if parts}
    times = {name: delta.batch.column(delta.batch.num_columns - 2).to_numpy() for name, delta in merged.items()}
    for tx in sorted({int(at) for each in times.values() for at in np.unique(each)}):
        yield {name: [_only(merged[name], tx)] for name, each in times.items() if (each == tx).any()}


def _only(delta: Delta, tx: int) -> Delta:
    return since(until(delta, tx + 1), tx)


def _by_tx(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sections of several write partitions overlap in time."""
    tx = batch.column(batch.num_columns - 2).to_numpy()
    if (tx[1:] >= tx[:-1]).all():
        return batch
    return batch.take(pa.array(np.argsort(tx, kind="stable")))
