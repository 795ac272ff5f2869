"""Derived: a relation over base tables that behaves like a base table: a schema, its rows, and a delta for each step.

What is built on it (instances, windows, order and limit, edits) need not know that it was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from headwater.engine.operators.compile import StepInput, Updates, base_tables, compiled
from headwater.engine.operators.demand import DemandChange, DemandOperator
from headwater.engine.operators.failures import Failure, FailureChange, Failures
from headwater.engine.operators.group.group import FIRST_TX
from headwater.engine.operators.identity_columns import identity_of
from headwater.engine.operators.join.estimated_joins import Misestimate, estimated_joins, furthest
from headwater.engine.operators.lineage import joined_lineages, lineage_of
from headwater.engine.operators.output import Renames, Root
from headwater.engine.rows.arrays import Int64s, same
from headwater.engine.rows.batch import Batch, table_of
from headwater.engine.rows.conform import TableSchema, conform
from headwater.engine.rows.delta import Delta, merge
from headwater.engine.rows.work import Work
from headwater.engine.state import persistence
from headwater.engine.state.bag import Bag
from headwater.engine.state.persistence import State
from headwater.engine.state.spill import Inside
from headwater.engine.state.table.scan_index import ScanIndex, ScanIndexes, Stores, scanned_columns
from headwater.fs.sync import sync
from headwater.model.budget import Budget
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.plan.demand import demands_of
from headwater.plan.join_order.order import JoinOrder, estimates, reordered
from headwater.sql.ir.relation import Relation, columns_of


class _RelationDocument(msgspec.Struct):
    states: list[list[str]]
    failures: list[tuple[str, list[bytes | None], int]]
    order: JoinOrder | None = None
    counts: list[int] = []  # of the joins whose rows were estimated


@dataclass(frozen=True, slots=True)
class SavedDerived:
    """`files` are all files the state needs, by name; `document` is what `restore` wants to see again."""

    files: list[str]
    document: bytes


class Derived:
    """It keeps only what its operators need, and not its own rows. `stored`: those of its tables are in the stores that
    it is attached to, as far as they have a key.

    `order` is the order in which joins run: the operators follow it, and what the relation looks like does not.
    `scanned` are the columns of tables that must be in stores, whatever the order of joins.
    `failed` are the rows for which the source would raise an error: an instance that asks for their values gets one.
    `failures` are the transactions of the last step at which that changed.
    """

    def __init__(
        self,
        name: str,
        relation: Relation,
        tables: Mapping[str, Table],
        counters: Work,
        limits: Limits = DEFAULT,
        *,
        order: JoinOrder | None = None,
        stored: bool = False,
    ) -> None:
        identity = identity_of(relation)
        key = tuple(column for part in identity or () for column in part.columns)
        self.table = table_of(columns_of(relation), key, name)
        self.base_tables = frozenset(base_tables(relation))
        self.on_demand = any(demands_of(relation))
        self.failures: list[FailureChange] = []
        self._order = order
        self._failures = Failures(lineage_of(relation), limits.failures_max, joined=joined_lineages(relation))
        self._counters, self._limits = counters, limits
        self._shapes = {each: TableSchema.of(tables[each]) for each in self.base_tables}
        self._scans = ScanIndexes(tables) if stored else None
        self.scanned = scanned_columns(relation, tables) if stored else {}
        self._tree = compiled(reordered(relation, order), tables, counters, self._failures, limits, self._scans)
        self._root = Root(self.table, identity)
        self._estimated = estimated_joins(self._tree.operators(), estimates(relation, order))

    @property
    def failed(self) -> list[Failure]:
        return list(self._failures.counts)

    def load(self, rows: Mapping[str, Iterable[pa.RecordBatch]]) -> Iterable[pa.RecordBatch]:
        """The first step: all rows of the base tables; the relation's rows out."""
        updates = {name: self._whole(name, batches) for name, batches in rows.items() if name in self._shapes}
        self._counters.budget = Budget.of(self._limits)
        batch = self._tree.step(StepInput(updates, first=True)).consolidated()
        self.failures = self._failures.settle()
        return [self._repeated(batch)]

    def _whole(self, name: str, batches: Iterable[pa.RecordBatch]) -> Updates:
        table = self._shapes[name].table
        parts: list[pa.RecordBatch] = []
        diffs: list[Int64s] = []
        for batch in batches:
            diff = same(1, batch.num_rows)
            if batch.num_columns > len(table.columns):
                diff = np.asarray(batch.column(batch.num_columns - 1)).astype(np.int64)
                batch = batch.select(range(batch.num_columns - 1))
            parts.append(conform(batch, table))
            diffs.append(diff)
        if len(parts) == 1:
            return Updates(parts[0], same(FIRST_TX, len(diffs[0])), diffs[0])
        whole = pa.concat_batches(parts) if parts else _no_rows(table)
        diff = np.concatenate([np.zeros(0, np.int64), *diffs])
        return Updates(whole, same(FIRST_TX, len(diff)), diff)

    def step(self, deltas: Mapping[str, Sequence[Delta]]) -> Delta | None:
        """Many transactions, `tx` ascending within a table; by `tx` out."""
        merged = {name: merge(parts) for name, parts in deltas.items() if name in self._shapes and parts}
        self.failures = []
        if not merged:
            return None
        updates = {name: self._updates(name, delta) for name, delta in merged.items()}
        return self._stepped(StepInput(updates), _renames(merged))

    def demand(self, *changes: DemandChange) -> Delta | None:
        """Subscribers come, or leave: the rows that come with them, or go."""
        delta = self._stepped(StepInput({}, changes), {})
        self._turn(changes[0].diff)
        return delta

    def misestimate(self, subscribers: int) -> Misestimate | None:
        """The join whose rows are furthest from what was expected of them when its order was chosen."""
        return furthest(self._estimated, subscribers if self.on_demand else 1)

    def recall(self, change: DemandChange) -> None:
        """A subscriber whose rows were restored with the others."""
        for operator in self._tree.operators():
            if isinstance(operator, DemandOperator):
                operator.count([change])
        self._turn(change.diff)

    def _turn(self, diff: int) -> None:
        for scan in self.scans():
            scan.turn(diff)

    def _stepped(self, given: StepInput, renames: Renames) -> Delta | None:
        self._counters.budget = Budget.of(self._limits)
        batch = self._tree.step(given)
        self.failures = self._failures.settle()
        batch = batch.consolidated()
        self._counters.budget.charge_pairs(int(np.abs(batch.diff).sum()))
        delta = self._root.delta(batch, renames)
        self._counters.emitted += 0 if delta is None else delta.batch.num_rows
        return delta

    def _updates(self, name: str, delta: Delta) -> Updates:
        tx, diff = (np.asarray(delta.batch.column(delta.batch.num_columns - n)) for n in (2, 1))
        return Updates(self._shapes[name].rows_of(delta.batch), tx, diff.astype(np.int64))

    def _repeated(self, batch: Batch) -> pa.RecordBatch:
        """Each row as often as it is there."""
        if (batch.diff == 1).all():
            return batch.rows
        self._counters.budget.charge_pairs(int(batch.diff.sum()))
        return batch.rows.take(pa.array(np.repeat(np.arange(len(batch)), batch.diff)))

    def scans(self) -> list[ScanIndex]:
        """What its operators read in the stores of tables."""
        return [] if self._scans is None else self._scans.made

    def attach(self, stores: Stores) -> None:
        """The rows that it was made of are in these, by all its keys."""
        for scan in self.scans():
            scan.attach(stores)

    def settle(self) -> None:
        """The stores have taken the last step."""
        for scan in self.scans():
            scan.settle()

    def bags(self) -> list[Bag]:
        return [state for state in self._states() if isinstance(state, Bag)]

    def _states(self) -> list[State]:
        """What the operators remember."""
        return [state for operator in self._tree.operators() for state in operator.state()]

    def save(self, directory: Path) -> SavedDerived:
        states = [persistence.save(state, directory) for state in self._states()]
        sync(directory)
        failures = [(one.reason, list(one.told), count) for one, count in self._failures.counts.items()]
        document = _RelationDocument(states, failures, self._order, [one.operator.rows for one in self._estimated])
        return SavedDerived([name for names in states for name in names], msgspec.msgpack.encode(document))

    def inside(self, directory: Path) -> Iterator[Inside]:
        """What was saved and is in memory still."""
        return (run for state in self._states() for run in persistence.runs_inside(state, directory))

    def restore(self, directory: Path, document: bytes) -> None:
        """Into a relation that was just made."""
        read = msgspec.msgpack.decode(document, type=_RelationDocument)
        for state, files in zip(self._states(), read.states, strict=True):
            persistence.restore(state, directory, files)
        self._failures.counts.update({Failure(reason, tuple(told)): count for reason, told, count in read.failures})
        for operator in self._tree.operators():
            operator.resume()
        for one, rows in zip(self._estimated, read.counts, strict=False):
            one.operator.rows = rows


def saved_order(document: bytes) -> JoinOrder | None:
    """The order in which the joins of a saved relation ran: what is restored must have the same."""
    return msgspec.msgpack.decode(document, type=_RelationDocument).order


def _no_rows(table: Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, c.type.arrow) for c in table.columns], schema=table.arrow)


def _renames(deltas: Mapping[str, Delta]) -> Renames:
    """What the base tables say of rows whose key changed."""
    found: dict[str, dict[tuple[int, int], int]] = {}
    for name, delta in deltas.items():
        if delta.renames is not None:
            tx, old, new = (column.to_pylist() for column in delta.renames.columns)
            found[name] = {(at, one): other for at, one, other in zip(tx, old, new, strict=True)}
    return found
