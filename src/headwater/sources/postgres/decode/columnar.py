"""From many simple transactions to what every source reports, as columns: old images are found and new ones read for
all rows at once.

It gives what `row_wise` gives row by row, coalesced. Where that takes more than one look at a row (it is touched
twice in a transaction, its key changes, a large value is left out) it says so, and the transactions take that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.columnar_changes import ColumnarChanges, TableChanges
from headwater.model.encoding.keys import Uint64s
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.decode.tuple_columns import batch_of, cells_at, refuse_behind
from headwater.sources.postgres.row_cache.row_selection import RowSelection, gathered, picked
from headwater.sources.postgres.row_cache.runs import (
    FoundRows,
    RowKeys,
    RowRun,
    RunChunk,
    concatenated,
    equal_to_the_bit,
    find,
    ordered,
    taken,
)
from headwater.sources.postgres.server.value_types import Parse
from headwater.sources.postgres.wire.simple_transactions import Ints, SimpleTransactions

Bools = npt.NDArray[np.bool_]
_INSERT, _UPDATE, _DELETE = b"IUD"
_KEY, _WHOLE = b"KO"
_TAG, _CELLS = 5, 6  # where in a message they stand
_SAMPLE = 64  # updates that tell which columns change


class NeedsRowWise(Exception):
    """Transactions that must be read row by row, by their places; none: all of them."""

    def __init__(self, transactions: frozenset[int] = frozenset()) -> None:
        super().__init__(transactions)
        self.transactions = transactions


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table as columns need it: the runs of its rows, oldest first, and how its values read."""

    keyed: RowKeys
    parsers: Sequence[Parse]
    layers: Sequence[RowRun]


@dataclass(frozen=True, slots=True)
class ColumnarResult:
    """What is reported, and the rows that are left, by table."""

    changes: ColumnarChanges
    runs: dict[int, RowRun]


def fits(capture: CapturedTable) -> bool:
    """Whether the table's rows are told apart by its key, and by nothing else."""
    table = capture.table
    return bool(table.key) and {table.index(name) for name in table.key} == set(capture.identity)


def decode_columns(simple: SimpleTransactions, tables: dict[int, FollowedTable], after: int) -> ColumnarResult:
    """The transactions that lie behind `after` and touch these tables."""
    chosen = {}
    for oid, table in tables.items():
        is_later = simple.positions > max(after, table.keyed.capture.since)
        rows = np.flatnonzero((simple.oids == oid) & is_later[simple.tx])
        if rows.size:
            chosen[oid] = rows
    is_touched = np.zeros(len(simple.positions), np.bool_)
    for rows in chosen.values():
        is_touched[simple.tx[rows]] = True
    touched = np.flatnonzero(is_touched)
    read = {oid: _TableReader(simple, rows, tables[oid]) for oid, rows in chosen.items()}
    done = {oid: one.changes(touched) for oid, one in read.items()}
    changes = ColumnarChanges(simple.positions[touched].tolist(), tuple(done.values()), simple.times[touched].tolist())
    return ColumnarResult(changes, {oid: one.run() for oid, one in read.items()})


