"""A window whose rows the origin told apart by keys: what part of it is answered anew, and what that changed.

Behind its results each row has columns that nobody is shown. The first of them tell rows apart; by some of them the
origin is asked for a part of the rows, and these are found again by an index. It never asks anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from headwater.model.keys import hash_encoded
from headwater.model.value import Row, pack_any

Identity = bytes
Part = tuple[tuple[int, ...], Sequence[Row]]  # places among the columns that are not shown, and the values asked for
Index = dict[bytes, dict[Identity, None]]


@dataclass(frozen=True, slots=True)
class Keys:
    """How many columns are not shown. The first `identity` of them tell rows apart, `anchored` of these never NULL."""

    hidden: int
    identity: int
    anchored: int


@dataclass(frozen=True, slots=True)
class Turned:
    """A row that came, went or changed: as it was and as it is, to be shown, each with its hash."""

    old: Row | None
    new: Row | None
    old_hash: int = 0
    new_hash: int = 0


@dataclass(slots=True)
class Keyed:
    keys: Keys
    rows: dict[Identity, Row] = field(default_factory=dict)
    _indexes: dict[tuple[int, ...], Index] = field(default_factory=dict)

    def shown(self) -> Iterator[tuple[int, Row]]:
        """Every row, with its hash."""
        for identity, row in self.rows.items():
            yield hash_encoded(identity), self._results(row)

    def take(self, rows: Iterable[Row], parts: Sequence[Part] | None) -> list[Turned]:
        """The rows are all that there are now, or all of the parts that were asked for."""
        gone = list(self.rows) if parts is None else list(self._held(parts))
        old = {identity: self._drop(identity) for identity in gone}
        new = dict[Identity, Row]()
        for row in rows:
            identity = packed(self._keys_of(row)[: self.keys.identity])
            if identity in self.rows:  # the origin found more than it was asked for
                old[identity] = self._drop(identity)
            new[identity] = row
        for identity, row in new.items():
            self._put(identity, row)
        return list(self._turned(old, new))

    # Rows by their keys

    def _keys_of(self, row: Row) -> Row:
        return row[len(row) - self.keys.hidden :]

    def _results(self, row: Row) -> Row:
        return row[: len(row) - self.keys.hidden]

    def _held(self, parts: Sequence[Part]) -> Iterator[Identity]:
        """Once each."""
        found = dict[Identity, None]()
        for places, values in parts:
            index = self._index(places)
            for value in values:
                found.update(index.get(packed(value), {}))
        yield from found

    def _index(self, places: tuple[int, ...]) -> Index:
        """Made when it is first asked for, and kept from then on."""
        known = self._indexes.get(places)
        if known is None:
            known = self._indexes[places] = defaultdict(dict)
            for identity, row in self.rows.items():
                known[self._value(row, places)][identity] = None
        return known

    def _value(self, row: Row, places: Iterable[int]) -> bytes:
        keys = self._keys_of(row)
        return packed(tuple(keys[place] for place in places))

    def _put(self, identity: Identity, row: Row) -> None:
        self.rows[identity] = row
        for places, index in self._indexes.items():
            index[self._value(row, places)][identity] = None

    def _drop(self, identity: Identity) -> Row:
        row = self.rows.pop(identity)
        for places, index in self._indexes.items():
            value = self._value(row, places)
            del index[value][identity]
            if not index[value]:
                del index[value]
        return row

    # What changed

    def _turned(self, old: dict[Identity, Row], new: dict[Identity, Row]) -> Iterator[Turned]:
        for identity in old.keys() & new.keys():
            was, now = self._results(old[identity]), self._results(new[identity])
            if packed(was) != packed(now):
                hash = hash_encoded(identity)
                yield Turned(was, now, hash, hash)
        for left, came in self._paired(old, new):
            yield Turned(
                None if left is None else self._results(old[left]),
                None if came is None else self._results(new[came]),
                0 if left is None else hash_encoded(left),
                0 if came is None else hash_encoded(came),
            )

    def _paired(
        self, old: dict[Identity, Row], new: dict[Identity, Row]
    ) -> Iterator[tuple[Identity | None, Identity | None]]:
        """A row that found, lost or changed its partner is one row: those that went and came with the same keys where
        none is ever missing, in the order of the others."""
        left, came = defaultdict[bytes, list[Identity]](list), defaultdict[bytes, list[Identity]](list)
        for identity in sorted(old.keys() - new.keys()):
            left[self._anchor(old[identity], identity)].append(identity)
        for identity in sorted(new.keys() - old.keys()):
            came[self._anchor(new[identity], identity)].append(identity)
        for anchor in left.keys() | came.keys():
            gone, found = left[anchor], came[anchor]
            length = max(len(gone), len(found))
            yield from zip(_padded(gone, length), _padded(found, length), strict=True)

    def _anchor(self, row: Row, identity: Identity) -> bytes:
        return packed(self._keys_of(row)[: self.keys.anchored]) if self.keys.anchored else identity


def _padded(identities: list[Identity], length: int) -> list[Identity | None]:
    return [*identities, *[None] * (length - len(identities))]


def packed(values: Row) -> bytes:
    """Equal where nobody could tell the values apart."""
    return msgspec.msgpack.encode([pack_any(value) for value in values])
