"""ScanIndex: the rows of a scan by a key, for an operator: an index into the one store of its table, and no rows of its
own.

The store takes a step's rows at the end of the step. Until then the operator sees it as it was, and what it absorbed
itself. Rows have the columns that the scan reads. Of a scan that is held back by demand, the index has the rows that
some subscriber asks for, and follows the demand. It never writes a row to the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Ints, same
from headwater.engine.rows.batch import Batch
from headwater.engine.rows.hashes import row_hash
from headwater.engine.rows.work import Work
from headwater.engine.state import bag
from headwater.engine.state.bag import BagMatches, BagRun, GatheredRows
from headwater.engine.state.table.demanded_index import let_in, let_out
from headwater.engine.state.table.demanded_keys import DemandedKeys
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.table_store import TableStore
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.ir.relation import Demand, Exists, Join, Mark, Relation, Scan, inputs_of

Stores = Mapping[str, TableStore]


@dataclass(slots=True)
class ScanIndex:
    """`table` has the columns as the scan names them; `names` are those of the base table, `source`. `stores` is None
    until the rows that the operator began with are in the store. `step` are the updates since the store was last
    brought up to date, `runs` those of them that were looked up already. `demands` are what the rows are asked for by,
    each with the index that finds its rows."""

    table: Table
    work: Work
    source: str
    names: tuple[str, ...]
    key: IndexKey
    demands: tuple[tuple[DemandedKeys, IndexKey], ...] = ()
    stores: Stores | None = None
    step: list[tuple[Uint64s, Batch, Ints | None]] = field(default_factory=list)
    runs: list[BagRun] = field(default_factory=list)
    schema: pa.Schema = field(init=False)
    _types: list[Type] = field(init=False)

    def __post_init__(self) -> None:
        self.schema = self.table.arrow
        self._types = [column.type for column in self.table.columns]

    @property
    def filled(self) -> bool:
        """Whether it may hold anything."""
        return self.stores is not None or bool(self.step or self.runs)

    def absorb(self, hash: Uint64s, batch: Batch, order: Ints | None = None) -> None:
        """What the store will take at the end of the step."""
        if len(batch):
            self.step.append((hash, batch, order))

    def attach(self, stores: Stores) -> None:
        """The store of the table holds what was absorbed, by this key."""
        self.stores = stores
        self.settle()

    def settle(self) -> None:
        """The store is up to date."""
        self.step.clear()
        self.runs.clear()

    def turn(self, diff: int) -> None:
        """A subscriber came, or left: so did the rows that no other asks for."""
        if self.demands and self.stores is not None:
            store = self.stores[self.source]
            found = [(by, np.array(asked.turned, np.uint64)) for asked, by in self.demands if asked.turned]
            if found:
                (let_in if diff > 0 else let_out)(store, self.key, found)
            self.settle()

    def hashes(self, count: int) -> tuple[Uint64s, Ints | None] | None:
        """The key hashes of a step's rows and what sorts them, where these were all of `count` rows, as they came."""
        if self.runs or len(self.step) != 1 or len(self.step[0][1]) != count:
            return None
        hash, _, order = self.step[0]
        return hash, order

    def probe(self, wanted: Uint64s, order: Ints | None = None) -> BagMatches:
        """The rows under each of these key hashes; one that was taken back may come with weights that cancel."""
        found: list[BagMatches] = []
        if self.stores is not None:
            store = self.stores[self.source]
            found.append(self._gathered(store, *store.probe(self.key, wanted, order, self.work.budget)))
        if self.step or self.runs or not found:
            found.append(bag.probe(self._recent(), wanted, self.schema, self.work.budget, order))
        return self._counted(found)

    def everything(self, count: int) -> BagMatches:
        """All rows, for each of so many queries."""
        found = [bag.everything(self._recent(), count, self.schema, self.work.budget)]
        if self.stores is not None:
            store = self.stores[self.source]
            places = store.indexes[self.key].places.living(store.heap.live) if self.key.asked else store.heap.places
            self.work.budget.charge_pairs(count * len(places))
            query = np.repeat(np.arange(count), len(places))
            found.append(self._gathered(store, query, np.tile(places, count)))
        return self._counted(found)

    def _counted(self, found: Sequence[BagMatches]) -> BagMatches:
        whole = bag.joined(found)
        self.work.gathered += len(whole)
        return whole

    def _recent(self) -> list[BagRun]:
        self.runs += [run for each in self.step if len(run := bag.run_of(*each))]  # what cancels out is no run
        self.step.clear()
        return self.runs

    def _gathered(self, store: TableStore, query: Ints, places: Ints) -> BagMatches:
        columns, count = store.columns(self.names), len(places)
        if not count:
            return bag.probe((), np.zeros(0, np.uint64), self.schema, self.work.budget)
        if self.work.budget.weighs(count):
            self.work.budget.charge_rows(count, *(chunk.rows.select(columns) for chunk in store.heap.chunks[:1]))
        if count <= 2:
            order, found = None, store.heap.rows(places, columns)
        else:
            order, found = store.heap.gather(places, columns)
        query = query if order is None else query[order]
        rows = pa.RecordBatch.from_arrays(found.columns, schema=self.schema)
        id = row_hash(rows, self._types)
        part = GatheredRows(rows), np.arange(count)
        return BagMatches(query, id, same(1, count), same(0, count), [part], self.schema)


