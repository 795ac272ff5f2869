"""Matches: for each row of the left, the number of rows of the right for which the condition is true, NULL, or fails.

Semi, anti and mark joins read their result from these counts, and outer joins their padding. A row of the left is
looked up in the right once, when it comes; after that only changes of the right that match it are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.operators.failures import Failures
from headwater.engine.operators.join.condition import Pairs
from headwater.engine.operators.join.sides import KeyedUpdates, Sides
from headwater.engine.operators.timeline import Timeline, timeline
from headwater.engine.rows.arrays import Bools, Int8s, Int64s, firsts
from headwater.engine.rows.batch import Batch, nothing
from headwater.engine.rows.work import Work
from headwater.engine.state.bag import BagMatches
from headwater.engine.state.tally import Tally
from headwater.model.encoding.keys import Uint64s

UNMATCHED, MATCHED, UNKNOWN = 0, 1, 2
_WEIGHT, _TRUE, _NULL, _FAILED = range(4)
_REASON = "a condition between two relations failed"
Marks = Int8s


@dataclass(frozen=True, slots=True)
class Marked:
    """Updates of the left, each with its mark."""

    batch: Batch
    mark: Marks

    def only(self, *marks: int) -> Batch:
        wanted = np.zeros(3, np.bool_)
        wanted[list(marks)] = True
        return self.batch.filter(wanted[self.mark])


@dataclass(frozen=True, slots=True)
class _Events:
    """Numbers that change: of left row `id`, at `tx`."""

    id: Uint64s
    tx: Int64s
    change: Int64s


class Matches:
    """`failures` None: somebody else tells of the pairs that fail."""

    def __init__(self, sides: Sides, work: Work, failures: Failures | None) -> None:
        self._sides = sides
        self._failures = failures
        self.tally = Tally(4, work)

    def step(self, left: KeyedUpdates, right: KeyedUpdates) -> Marked:
        if not len(left.batch) and not len(right.batch):
            return self._none()
        came = _one_of_each(left)
        met = self._met(came, right)
        events = _all(
            _weights(left.batch),
            self._meeting(met, right),
            self._coming(came, right),
        )
        if not len(events.id):
            return self._none()
        keys, place = np.unique(events.id, return_inverse=True)
        known = self.tally.get(keys)
        line = timeline(events.id, events.tx, events.change, self._initial(keys, known, came)[place])
        self._note_failures(line, came.batch, met)
        self._remember(line, known)
        return self._marked(line, came.batch, met)

    def _none(self) -> Marked:
        return Marked(nothing(self._sides.left.table), np.zeros(0, np.int8))

    def _met(self, came: KeyedUpdates, right: KeyedUpdates) -> BagMatches:
        """Rows of the left that were there, do not change themselves, and may meet a change of the right."""
        found = self._sides.left.at_rest(right)
        found = found.filter(~_among(found.id, came.batch.id))
        if not len(found):
            return found
        order = np.lexsort((found.query, found.id))
        once = np.zeros(len(found), np.bool_)
        once[order[firsts((found.id[order], found.query[order]))]] = True
        return found.filter(once & (self.tally.get(found.id)[:, _WEIGHT] != 0))

    def _meeting(self, met: BagMatches, right: KeyedUpdates) -> _Events:
        pairs = self._sides.pairs(right.batch, met, of_right=True)
        return _Events(met.id, right.batch.tx[met.query], self._numbers(pairs, right.batch.diff[met.query]))

    def _coming(self, came: KeyedUpdates, right: KeyedUpdates) -> _Events:
        found = self._sides.right.in_step(came, right)
        numbers = self._numbers(self._sides.pairs(came.batch, found), found.weight)
        return _Events(came.batch.id[found.query], found.tx, numbers)

    def _numbers(self, pairs: Pairs, weight: Int64s) -> Int64s:
        numbers = np.zeros((len(pairs), 4), np.int64)
        if not len(pairs):
            return numbers
        tested = self._sides.condition.test(pairs)
        numbers[:, _TRUE] = weight * tested.true
        numbers[:, _NULL] = weight * tested.null
        if tested.failed:
            failed = list(tested.failed)
            numbers[failed, _FAILED] = weight[failed]
        return numbers

    def _initial(self, keys: Uint64s, known: Int64s, came: KeyedUpdates) -> Int64s:
        """The numbers of each row at the start of the step: remembered, or looked up for one that is new. `keys` are
        sorted, and those that came are among them."""
        new = np.flatnonzero(known[keys.searchsorted(came.batch.id), _WEIGHT] == 0)
        if not len(new):
            return known
        asked = came
        if len(new) < len(came.batch):
            valid = None if came.valid is None else came.valid[new]
            asked = KeyedUpdates(came.batch.take(new), came.hash[new], valid)
        found = self._sides.right.at_rest(asked)
        if not len(found):
            return known
        initial = known.copy()
        at = keys.searchsorted(asked.batch.id[found.query])
        np.add.at(initial, at, self._numbers(self._sides.pairs(asked.batch, found), found.weight))
        return initial

    def _note_failures(self, line: Timeline, came: Batch, met: BagMatches) -> None:
        if self._failures is None or (not line.after[:, _FAILED].any() and not line.before[:, _FAILED].any()):
            return
        was, now = (((side[:, _FAILED] != 0) & (side[:, _WEIGHT] != 0)) for side in (line.before, line.after))
        change = now.astype(np.int64) - was
        at = np.flatnonzero(change)
        rows = _rows_of(line.key[at], came, met)
        self._failures.note(dict.fromkeys(range(len(at)), _REASON), rows, line.tx[at], change[at])

    def _remember(self, line: Timeline, known: Int64s) -> None:
        """A row that is gone is forgotten with all its numbers. `known` is what was remembered of each, by its key."""
        after = line.after[line.last]
        after = np.where(after[:, [_WEIGHT]] != 0, after, 0)
        self.tally.add(line.key[line.last], after - known)

    def _marked(self, line: Timeline, came: Batch, met: BagMatches) -> Marked:
        was, now = _marks(line.before), _marks(line.after)
        same = was == now
        gone = np.where(same, 0, -line.before[:, _WEIGHT])
        there = line.after[:, _WEIGHT] - np.where(same, line.before[:, _WEIGHT], 0)
        diff, mark = np.concatenate((gone, there)), np.concatenate((was, now))
        kept = np.flatnonzero(diff)
        at = kept % len(line.key)
        rows = _rows_of(line.key[at], came, met)
        return Marked(Batch(rows, line.key[at], line.tx[at], diff[kept]), mark[kept])


def _marks(numbers: Int64s) -> Marks:
    marks = np.where(numbers[:, _TRUE] != 0, MATCHED, np.where(numbers[:, _NULL] != 0, UNKNOWN, UNMATCHED))
    return marks.astype(np.int8)


def _one_of_each(keyed: KeyedUpdates) -> KeyedUpdates:
    _, places = np.unique(keyed.batch.id, return_index=True)
    if len(places) == len(keyed.batch):
        return keyed
    return KeyedUpdates(
        keyed.batch.take(places), keyed.hash[places], None if keyed.valid is None else keyed.valid[places]
    )


def _weights(batch: Batch) -> _Events:
    change = np.zeros((len(batch), 4), np.int64)
    change[:, _WEIGHT] = batch.diff
    return _Events(batch.id, batch.tx, change)


def _all(*events: _Events) -> _Events:
    return _Events(
        np.concatenate([each.id for each in events]),
        np.concatenate([each.tx for each in events]),
        np.concatenate([each.change for each in events]),
    )


def _among(some: Uint64s, all: Uint64s) -> Bools:
    """Which of some are among all; most often there are none of the one or the other."""
    if not len(some) or not len(all):
        return np.zeros(len(some), np.bool_)
    known = np.sort(all)
    found: Bools = known[np.minimum(known.searchsorted(some), len(known) - 1)] == some
    return found


def _rows_of(id: Uint64s, came: Batch, met: BagMatches) -> pa.RecordBatch:
    """The row of each id, from those that come or those that were met."""
    wanted = _among(met.id, id)
    pool = pa.concat_batches([came.rows, met.rows(wanted)])
    known = np.concatenate((came.id, met.id[wanted]))
    order = np.argsort(known, kind="stable")
    return pool.take(pa.array(order[np.searchsorted(known[order], id)]))
