"""Several transactions in one piece, as columns: what a source gives that decodes many changes at once. No images are
interpreted here.

The changes of a transaction are a sequence like any other, whose rows are made on access. Code that works on columns
takes those instead, and no row is made.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.change import Change, Transaction
from headwater.model.schema import Table
from headwater.model.value import Row, from_array

Ints = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class TableChanges:
    """What happens to one table, in order. `images` has the table's columns: an update is two rows, the old image and
    the new, with the `diffs` −1 and +1. `starts` says where the rows of each change begin, and where the last ends;
    `begins` the same of the changes of each transaction. Changes are net: at most one a row, which keeps its key."""

    table: Table
    images: pa.RecordBatch
    diffs: Int8s
    starts: Ints
    begins: Ints


@dataclass(frozen=True, slots=True, eq=False)
class ColumnarChanges:
    """Transactions that follow one another, table by table. `times` are those of their commits."""

    positions: Sequence[int]
    tables: tuple[TableChanges, ...]
    times: Sequence[float] | None = None

    def transactions(self) -> list[Transaction]:
        begins = [one.begins.tolist() for one in self.tables]
        spans = zip(*(pairwise(one) for one in begins), strict=True)
        times: Sequence[float | None] = self.times or [None] * len(self.positions)
        transactions = zip(self.positions, spans, times, strict=True)
        return [Transaction(at, TransactionSlice(self, span), time) for at, span, time in transactions]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The changes of some transactions to one table. `ordinals` says which transaction each image belongs to."""

    table: Table
    images: pa.RecordBatch
    ordinals: Ints
    diffs: Int8s


class TransactionSlice(Sequence[Change]):
    """The changes of one transaction in columnar changes: a span of each of its tables."""

    __slots__ = ("_length", "_made", "batch", "spans")

    def __init__(self, batch: ColumnarChanges, spans: tuple[Span, ...]) -> None:
        self.batch, self.spans = batch, spans
        self._length = sum([end - begin for begin, end in spans])
        self._made: tuple[Change, ...] | None = None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> Change: ...
    @overload
    def __getitem__(self, at: slice) -> TransactionSlice: ...
    def __getitem__(self, at: int | slice) -> Change | TransactionSlice:
        if isinstance(at, int):
            return self._changes()[at]
        begin, end, step = at.indices(len(self))
        if step != 1:
            raise ValueError(f"expected neighbouring changes, found a step of {step}")
        return TransactionSlice(self.batch, tuple(_within(self.spans, begin, max(begin, end))))

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes())

    def __eq__(self, other: object) -> bool:
        return self._changes() == (other._changes() if isinstance(other, TransactionSlice) else other)

    def __hash__(self) -> int:
        return hash(self._changes())

    def __repr__(self) -> str:
        return repr(self._changes())

    def among(self, tables: Container[str]) -> TransactionSlice:
        """Those of some tables alone, of which no row is made yet."""
        named = [one.table.name in tables for one in self.batch.tables]
        spans = zip(self.spans, named, strict=True)
        return (
            self
            if all(named)
            else TransactionSlice(self.batch, tuple((b, e) if kept else (b, b) for (b, e), kept in spans))
        )

    def _changes(self) -> tuple[Change, ...]:
        if self._made is None:
            tables = zip(self.batch.tables, self.spans, strict=True)
            self._made = tuple(change for table, span in tables for change in _made(table, *span))
        return self._made


def among(changes: Sequence[Change], tables: Container[str]) -> Sequence[Change]:
    """Those of some tables alone."""
    if isinstance(changes, TransactionSlice):
        return changes.among(tables)
    return tuple(change for change in changes if change.table in tables)


def _within(spans: Sequence[Span], begin: int, end: int) -> Iterator[Span]:
    """What lies from `begin` to `end` when all are counted through."""
    before = 0
    for low, high in spans:
        length = high - low
        yield low + min(max(begin - before, 0), length), low + min(max(end - before, 0), length)
        before += length


def _made(changes: TableChanges, begin: int, end: int) -> Iterator[Change]:
    starts = changes.starts[begin : end + 1].tolist()
    first = starts[0]
    images = changes.images.slice(first, starts[-1] - first)
    columns = [from_array(images.column(n), column.type) for n, column in enumerate(changes.table.columns)]
    rows: list[Row] = list(zip(*columns, strict=True))
    name = changes.table.name
    for at, after in pairwise(starts):
        if after - at == 2:
            yield Change(name, rows[at - first], rows[at - first + 1])
        elif changes.diffs[at] < 0:
            yield Change(name, rows[at - first], None)
        else:
            yield Change(name, None, rows[at - first])


def columnar_runs(transactions: Sequence[Transaction]) -> Iterator[tuple[bool, list[Transaction]]]:
    """Neighbours that share columnar changes, together, and all others; whether they have columns."""
    for batch, group in groupby(transactions, _batch):
        yield batch is not None, list(group)


def _batch(transaction: Transaction) -> ColumnarChanges | None:
    return transaction.changes.batch if isinstance(transaction.changes, TransactionSlice) else None


def columns_of(transactions: Sequence[Transaction]) -> Iterator[Columns]:
    """The columns of such neighbours, by table. A transaction's ordinal is its place among them."""
    parts = [one.changes for one in transactions if isinstance(one.changes, TransactionSlice)]
    for place, changes in enumerate(parts[0].batch.tables):
        begins = [part.spans[place][0] for part in parts]
        ends = [part.spans[place][1] for part in parts]
        lengths = changes.starts[ends] - changes.starts[begins]
        if lengths.any():
            low, high = int(changes.starts[begins[0]]), int(changes.starts[ends[-1]])
            ordinals = np.repeat(np.arange(len(parts), dtype=np.int64), lengths)
            yield Columns(changes.table, changes.images.slice(low, high - low), ordinals, changes.diffs[low:high])
