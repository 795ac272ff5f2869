"""TableStore: a table or relation held once. Its rows are in a heap; whatever finds them by other columns is an index
into it.

A row is known by its identity; the last that came under an identity holds. A step's rows are absorbed together, at its
end. It never decides which rows belong here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Bools, Ints
from headwater.engine.rows.work import Work
from headwater.engine.state.sort_hashes import rising
from headwater.engine.state.table.heap import Heap
from headwater.engine.state.table.key_index import IndexKey, KeyIndex
from headwater.engine.state.table.place_index import PlaceIndex, PlaceRun
from headwater.model.budget import Budget
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.model.size import SMALL


@dataclass(frozen=True, slots=True)
class Indexed:
    """For an index, the key hash of each row of a batch, and which of them it takes: None for all."""

    hash: Uint64s
    mine: Bools | None


@dataclass(slots=True)
class TableStore:
    """`whole`: every row of the table is here, so that an index by any key can be built from it. Otherwise only rows
    that an index takes are here. `shown`: identities are those that clients see; otherwise only operators read it."""

    table: Table
    work: Work
    run_rows_min: int
    whole: bool = True
    shown: bool = True
    indexes: dict[IndexKey, KeyIndex] = field(default_factory=dict)
    heap: Heap = field(init=False)
    identity: PlaceIndex = field(init=False)

    def __post_init__(self) -> None:
        self.heap = Heap(self.table, self.work, self.run_rows_min)
        self.identity = PlaceIndex(self.work, self.run_rows_min)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.heap)

    def absorb(
        self,
        id: Uint64s,
        live: Bools,
        rows: pa.RecordBatch,
        indexed: Mapping[IndexKey, Indexed],
        place: Ints | None = None,
    ) -> None:
        """Entries in the order they happened: rows that come, or go where not `live`. Entry i is row `place[i]`, or
        row i. `indexed` is of the rows, for every index."""
        if self._begins(id, live, rows, indexed, place):
            return
        place = np.arange(len(id)) if place is None else place
        if not self.whole:
            taken = _taken(indexed.values(), rows.num_rows)
            live = live & taken[place]
        if len(id) >= self.run_rows_min:
            self._absorb_many(id, live, rows, indexed, place)
        else:
            self._absorb_few(id, live, rows, indexed, place)
        self._tidy()

    def _absorb_few(
        self, id: Uint64s, live: Bools, rows: pa.RecordBatch, indexed: Mapping[IndexKey, Indexed], place: Ints
    ) -> None:
        ids = id.tolist()
        current = self._found(ids) if len(ids) <= SMALL.found_rows else self._looked_up(id)
        takers = [
            (self.indexes[key], one.hash.tolist(), None if one.mine is None else one.mine.tolist())
            for key, one in indexed.items()
        ]
        for who, comes, at in zip(ids, live.tolist(), place.tolist(), strict=True):
            old = current.pop(who, None)
            if old is not None:
                self.heap.remove(old)
            if not comes:
                continue
            new = current[who] = self.heap.append(rows, at, who)
            self.identity.add(who, new)
            for index, hash, mine in takers:
                if mine is None or mine[at]:
                    index.places.add(hash[at], new)

    def _absorb_many(
        self, id: Uint64s, live: Bools, rows: pa.RecordBatch, indexed: Mapping[IndexKey, Indexed], place: Ints
    ) -> None:
        order = rising(id)  # stable: time decides between equals
        last = np.ones(len(order), np.bool_)
        last[:-1] = id[order[1:]] != id[order[:-1]]
        order = order[last]
        if self.heap.size:
            _, at = self.identity.probe(id[order])
            self.heap.remove_all(at[self.heap.live[at]])
        order = order[live[order]]
        if not len(order):
            return
        if not self.heap.size and indexed:  # what one key finds lies together, at least of the first index
            order = order[rising(next(iter(indexed.values())).hash[place[order]])]
        picked = place[order]
        places = self.heap.extend(rows.take(pa.array(picked)), id[order])
        self.identity.extend(id[order], places, self.heap.live)
        for key, one in indexed.items():
            self._index(self.indexes[key], one.hash[picked], None if one.mine is None else one.mine[picked], places)

    def _begins(
        self,
        id: Uint64s,
        live: Bools,
        rows: pa.RecordBatch,
        indexed: Mapping[IndexKey, Indexed],
        place: Ints | None,
    ) -> bool:
        """The first rows, each once, that no index puts in an order: they stay as they came."""
        if self.heap.size or indexed or place is not None or len(id) < self.run_rows_min or not live.all():
            return False
        order = rising(id)
        sorted = id[order]
        if (sorted[1:] == sorted[:-1]).any():
            return False
        self.heap.extend(rows, id)
        self.identity.runs.append(PlaceRun(sorted, order.astype(np.uint32)))
        return True

    def _index(self, index: KeyIndex, hash: Uint64s, mine: Bools | None, places: Ints) -> None:
        if mine is not None:
            hash, places = hash[mine], places[mine]
        index.places.extend(hash, places, self.heap.live)

    def _tidy(self) -> None:
        """Recent rows become a chunk when there are enough; so do recent entries a run; and what is gone goes."""
        heap = self.heap
        if heap.full:
            heap.settle()
        for index in self._place_indexes():
            if index.full:
                index.settle(heap.live)
        if heap.gone > len(heap) and heap.gone >= self.run_rows_min:
            self.vacuum()

    def vacuum(self) -> None:
        """Leaves out the rows that are gone."""
        live, target = self.heap.vacuum()
        for index in self._place_indexes():
            index.remap(live, target)

    def _place_indexes(self) -> list[PlaceIndex]:
        return [self.identity, *(index.places for index in self.indexes.values())]

    def settle(self) -> None:
        """Everything recent becomes chunks and runs."""
        self.heap.settle()
        self.heap.note_deaths()
        for index in self._place_indexes():
            index.settle(self.heap.live)

    def place_of(self, id: int) -> int | None:
        """Where the row with this identity is."""
        return self.identity.place(id, self.heap.live)

    def _found(self, ids: Sequence[int]) -> dict[int, int]:
        found = ((id, self.place_of(id)) for id in set(ids))
        return {id: place for id, place in found if place is not None}

    def _looked_up(self, id: Uint64s) -> dict[int, int]:
        query, places = self.identity.probe(id)
        live = self.heap.live[places]
        return dict(zip(id[query[live]].tolist(), places[live].tolist(), strict=True))

    def find(self, ids: Sequence[int]) -> pa.RecordBatch:
        """The row of each identity, in that order. All of them must be there."""
        if len(ids) > SMALL.found_rows:
            found = self._looked_up(np.array(ids, np.uint64))
            return self.heap.rows(np.array([found[id] for id in ids], np.intp))
        places = [self.place_of(id) for id in ids]
        if None in places:
            raise KeyError(f"no row {ids[places.index(None)]:016x} in {self.table.name}")
        return self.heap.few([place for place in places if place is not None])

    def new_index(self, key: IndexKey) -> KeyIndex:
        """One that finds nothing yet."""
        return KeyIndex(key, self.table, PlaceIndex(self.work, self.run_rows_min))

    def fill(self, key: IndexKey, indexed: Indexed) -> None:
        """An index that found nothing yet finds the rows that are here. `indexed` is of these, by place."""
        self._index(self.indexes[key], indexed.hash, indexed.mine, self.heap.places)

    def build_sorted(self, key: IndexKey, hash: Uint64s, order: Ints | None) -> None:
        """An index of all rows, whose key hashes are known by place; `order` sorts these, where it is known too."""
        order = rising(hash) if order is None else order
        index = self.indexes[key] = self.new_index(key)
        index.places.runs.append(PlaceRun(hash[order], order.astype(np.uint32)))

    def build(self, key: IndexKey) -> KeyIndex:
        """An index of all rows that are here and have no NULL in their key."""
        index = self.indexes[key] = self.new_index(key)
        if any(not each.counts for each in key.asked):
            return index  # nobody asks for a row
        rows = self.heap.all()[1]
        self.fill(key, Indexed(index.hash_rows(rows), index.keyed(rows)))
        return index

    def probe(
        self, key: IndexKey, wanted: Uint64s, order: Ints | None = None, budget: Budget | None = None
    ) -> tuple[Ints, Ints]:
        """For each row under a wanted key hash: the number of that hash, and the row's place in the heap."""
        query, places = self.indexes[key].places.probe(wanted, order, budget)
        live = self.heap.live[places]
        return (query, places) if live.all() else (query[live], places[live])

    def columns(self, names: Sequence[str]) -> list[int]:
        """Where these are in a row."""
        known = self.table.names
        return [known.index(name) for name in names]

    def define(self, table: Table) -> None:
        """The table's new schema, or fewer of its columns, for rows held already. Keys and identities do not change."""
        self.heap.define(table)
        self._named(table)

    def widen(self, table: Table, other: TableStore) -> None:
        """Columns that only the other store has, of the same rows."""
        self.vacuum()
        id, rows = self.heap.all()
        query, at = other.identity.probe(id)
        there = other.heap.live[at]
        source = np.zeros(len(id), np.intp)
        source[query[there]] = at[there]
        if int(there.sum()) != len(id):
            raise ValueError(f"{int(there.sum())} of the {len(id)} rows of {table.name} have the further columns")
        mine, more = self.table.names, [name for name in table.names if name not in self.table.names]
        found = dict(zip(mine, rows.columns, strict=True))
        if len(id):
            found.update(zip(more, other.heap.rows(source, other.columns(more)).columns, strict=True))
            rows = pa.RecordBatch.from_arrays([found[name] for name in table.names], schema=table.arrow)
        self.heap.replace(rows, table)
        self._named(table)

    def _named(self, table: Table) -> None:
        self.table = table
        for index in self.indexes.values():
            index.table = table


def _taken(indexed: Iterable[Indexed], count: int) -> Bools:
    """Which of so many rows an index takes."""
    taken = np.zeros(count, np.bool_)
    for one in indexed:
        taken |= True if one.mine is None else one.mine
    return taken


def narrowed(table: Table, names: Collection[str]) -> Table:
    """The table with some of its columns, and its key if that is among them."""
    columns = tuple(column for column in table.columns if column.name in names)
    if len(columns) == len(table.columns):
        return table
    return replace(table, columns=columns, key=table.key if set(table.key) <= set(names) else ())
