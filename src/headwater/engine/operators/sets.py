"""Sets: DISTINCT, and UNION, INTERSECT, EXCEPT with and without ALL.

The count of a row in the result follows from its counts in the inputs. Rows are equal where their values are equal
under their columns' collations. Where equal values can look different ('a' and 'A' under NOCASE, 1 and 1.0), the result
shows the row of the left input with the smallest row hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.engine.operators.stateless import UnionAllOperator
from headwater.engine.operators.timeline import timeline
from headwater.engine.rows.arrays import Int64s
from headwater.engine.rows.batch import Batch, identified, nothing, table_of, together
from headwater.engine.rows.hashes import key_hash
from headwater.engine.rows.work import Work
from headwater.engine.state.bag import Bag
from headwater.engine.state.persistence import State
from headwater.engine.state.tally import Tally
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.model.value import ALIKE, Type
from headwater.sql.ir.relation import SetOperation

Times = Callable[[Int64s], Int64s]  # counts of each input (n × inputs) → times in the result


def _distinct(counts: Int64s) -> Int64s:
    some: Int64s = (counts.sum(axis=1) > 0).astype(np.int64)
    return some


_TIMES: dict[tuple[str, bool], Times] = {
    ("union", False): _distinct,
    ("intersect", False): lambda counts: (counts.min(axis=1) > 0).astype(np.int64),
    ("except", False): lambda counts: ((counts[:, 0] > 0) & (counts[:, 1] <= 0)).astype(np.int64),
    ("intersect", True): lambda counts: counts.min(axis=1),
    ("except", True): lambda counts: np.maximum(counts[:, 0] - counts[:, 1], 0),
}


def distinct(table: Table, work: Work) -> SetsOperator:
    return SetsOperator(table, [table], _distinct, work)


def set_operator(operation: SetOperation, left: Table, right: Table, work: Work) -> SetsOperator | UnionAllOperator:
    table = table_of(operation.columns)
    if operation.kind == "union" and operation.all:
        return UnionAllOperator(table, [left, right])
    return SetsOperator(table, [left, right], _TIMES[operation.kind, operation.all], work)


class SetsOperator:
    def __init__(self, table: Table, inputs: list[Table], times: Times, work: Work) -> None:
        self.table = table
        self._times = times
        self._renamer = UnionAllOperator(table, inputs)
        self._plain = all(_plain(column.type, column.collation) for column in table.columns)
        self._tally = Tally(len(inputs), work)
        self._bags = [Bag(table, work) for _ in inputs]

    def step(self, inputs: list[Batch]) -> Batch:
        batches = self._renamer.renamed(inputs)
        if not any(map(len, batches)):
            return nothing(self.table)
        keys = [self._keys(batch) for batch in batches]
        out = self._counted(batches, keys) if self._plain else self._chosen(batches, keys)
        return out.consolidated()

    def _keys(self, batch: Batch) -> Uint64s:
        columns = self.table.columns
        return key_hash(batch.rows.columns, [c.type for c in columns], [c.collation for c in columns], len(batch))

    def _counted(self, batches: list[Batch], keys: list[Uint64s]) -> Batch:
        """Equal rows look alike: any of them may stand for all."""
        whole, key = together(batches, self.table), np.concatenate(keys)
        change = np.zeros((len(key), len(batches)), np.int64)
        change[np.arange(len(key)), np.repeat(np.arange(len(batches)), list(map(len, batches)))] = whole.diff
        line = timeline(key, whole.tx, change, self._tally.get(key))
        self._tally.add(key, change)
        diff = self._times(line.after) - self._times(line.before)
        moved = np.flatnonzero(diff)
        known, place = np.unique(key, return_index=True)
        rows = whole.rows.take(pa.array(place[np.searchsorted(known, line.key[moved])]))
        return Batch(rows, line.key[moved], line.tx[moved], diff[moved])

    def _chosen(self, batches: list[Batch], keys: list[Uint64s]) -> Batch:
        touched = np.unique(np.concatenate(keys))
        found = [bag.probe(touched) for bag in self._bags]
        pool = pa.concat_batches([*(batch.rows for batch in batches), *(each.rows() for each in found)])
        place_of = dict(zip(np.concatenate([*(b.id for b in batches), *(f.id for f in found)]).tolist(),
                            range(pool.num_rows), strict=True))  # fmt: skip
        equals = {key: _Equals([{} for _ in batches], self._times) for key in touched.tolist()}
        for side, each in enumerate(found):
            for key, id, weight in zip(
                touched[each.query].tolist(), each.id.tolist(), each.weight.tolist(), strict=True
            ):
                equals[key].add(side, id, weight)
        events = [
            (tx, key, side, id, diff)
            for side, (batch, key_of) in enumerate(zip(batches, keys, strict=True))
            for tx, key, id, diff in zip(*(a.tolist() for a in (batch.tx, key_of, batch.id, batch.diff)), strict=True)
        ]
        for bag, batch, key_of in zip(self._bags, batches, keys, strict=True):
            bag.absorb(key_of, batch)
        out = [(place_of[id], tx, diff) for tx, id, diff in _replayed(equals, sorted(events))]
        places, txs, diffs = np.array(out, np.int64).reshape(-1, 3).T
        return identified(pool.take(pa.array(places)), self.table, txs, diffs)

    def state(self) -> list[State]:
        return [self._tally, *self._bags]

    def resume(self) -> None:
        """All state is in bags and tallies."""


@dataclass(slots=True)
class _Equals:
    """Rows that are equal and may look different: how often each is in each input."""

    counts: list[dict[int, int]]
    times: Times
    shown: tuple[int, int] = field(default=(0, 0))

    def add(self, side: int, id: int, weight: int) -> None:
        self.counts[side][id] = self.counts[side].get(id, 0) + weight

    def now(self) -> tuple[int, int]:
        """The row shown, and how often; a row that is not there is 0."""
        times = int(self.times(np.array([[sum(each.values()) for each in self.counts]], np.int64))[0])
        if not times:
            return (0, 0)
        return next(min(there) for each in self.counts if (there := [id for id, n in each.items() if n])), times


def _replayed(
    equals: dict[int, _Equals], events: list[tuple[int, int, int, int, int]]
) -> Iterator[tuple[int, int, int]]:
    """(tx, id, diff) of the rows shown, one transaction after the other."""
    for each in equals.values():
        each.shown = each.now()
    at = 0
    while at < len(events):
        tx, key = events[at][:2]
        while at < len(events) and events[at][:2] == (tx, key):
            equals[key].add(*events[at][2:])
            at += 1
        was, now = equals[key].shown, equals[key].now()
        if was != now:
            yield from ((tx, id, diff) for id, diff in ((was[0], -was[1]), (now[0], now[1])) if diff)
            equals[key].shown = now


def _plain(type: Type, collation: str) -> bool:
    plain = type in ALIKE or type in (Type.INTEGER, Type.REAL, Type.BLOB)
    return plain or (type is Type.TEXT and collation == "BINARY")