@dataclass(slots=True)
class ScanIndexes:
    """Those that the operators of a relation read; `tables` are the base tables as the relation knows them."""

    tables: Mapping[str, Table]
    made: list[ScanIndex] = field(default_factory=list)
    _demanded: list[tuple[Demand, DemandedKeys, ScanIndex]] = field(default_factory=list)

    def note(self, demand: Demand, asked: DemandedKeys, held: ScanIndex) -> None:
        """What comes out of a demand over a scan is in the store too: `held` finds all that goes in."""
        self._demanded.append((demand, asked, held))

    def of(
        self, relation: Relation, table: Table, work: Work, places: Sequence[int], key: IndexKey
    ) -> ScanIndex | None:
        """None where the input is not the scan of a table with a key, of which each row is in the store once, or demand
        over one. `places` are those of the key in the scan; `key` gets their names in the base table."""
        demands: list[tuple[DemandedKeys, IndexKey]] = []
        while isinstance(relation, Demand):
            known = next(((asked, held.key) for each, asked, held in self._demanded if each is relation), None)
            if known is None:
                return None
            demands.insert(0, known)
            relation = relation.input
        if not isinstance(relation, Scan) or not _fits(relation, self.tables):
            return None
        columns = tuple(relation.names[place] for place in places)
        asked = tuple(asked for asked, _ in demands)
        index = IndexKey(columns, key.collations, key.kind, key.null_safe, asked)
        made = ScanIndex(table, work, relation.table, relation.names, index, tuple(demands))
        self.made.append(made)
        return made


def scanned_columns(relation: Relation, tables: Mapping[str, Table]) -> dict[str, set[str]]:
    """The columns of tables that the operators of a relation, as it is written, look up in stores."""
    found: dict[str, set[str]] = defaultdict(set)
    for input in inputs_of(relation):
        if isinstance(input, Scan) and isinstance(relation, Join | Exists | Mark | Demand) and _fits(input, tables):
            found[input.table].update(input.names)
        for table, names in scanned_columns(input, tables).items():
            found[table].update(names)
    return dict(found)


def columns_read(relation: Relation) -> dict[str, set[str]]:
    """The columns of each table that a relation reads."""
    found: dict[str, set[str]] = defaultdict(set)
    if isinstance(relation, Scan):
        found[relation.table].update(relation.names)
    for input in inputs_of(relation):
        for table, names in columns_read(input).items():
            found[table].update(names)
    return dict(found)


def _fits(scan: Scan, tables: Mapping[str, Table]) -> bool:
    """Values are looked up in the store by the types that they have there."""
    table = tables[scan.table]
    pairs = zip(scan.names, scan.columns, strict=True)
    return bool(table.key) and all(table.column(name).type is column.type for name, column in pairs)
