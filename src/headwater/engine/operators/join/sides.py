"""The two inputs of a join, each by the join's key, and the candidate pairs between them.

A row with a NULL in its key equals nothing and is not kept, unless `null_aware`: then it may make a condition NULL with
any row of the other side, and is a candidate for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.engine.operators.join.condition import Condition, Pairs
from headwater.engine.rows.arrays import Bools, Ints
from headwater.engine.rows.batch import Batch
from headwater.engine.rows.hashes import NULL_KEY, key_hash
from headwater.engine.rows.work import Work
from headwater.engine.state import bag
from headwater.engine.state.bag import Bag, BagMatches, Passing
from headwater.engine.state.persistence import State
from headwater.engine.state.shared_contents import contents
from headwater.engine.state.sort_hashes import rising
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.scan_index import ScanIndex, ScanIndexes
from headwater.model.encoding.keys import Uint64s
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Type
from headwater.sql.ir.relation import Exists, Join, Mark, Relation


@dataclass(frozen=True, slots=True)
class KeyedUpdates:
    """Updates of one side with their key hashes. `valid`: no NULL in the key; None where that holds for all.
    `order` sorts the hashes of many updates; a few are looked up as they come."""

    batch: Batch
    hash: Uint64s
    valid: Bools | None
    order: Ints | None = None


@dataclass(frozen=True, slots=True)
class JoinSide:
    """`held` are its rows by the key: a bag, or an index into the store of the table that it scans."""

    table: Table
    places: tuple[int, ...]
    collations: tuple[str, ...]
    null_safe: tuple[bool, ...]
    held: Bag | ScanIndex
    null_aware: bool

    @property
    def types(self) -> list[Type]:
        return [self.table.columns[place].type for place in self.places]

    def keyed(self, batch: Batch) -> KeyedUpdates:
        if not len(batch):
            return KeyedUpdates(batch, batch.id, None)
        arrays = [batch.rows.column(place) for place in self.places]
        hash = key_hash(arrays, self.types, self.collations, len(batch))
        nulls = [
            each.is_null() for each, safe in zip(arrays, self.null_safe, strict=True) if each.null_count and not safe
        ]
        if not nulls:
            return KeyedUpdates(batch, hash, None, None if len(hash) <= SMALL.sorted_updates else rising(hash))
        valid: Bools = ~np.logical_or.reduce([np.asarray(each) for each in nulls])
        return KeyedUpdates(batch, np.where(valid, hash, NULL_KEY), valid)

    def absorb(self, keyed: KeyedUpdates) -> None:
        if keyed.valid is None or self.null_aware:
            self.held.absorb(keyed.hash, keyed.batch, keyed.order)
        else:
            self.held.absorb(keyed.hash[keyed.valid], keyed.batch.filter(keyed.valid))

    def at_rest(self, asked: KeyedUpdates) -> BagMatches:
        """What is held may answer the other side's updates with."""
        return _candidates(asked, self.held, self)

    def in_step(self, asked: KeyedUpdates, updates: KeyedUpdates) -> BagMatches:
        """What this side's updates of the same step may answer with."""
        rows = updates.valid is None or self.null_aware
        batch = updates.batch if rows else updates.batch.filter(updates.valid)  # type: ignore[arg-type]
        hash = updates.hash if rows else updates.hash[updates.valid]
        passing = Passing.of(hash, batch, updates.order, self.held.schema, self.held.work.budget)
        return _candidates(asked, passing, self)


def _candidates(asked: KeyedUpdates, rows: Bag | ScanIndex | Passing, side: JoinSide) -> BagMatches:
    if asked.valid is None and not side.null_aware:
        return rows.probe(asked.hash, asked.order)
    valid = np.ones(len(asked.hash), np.bool_) if asked.valid is None else asked.valid
    some = np.flatnonzero(valid)
    found = _renumbered(rows.probe(asked.hash[some]), some)
    if not side.null_aware or not side.places:
        return found
    none = np.flatnonzero(~valid)
    unknown = _renumbered(rows.probe(np.full(len(some), NULL_KEY)), some)
    anything = _renumbered(rows.everything(len(none)), none)
    return bag.joined([found, unknown, anything])


def _renumbered(found: BagMatches, places: Ints) -> BagMatches:
    return BagMatches(places[found.query], found.id, found.weight, found.tx, found.parts, found.schema)


@dataclass(slots=True)
class Sides:
    left: JoinSide
    right: JoinSide
    condition: Condition
    swapped: bool = False

    @classmethod
    def of(
        cls,
        relation: Join | Exists | Mark,
        left: Table,
        right: Table,
        work: Work,
        scans: ScanIndexes | None,
        *,
        null_aware: bool,
    ) -> Sides:
        condition = Condition(left, right, relation.on, null_aware=null_aware)
        equations = condition.equations
        collations = tuple(each.collation for each in equations)
        safe = tuple(each.null_safe for each in equations)
        one = tuple(left.index(each.left.name) for each in equations)
        other = tuple(right.index(each.right.name) for each in equations)

        def side(input: Relation, table: Table, places: tuple[int, ...]) -> JoinSide:
            key = IndexKey((), collations, "null aware" if null_aware else "join", safe)
            index = None if scans is None else scans.of(input, table, work, places, key)
            if index is None:
                held = Bag(table, work, contents(input, places, collations, safe, null_aware=null_aware))
                return JoinSide(table, places, collations, safe, held, null_aware)
            return JoinSide(table, places, collations, safe, index, null_aware)

        return cls(side(relation.left, left, one), side(relation.right, right, other), condition)

    @property
    def filled(self) -> bool:
        """Whether anything is kept of either side."""
        return self.left.held.filled or self.right.held.filled

    def bags(self) -> list[State]:
        """What the sides hold themselves."""
        return [side.held for side in (self.left, self.right) if isinstance(side.held, Bag)]

    def flipped(self) -> Sides:
        """The same state, seen from the right."""
        return Sides(self.right, self.left, self.condition, not self.swapped)

    def pairs(self, asked: Batch, found: BagMatches, *, of_right: bool = False) -> Pairs:
        """`of_right`: the asking rows are the right side's."""
        return Pairs(asked, found, of_right != self.swapped)

    def absorb(self, left: KeyedUpdates, right: KeyedUpdates) -> None:
        self.left.absorb(left)
        self.right.absorb(right)
