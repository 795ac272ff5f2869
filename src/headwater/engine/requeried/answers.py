"""Windows that the source answers: each answer is compared with the one before, and the difference is emitted.

A row is identified by its values and the number of equal rows before it, or by its keys where the answer has them
(`keyed`). It never asks the source itself: answers are handed in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from headwater.engine.emissions.block import DELETE, INSERT, NOWHERE, UPDATE, Edit, FewEdits, result_block
from headwater.engine.emissions.index import Ending, Entry
from headwater.engine.emissions.outbox import Outbox
from headwater.engine.ranking.rank import longest_rising
from headwater.engine.requeried.keyed_rows import KeyedRows, Keys, Part, Turned
from headwater.engine.requeried.match_rows import Renamed
from headwater.engine.rows.work import Work
from headwater.engine.state.changelog import Changelog
from headwater.engine.windows.shown_hashes import ShownHashes
from headwater.model.encoding.keys import hash_encoded
from headwater.model.encoding.tagged_bytes import pack_column, storable, storable_rows, stored
from headwater.model.value import Row, Type, to_array
from headwater.model.value import field as typed_field
from headwater.plan.template import Instance

_ENCODER = msgspec.msgpack.Encoder()
_NONE = (0, NOWHERE, NOWHERE)  # no hash, no index, no place in the pool


@dataclass(slots=True)
class Answered:
    """One window. `seq` is 0 until the first answer, `position` is the source's at the last. One that is `keyed` has
    its rows there. `origin` is the instance that it is of, where it may be followed change by change again."""

    template: str
    ordered: bool
    rows: list[Row] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)
    seq: int = 0
    prev: int = 0
    keyed: KeyedRows | None = None
    position: int = 0
    origin: Instance | None = None

    def side(self) -> HashedRows:
        """What it shows."""
        if self.keyed is None:
            return HashedRows(self.rows, self.hashes)
        shown = list(self.keyed.shown())
        return HashedRows([row for _, row in shown], [hash for hash, _ in shown])


class Answers:
    def __init__(self, outbox: Outbox, work: Work | None = None) -> None:
        self._outbox = outbox
        self._windows: dict[int, Answered] = {}
        self._saved = Changelog(work or Work())

    def __contains__(self, instance: int) -> bool:
        return instance in self._windows

    def subscribe(
        self, instance: int, template: str, ordered: bool, keys: Keys | None = None, origin: Instance | None = None
    ) -> None:
        """Opens the window, or shows again what it holds."""
        keyed = KeyedRows(keys) if keys is not None else None
        window = self._windows.setdefault(instance, Answered(template, ordered, keyed=keyed, origin=origin))
        self._saved.note(instance)
        if window.seq:
            self._emit_whole(instance, window)

    def take_over(
        self, origin: Instance, ordered: bool, rows: Sequence[Row] | None, seqs: tuple[int, int], position: int
    ) -> None:
        """A window that was followed until now, with the rows that it has at this position, under a seq and the one
        before it. It is shown whole: its rows are known by other hashes from here on. One without a result, because a
        row of it fails, gets its rows with its first answer."""
        window = self._windows[origin.id] = Answered(origin.template, ordered, origin=origin)
        self._saved.note(origin.id)
        if rows is not None:
            window.rows, window.hashes = list(rows), hashes_of(rows)
            (window.seq, window.prev), window.position = seqs, position
            self._emit_whole(origin.id, window)

    def origins(self, template: str) -> list[Instance]:
        """The windows of a template that may be followed change by change again."""
        found = (one.origin for one in self._windows.values() if one.template == template)
        return [one for one in found if one is not None]

    def unsubscribe(self, instance: int) -> None:
        if self._windows.pop(instance, None) is not None:
            self._saved.note(instance)

    def answered_at(self, instance: int) -> int | None:
        """The source position that the window is right for; none before the first answer."""
        window = self._windows.get(instance)
        return window.position if window is not None and window.seq else None

    def answer(
        self,
        instance: int,
        rows: Sequence[Row],
        tx: int,
        position: int,
        parts: Sequence[Part] | None = None,
        renamed: Renamed = (),
    ) -> None:
        """The result as the source gave it: the whole, or those parts of a keyed window that it was asked for, and the
        keys that were given since. Nothing is emitted where it is as before."""
        window = self._windows.get(instance)
        if window is None or (parts is not None and not window.seq):
            return  # a part of what is not known yet was asked for somebody who has gone
        window.position = position
        self._saved.note(instance)
        if window.keyed is not None:
            self._answer_keyed(instance, window, window.keyed, Said(rows, parts, renamed), tx)
        else:
            self._answer_whole(instance, window, rows, tx)

    def _answer_keyed(self, instance: int, window: Answered, keyed: KeyedRows, said: Said, tx: int) -> None:
        if not window.seq:
            window.seq = tx
            keyed.load(said.rows)
            self._emit_whole(instance, window)
        elif turned := keyed.take(said.rows, said.parts, said.renamed):
            window.seq, window.prev = tx, window.seq
            self._outbox.index.append(Entry(instance, tx, window.prev, "diff", window.template))
            pool = [row for one in turned for row in (one.old, one.new) if row is not None]
            self._put(window.template, list(_keyed_edits(instance, tx, turned)), pool)

    def _answer_whole(self, instance: int, window: Answered, rows: Sequence[Row], tx: int) -> None:
        old = HashedRows(window.rows, window.hashes)
        new = HashedRows(list(rows), hashes_of(rows))
        first = not window.seq
        window.rows, window.hashes = new.rows, new.hashes
        if first:
            window.seq = tx
            self._emit_whole(instance, window)
            return
        pairs = paired(old, new, window.ordered)
        if pairs:
            window.seq, window.prev = tx, window.seq
            self._outbox.index.append(Entry(instance, tx, window.prev, "diff", window.template))
            self._add(instance, window, [_edit(instance, tx, pair, old, new, window.ordered) for pair in pairs], old)

    def close(self, instance: int, tx: int, reason: str, how: Ending = "closed") -> None:
        """Where there is a reason, subscribers are told."""
        window = self._windows.get(instance)
        self.unsubscribe(instance)
        if window is not None and reason:
            self._outbox.index.append(Entry(instance, tx, window.seq, how, window.template, reason))

    def _emit_whole(self, instance: int, window: Answered) -> None:
        """Once a step, however often it is asked for: two would be read as one, with every row twice."""
        if (instance, window.seq) in self._outbox.whole:
            return
        self._outbox.whole.add((instance, window.seq))
        self._outbox.index.append(Entry(instance, window.seq, window.prev, "result", window.template))
        side = window.side()
        if side.rows:
            pool, hashes = _pool(side.rows), np.array(side.hashes, np.uint64)
            block = result_block(instance, window.seq, hashes, np.arange(len(hashes)), pool, _types(pool))
            self._outbox.add(window.template, block)

    def _add(self, instance: int, window: Answered, edits: list[Edit], old: HashedRows) -> None:
        """Rows of the old answer stand behind those of the new one in the pool."""
        shifted = [(*edit[:7], edit[7] + len(window.rows) if edit[7] >= 0 else NOWHERE, edit[8]) for edit in edits]
        self._put(window.template, shifted, [*window.rows, *old.rows])

    def _put(self, template: str, edits: list[Edit], rows: Sequence[Row]) -> None:
        if edits:
            pool = _pool(rows)
            self._outbox.add(template, FewEdits(edits, pool, _types(pool)))

    def save(self, directory: Path) -> list[str]:
        """Writes the windows that have changed since the last time; the files of all of them."""
        return self._saved.save(self._packed, directory)

    def _packed(self, instance: int) -> bytes | None:
        window = self._windows.get(instance)
        return None if window is None else msgspec.msgpack.encode(_saved(window))

    def load(self, directory: Path, files: Iterable[str]) -> None:
        for instance, packed in self._saved.load(directory, files):
            self._windows[instance] = _loaded(instance, *msgspec.msgpack.decode(packed, ext_hook=stored))


def _saved(one: Answered) -> tuple[object, ...]:
    keys = one.keyed and one.keyed.keys
    rows = one.rows if one.keyed is None else list(one.keyed.rows.values())
    names = {} if one.keyed is None else one.keyed.names.kept
    asked = one.origin and (storable(one.origin.values), one.origin.limit, one.origin.offset)
    return one.template, one.ordered, storable_rows(rows), one.seq, one.prev, keys, one.position, names, asked


def _loaded(
    instance: int,
    template: str,
    ordered: bool,
    rows: list[list[Any]],
    seq: int,
    prev: int,
    keys: dict[str, Any] | None,
    position: int,
    names: dict[int, int],
    asked: tuple[list[Any], int | None, int] | None = None,
) -> Answered:
    known = [tuple(row) for row in rows]
    if keys is None:
        origin = None if asked is None else Instance(instance, template, tuple(asked[0]), *asked[1:])
        return Answered(template, ordered, known, hashes_of(known), seq, prev, position=position, origin=origin)
    keyed = KeyedRows(msgspec.convert(keys, Keys), names=ShownHashes(names))
    keyed.load(known)
    return Answered(template, ordered, seq=seq, prev=prev, keyed=keyed, position=position)


def _keyed_edits(instance: int, tx: int, turned: Iterable[Turned]) -> Iterator[Edit]:
    """Rows stand in the pool one after the other, as they are told."""
    place = 0
    for one in turned:
        old, new = NOWHERE, NOWHERE
        if one.old is not None:
            old, place = place, place + 1
        if one.new is not None:
            new, place = place, place + 1
        kind = INSERT if one.old is None else DELETE if one.new is None else UPDATE
        yield instance, tx, kind, one.old_hash, one.new_hash, one.old_index, one.index, old, new


@dataclass(frozen=True, slots=True)
class Said:
    """An answer for a keyed window."""

    rows: Sequence[Row]
    parts: Sequence[Part] | None
    renamed: Renamed


@dataclass(frozen=True, slots=True)
class HashedRows:
    rows: list[Row]
    hashes: list[int]


Pair = tuple[int | None, int | None]  # places in the old and in the new answer


def paired(old: HashedRows, new: HashedRows, ordered: bool) -> list[Pair]:
    """What changed: rows that came, went, turned into another, or (where order counts) moved."""
    places = {hash: place for place, hash in enumerate(old.hashes)}
    stayed = [(places[hash], place) for place, hash in enumerate(new.hashes) if hash in places]
    kept = {was for was, _ in stayed}
    left = [place for place in range(len(old.rows)) if place not in kept]
    came = [place for place, hash in enumerate(new.hashes) if hash not in places]
    pairs = list(_turned(old, new, left, came))
    if ordered:
        still = longest_rising([was for was, _ in stayed])
        pairs += [pair for n, pair in enumerate(stayed) if n not in still]
    return pairs


def _turned(old: HashedRows, new: HashedRows, left: Iterable[int], came: Iterable[int]) -> Iterable[Pair]:
    """A row that went and one that came with the same first value are one row that changed: most results lead with
    what names the row."""
    by_first: dict[object, list[int]] = defaultdict(list)
    for place in left:
        by_first[_first(old.rows[place])].append(place)
    for place in came:
        candidates = by_first[_first(new.rows[place])]
        yield (candidates.pop(0), place) if candidates else (None, place)
    for places in by_first.values():
        for place in places:
            yield place, None


def _first(row: Row) -> object:
    return (type(row[0]), row[0]) if row else None


def _edit(instance: int, tx: int, pair: Pair, old: HashedRows, new: HashedRows, ordered: bool) -> Edit:
    was, now = pair
    old_hash, old_index, old_place = _NONE if was is None else (old.hashes[was], was, was)
    new_hash, index, new_place = _NONE if now is None else (new.hashes[now], now, now)
    kind = INSERT if was is None else DELETE if now is None else UPDATE
    if not ordered:
        old_index = index = NOWHERE
    return instance, tx, kind, old_hash, new_hash, old_index, index, old_place, new_place


def hashes_of(rows: Sequence[Row]) -> list[int]:
    """To the bit, and with the ordinal among equals."""
    seen: dict[bytes, int] = defaultdict(int)
    hashes = []
    for packed in map(_ENCODER.encode, _packed_rows(rows)):
        hashes.append(hash_encoded(packed + seen[packed].to_bytes(8, "big")))
        seen[packed] += 1
    return hashes


def _packed_rows(rows: Sequence[Row]) -> Iterable[tuple[bytes | None, ...]]:
    if not rows or not rows[0]:
        return [()] * len(rows)
    return zip(*map(pack_column, zip(*rows, strict=True)), strict=True)


def _types(pool: pa.RecordBatch) -> tuple[Type, ...]:
    return tuple(Type.ANY for _ in range(pool.num_columns))


def _pool(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    schema = pa.schema([typed_field(str(n), Type.ANY) for n in range(len(columns))])
    return pa.RecordBatch.from_arrays([to_array(column, Type.ANY) for column in columns], schema=schema)
