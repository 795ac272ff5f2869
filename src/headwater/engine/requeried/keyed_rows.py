"""KeyedRows: a window whose rows the source identifies by keys, so that a part of it can be answered again.

Besides its results each row has columns that are not shown. The first of them identify the row. The source is asked for
parts of the rows by some of them, and an index finds these rows again. In an ordered window a sequence of sort keys
knows the place of each row. An answer that leaves the window as it looks is not emitted: rows keep their names. It
never asks the source itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headwater.engine.emissions.block import NOWHERE
from headwater.engine.ranking.rank import LimitRange, Ranked, Touch, move, reframe
from headwater.engine.requeried.match_rows import Identity, Renamed, packed, partners
from headwater.engine.windows.shown_hashes import ShownHashes
from headwater.engine.windows.visibility import Lazily, Look, before, same_bag
from headwater.model.encoding.keys import encode_value, hash_encoded
from headwater.model.value import Row
from headwater.plan.requery_by_key import Selection
from headwater.sql.outline.sort_key import SortKey

Part = tuple[tuple[int, ...], Sequence[Row]]  # places among the columns that are not shown, and the values asked for
Index = dict[bytes, dict[Identity, None]]
_LENGTH_BYTES = 4  # at the end of a sort key: how long the identity before it is


@dataclass(frozen=True, slots=True)
class Keys:
    """How many columns are not shown. The first `identity` of them tell rows apart, `anchored` of these never NULL.
    `order` decides the place of a row, to the last tie; empty where it has none."""

    hidden: int
    identity: int
    anchored: int
    order: tuple[SortKey, ...] = ()


def keys_of(selection: Selection) -> Keys:
    return Keys(len(selection.columns), selection.identity, selection.anchored, selection.sorting)


@dataclass(frozen=True, slots=True)
class Turned:
    """A row that came, went, changed or moved: as it was and as it is, to be shown, each with its hash and place."""

    old: Row | None
    new: Row | None
    old_hash: int = 0
    new_hash: int = 0
    old_index: int = NOWHERE
    index: int = NOWHERE


@dataclass(slots=True)
class KeyedRows:
    keys: Keys
    rows: dict[Identity, Row] = field(default_factory=dict)
    _indexes: dict[tuple[int, ...], Index] = field(default_factory=dict)
    _ranked: Ranked = field(default_factory=Ranked)  # empty where there is no order
    names: ShownHashes = field(
        default_factory=ShownHashes
    )  # of rows that are shown under another hash than that of their keys

    def shown(self) -> Iterator[tuple[int, Row]]:
        """Every row, with its hash; in order, where there is one."""
        rows = sorted(self.rows.items(), key=lambda one: self._sort_key(*one)) if self.keys.order else self.rows.items()
        for identity, row in rows:
            yield self.names.of(hash_encoded(identity)), self._results(row)

    def load(self, rows: Iterable[Row]) -> None:
        """The first that there are."""
        for row in rows:
            self._put(self._identity(row), row)
        if self.keys.order:
            self._ranked = Ranked(self._sort_key(identity, row) for identity, row in self.rows.items())

    def take(self, rows: Iterable[Row], parts: Sequence[Part] | None, renamed: Renamed = ()) -> list[Turned]:
        """The rows are all that there are now, or all of the parts that were asked for. Keys may have been renamed."""
        gone = list(self.rows) if parts is None else list(self._held(parts))
        old = {identity: self._drop(identity) for identity in gone}
        new = dict[Identity, Row]()
        for row in rows:
            identity = self._identity(row)
            if identity in self.rows:  # the source found more than it was asked for
                old[identity] = self._drop(identity)
            new[identity] = row
        for identity, row in new.items():
            self._put(identity, row)
        changes = [_Change(*pair, old, new) for pair in partners(old, new, renamed, self.keys.anchored)]
        turned = list(self._placed(changes) if self.keys.order else self._turned(changes))
        told = self._named(turned, changes)
        names = self._unseen_names(told)
        if names is None:
            return told
        self.names.assign(names)
        return []

    # Rows by their keys

    def _keys_of(self, row: Row) -> Row:
        return row[len(row) - self.keys.hidden :]

    def _identity(self, row: Row) -> Identity:
        return packed(self._keys_of(row)[: self.keys.identity])

    def _results(self, row: Row) -> Row:
        return row[: len(row) - self.keys.hidden]

    def _sort_key(self, identity: Identity, row: Row) -> bytes:
        """The identity at its end tells any two rows apart, and knows the row."""
        values = [
            encode_value(
                row[one.place], collation=one.collation, descending=one.descending, nulls_first=one.nulls_first
            )
            for one in self.keys.order
        ]
        return b"".join((*values, identity, len(identity).to_bytes(_LENGTH_BYTES, "big")))

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

    # What is shown under which name

    def _named(self, turned: list[Turned], changes: Sequence[_Change]) -> list[Turned]:
        """Rows that stay and look the same keep their names."""
        if not self.names.kept:
            return turned
        stayed = {hash_encoded(one.was or b"") for one in changes if self._is_silent(one)}
        rest = [one for one in turned if one.old_hash != one.new_hash or one.old_hash not in stayed]
        names = self.names.turn(
            [(hash, hash) for hash in stayed],
            [one.old_hash for one in rest if one.old is not None],
            [one.new_hash for one in rest if one.new is not None],
        )
        return [
            replace(one, old_hash=names.get(one.old_hash, 0), new_hash=one.new_hash and self.names.of(one.new_hash))
            for one in turned
        ]

    def _unseen_names(self, told: Sequence[Turned]) -> dict[int, int] | None:
        """The names from now on, by the hash of a row's keys, where what is shown looks as before; else None."""
        if not told or sum((one.new is not None) for one in told) != sum((one.old is not None) for one in told):
            return None
        sides = [(_look(one.old), one.old_hash, _look(one.new), self.names.holder(one.new_hash), one) for one in told]
        names = same_bag([side[:4] for side in sides])
        if names is None or not self.keys.order:
            return names
        gone: dict[int, Look | None] = {one.old_index: was for was, _, _, _, one in sides if was is not None}
        came = {one.index for one in told if one.new is not None}
        rows = Lazily(self._rows_at, min((*gone, *came)))
        if any(look != rows(place)[1] for place, look in before(gone, came, lambda at: rows(at)[1])):
            return None
        called = {one.old_index: one.old_hash for one in told if one.old is not None}
        return {rows(place)[0]: name for place, name in before(called, came, lambda at: self.names.of(rows(at)[0]))}

    def _rows_at(self, start: int, end: int) -> list[tuple[int, Look | None]]:
        """The rows at these places: the hash of their keys, and how they look."""
        found = [_identity_in(key) for key in self._ranked.slice(start, end)]
        return [(hash_encoded(identity), _look(self._results(self.rows[identity]))) for identity in found]

    # What changed

    def _turned(self, changes: Iterable[_Change]) -> Iterator[Turned]:
        for one in changes:
            if not self._is_silent(one):
                yield self._told(one)

    def _placed(self, changes: Sequence[_Change]) -> Iterator[Turned]:
        """With places, and rows that look as before and moved."""
        touches = [self._touch(number, one) for number, one in enumerate(changes)]
        moved = move(self._ranked, [one for one in touches if not (one.silent and one.old == one.new)])
        for touch, old_index, index in reframe(self._ranked, moved, LimitRange()).touched:
            yield self._told(changes[touch.change], old_index, index)

    def _touch(self, number: int, change: _Change) -> Touch:
        was, now = (
            None if identity is None else self._sort_key(identity, rows[identity])
            for identity, rows in ((change.was, change.old), (change.now, change.new))
        )
        return Touch(number, was, now, self._is_silent(change))

    def _is_silent(self, change: _Change) -> bool:
        """The row is the same, and looks the same."""
        if change.was is None or change.was != change.now:
            return False
        was, now = change.old[change.was], change.new[change.now]
        return packed(self._results(was)) == packed(self._results(now))

    def _told(self, change: _Change, old_index: int | None = None, index: int | None = None) -> Turned:
        was, now = change.was, change.now
        return Turned(
            None if was is None else self._results(change.old[was]),
            None if now is None else self._results(change.new[now]),
            0 if was is None else hash_encoded(was),
            0 if now is None else hash_encoded(now),
            NOWHERE if old_index is None else old_index,
            NOWHERE if index is None else index,
        )


def _look(row: Row | None) -> Look | None:
    return None if row is None else (packed(row),)


def _identity_in(sort_key: bytes) -> Identity:
    end = len(sort_key) - _LENGTH_BYTES
    return sort_key[end - int.from_bytes(sort_key[end:], "big") : end]


@dataclass(frozen=True, slots=True)
class _Change:
    """What a row was and is now, by its keys, and where both are found."""

    was: Identity | None
    now: Identity | None
    old: dict[Identity, Row]
    new: dict[Identity, Row]