class _TableReader:
    """The changes of one table, in order."""

    def __init__(self, simple: SimpleTransactions, rows: Ints, table: FollowedTable) -> None:
        self.keyed, self.layers = table.keyed, table.layers
        self.tx, kinds = simple.tx[rows], simple.kinds[rows]
        tags = simple.data[simple.at[rows] + _TAG]
        self.has_new, self.has_old = kinds != _DELETE, (tags == _KEY) | (tags == _WHOLE)
        self.is_whole = tags == _WHOLE
        self.needs_old = (kinds != _INSERT) & ~self.is_whole
        self._refuse((kinds == _UPDATE) & (tags == _KEY))
        self._read(simple, rows, table)
        self.hash, self.names = self._named()
        self.order = ordered(self.hash)
        self.before = self._before()

    def _refuse(self, refused: Bools) -> None:
        """Rows that are not for us."""
        if refused.any():
            raise NeedsRowWise(frozenset(self.tx[refused].tolist()))

    def _read(self, simple: SimpleTransactions, rows: Ints, table: FollowedTable) -> None:
        """Old images first, where they were sent; behind them the new ones."""
        columns = [(column.type, parse) for column, parse in zip(self.keyed.columns, table.parsers, strict=True)]
        width, schema = len(columns), self.keyed.schema
        at = simple.at[rows] + _CELLS
        old = cells_at(simple, at[self.has_old], width)
        at[self.has_old] = old.ends + 1
        new = cells_at(simple, at[self.has_new], width)
        unchanged = np.zeros(len(rows), np.bool_)
        unchanged[self.has_old] |= old.unchanged
        unchanged[self.has_new] |= new.unchanged
        ends = at.copy()
        ends[self.has_old] = old.ends
        ends[self.has_new] = new.ends
        refuse_behind(ends, simple.ends[rows])
        self._refuse(unchanged)
        only = None if self.is_whole.any() else self.keyed.places
        self.old, self.new = batch_of(old, columns, schema, only), batch_of(new, columns, schema)
        self.old_at, self.new_at = np.cumsum(self.has_old) - 1, np.cumsum(self.has_new) - 1

    def _named(self) -> tuple[Uint64s, list[pa.Array]]:
        """The keys of all changes: as they are after, or were before where nothing is left."""
        names = self.keyed.names(self.new)
        if not self.has_new.all():
            place = np.where(self.has_new, self.new_at, self.new.num_rows + self.old_at)
            pairs = zip(names, self.keyed.names(self.old), strict=True)
            names = [pa.concat_arrays([new, old]).take(pa.array(place)) for new, old in pairs]
        return self.keyed.hashes(names), names

    def _before(self) -> Ints:
        """Which change here was the last of the same row; -1 where this is the first."""
        again = np.flatnonzero(self.hash[self.order[1:]] == self.hash[self.order[:-1]])
        here, there = self.order[again + 1], self.order[again]
        if again.size and not self._same(here, there).all():
            raise NeedsRowWise  # two keys of one hash
        before = np.full(len(self.hash), -1, np.int64)
        before[here] = there
        twice = np.zeros(len(self.hash), np.bool_)
        twice[here] = self.tx[here] == self.tx[there]
        self._refuse(twice)
        return before

    def _same(self, here: Ints, there: Ints) -> Bools:
        def taken(at: Ints) -> list[pa.Array]:
            return [name.take(pa.array(at)) for name in self.names]

        return self.keyed.same(taken(here), taken(there))

    def _found(self) -> FoundRows:
        """What the runs have of rows that are touched here for the first time."""
        is_asked = self.needs_old & (self.before < 0)
        asked = self.order[is_asked[self.order]]
        found = find(self.layers, self.keyed, self.hash, self.names, asked)
        followed = self.before[self.needs_old & (self.before >= 0)]
        if sum(map(len, found.asked)) < len(asked) or not self.has_new[followed].all():
            raise NeedsRowWise  # a row that we do not know: row by row it is found which
        return found

    def changes(self, touched: Ints) -> TableChanges:
        laid = _ImageLayout(self.needs_old | self.is_whole, self.has_new)
        images = self._images(laid) if laid.has_old.any() else self.new
        self._refuse_moved(images, laid)
        kept = np.ones(len(self.tx), np.bool_)
        kept[_unchanged(images, laid)] = False
        if not kept.all():
            images, laid = taken(images, laid.places(kept)), _ImageLayout(laid.has_old[kept], laid.has_new[kept])
        begins = np.append(np.searchsorted(self.tx[kept], touched), len(laid.has_old))
        return TableChanges(self.keyed.capture.table, images, laid.diffs, laid.starts, begins)

    def _images(self, laid: _ImageLayout) -> pa.RecordBatch:
        """Old images from the runs, from what was sent, and from earlier changes of the same rows; and the new ones."""
        found = self._found()
        whole = np.flatnonzero(self.is_whole)
        again = np.flatnonzero(self.needs_old & (self.before >= 0))
        told = [
            (RowSelection(self.old, self.old_at[whole]), laid.old[whole]),
            (RowSelection(self.new, self.new_at[self.before[again]]), laid.old[again]),
            (RowSelection(self.new, None), laid.new[self.has_new]),
        ]
        pieces = [*found.pieces, *(piece for piece, _ in told)]
        into = [*(laid.old[asked] for asked in found.asked), *(places for _, places in told)]
        return gathered(pieces, into, self.keyed.schema)

    def _refuse_moved(self, images: pa.RecordBatch, laid: _ImageLayout) -> None:
        """Rows that were sent whole may have had another key."""
        asked = np.flatnonzero(self.is_whole & self.has_new)
        if asked.size:
            before, after = (taken(images, side[asked]) for side in (laid.old, laid.new))
            moved = np.zeros(len(self.tx), np.bool_)
            moved[asked] = ~self.keyed.same(self.keyed.names(before), self.keyed.names(after))
            self._refuse(moved)

    def run(self) -> RowRun:
        """What is left of each row."""
        hash = self.hash[self.order]
        last = np.ones(len(hash), np.bool_)
        last[:-1] = hash[1:] != hash[:-1]
        end = self.order[last]
        there = self.has_new[end]
        if there.all():
            return RowRun.of([RunChunk(hash[last], there.astype(np.int32), self.new_at[end], self.new)])
        rows = concatenated(self.keyed, [self.new, self.old])
        place = np.where(there, self.new_at[end], self.new.num_rows + self.old_at[end])
        return RowRun.of([RunChunk(hash[last], there.astype(np.int32), place, rows)])


class _ImageLayout:
    """How images follow one another: old before new, change after change. `old` and `new` say where those of each
    change stand, if it has them; `diffs` has their signs, and `starts` where each change begins."""

    def __init__(self, has_old: Bools, has_new: Bools) -> None:
        self.has_old, self.has_new = has_old, has_new
        self._there = np.stack([has_old, has_new], axis=1).ravel()
        ends = np.cumsum(self._there)
        self.old, self.new = ends[0::2] - 1, ends[1::2] - 1
        self.starts = np.append(0, ends[1::2])

    @property
    def diffs(self) -> npt.NDArray[np.int8]:
        return np.tile(np.array([-1, 1], np.int8), len(self.has_old))[self._there]

    def places(self, kept: Bools) -> Ints:
        """Where the images of some changes stand."""
        return np.flatnonzero(np.repeat(kept, 2)[self._there])


def _unchanged(images: pa.RecordBatch, laid: _ImageLayout) -> Ints:
    """The updates that change nothing. Most differ in one column, which a few of them tell."""
    same = np.flatnonzero(laid.has_old & laid.has_new)

    def agree(column: pa.Array, asked: Ints) -> Bools:
        return equal_to_the_bit(picked(column, laid.old[asked]), picked(column, laid.new[asked]))

    sample = same[:_SAMPLE]
    for column in sorted(images.columns, key=lambda one: int(agree(one, sample).sum())) if same.size else ():
        same = same[agree(column, same)]
        if not same.size:
            break
    return same
