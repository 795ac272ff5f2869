"""What a subscriber receives, and `apply`: the one definition of what it means.

`seq` orders the emissions of a subscription; `prev` is the seq before it; `gen` rises when seqs stop being comparable.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from headwater.model.errors import Resync
from headwater.model.union import Value

Fields = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row of a result. `index` and `old_index` are set where the query is ordered:
    `old_index` counts in the state before the emission, `index` in the state after it."""

    type: Literal["insert", "update", "delete"]
    old: Fields | None
    new: Fields | None
    old_hash: str | None
    new_hash: str | None
    index: int | None = None
    old_index: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The whole result; replaces whatever was there."""

    seq: int
    prev: int
    gen: int
    position: int
    rows: tuple[Fields, ...]
    hashes: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """Removals and moves-out first, by `old_index` descending; then insertions and moves-in by `index` ascending."""

    seq: int
    prev: int
    gen: int
    position: int
    changes: tuple[RowChange, ...]


@dataclass(frozen=True, slots=True)
class Swap:
    """Only positions changed, and only a few: the pairs are exchanged one after the other."""

    seq: int
    prev: int
    gen: int
    position: int
    pairs: tuple[tuple[int, int], ...]


Emission = Result | Diff | Swap


@dataclass(frozen=True, slots=True)
class State:
    """A result as a subscriber holds it. `rows` and `hashes` are parallel and never changed in place."""

    rows: Sequence[Fields] = ()
    hashes: Sequence[str] = ()
    columns: tuple[str, ...] = ()
    seq: int = 0
    gen: int = 0
    position: int = 0


def apply(state: State, emission: Emission) -> State:
    """The state after the emission: `state ⊕ emission`.

    An emission already applied changes nothing. One that does not follow raises `Resync`; the state is still good.
    """
    return _replace(state, emission) if isinstance(emission, Result) else apply_all(state, (emission,))


def apply_all(state: State, emissions: Sequence[Diff | Swap]) -> State:
    """As `apply`, one after the other; the states in between are not made."""
    rows: _ChangingRows | None = None
    seq, position = state.seq, state.position
    for emission in emissions:
        if emission.gen == state.gen and emission.seq <= seq:
            continue
        check_follows(emission, seq, state.gen)
        rows = rows or _ChangingRows(list(state.rows), list(state.hashes))
        rows.change(emission)
        seq, position = emission.seq, emission.position
    if rows is None:
        return state
    rows.compact()
    return replace(state, rows=rows.rows, hashes=rows.hashes, seq=seq, position=position)


def check_follows(emission: Diff | Swap, seq: int, gen: int) -> None:
    """Raises `Resync` where it is not the next one after `seq`."""
    if emission.gen != gen or emission.prev != seq:
        raise Resync(
            f"expected an emission after seq {seq} of generation {gen}, "
            f"found one after seq {emission.prev} of generation {emission.gen}",
            hint="ask for a fresh result",
        )


def _replace(state: State, result: Result) -> State:
    if result.gen == state.gen and result.seq < state.seq:
        return state
    return State(list(result.rows), list(result.hashes), result.columns, result.seq, result.gen, result.position)


@dataclass(slots=True)
class _ChangingRows:
    """A result that is being changed. Of rows without order, those that are gone are only marked at first, and `places`
    are where the others stand, by hash; None where that is not known."""

    rows: list[Fields]
    hashes: list[str]
    places: dict[str, int] | None = None
    gone: list[int] = field(default_factory=list)

    def change(self, emission: Diff | Swap) -> None:
        match emission:
            case Diff() if not any(one.index is not None or one.old_index is not None for one in emission.changes):
                if self.places is None:
                    self.places = dict(zip(self.hashes, range(len(self.hashes)), strict=True))
                _change_unordered(self, self.places, emission)
            case Diff():
                self.compact()
                _change_ordered(self.rows, self.hashes, emission)
            case Swap():
                self.compact()
                _swap(self.rows, self.hashes, emission)
            case _:
                assert_never(emission)

    def compact(self) -> None:
        for place in sorted(self.gone, reverse=True):
            del self.rows[place], self.hashes[place]
        self.gone, self.places = [], None


def _change_ordered(rows: list[Fields], hashes: list[str], diff: Diff) -> None:
    removed: dict[str, Fields] = {}
    for at, change in sorted(_places(diff, "old_hash", "old_index"), key=_place, reverse=True):
        if not 0 <= at < len(hashes) or hashes[at] != change.old_hash:
            raise _refused(f"expected row {change.old_hash} at index {at}")
        removed[hashes.pop(at)] = rows.pop(at)
    for at, change in sorted(_places(diff, "new_hash", "index"), key=_place):
        if not 0 <= at <= len(hashes):
            raise _refused(f"expected an index up to {len(hashes)}, found {at}")
        rows.insert(at, _merged(removed.get(change.old_hash) if change.old_hash else None, change))
        hashes.insert(at, change.new_hash or "")


def _places(diff: Diff, hash: str, index: str) -> Iterator[tuple[int, RowChange]]:
    """The changes that have such a hash, each with its place; in an ordered diff every one has both or neither."""
    for change in diff.changes:
        at: int | None = getattr(change, index)
        if (at is None) != (getattr(change, hash) is None):
            raise _refused(f"expected an {index} with the {hash} of every change")
        if at is not None:
            yield at, change


def _place(placed: tuple[int, RowChange]) -> int:
    return placed[0]


def _change_unordered(result: _ChangingRows, places: dict[str, int], diff: Diff) -> None:
    """A hash leads to one row: each is taken once, and none comes that is still there."""
    rows, hashes = result.rows, result.hashes
    came: dict[str, int] = {}
    for change in diff.changes:
        place = None if change.old_hash is None else places.pop(change.old_hash, None)
        if place is None:
            if change.old_hash is not None:
                raise _refused(f"expected row {change.old_hash} in the result")
            came[change.new_hash or ""] = len(rows)
            rows.append(_merged(None, change))
            hashes.append(change.new_hash or "")
        elif change.new_hash is None:
            result.gone.append(place)
        else:
            came[change.new_hash] = place
            rows[place] = _merged(rows[place], change)
            hashes[place] = change.new_hash
    _check_fresh(diff, places)
    places.update(came)


def _check_fresh(diff: Diff, untouched: Container[str]) -> None:
    seen: set[str] = set()
    for hash in (change.new_hash for change in diff.changes if change.new_hash is not None):
        if hash in untouched or hash in seen:
            raise _refused(f"expected row {hash} once, found it twice")
        seen.add(hash)


def _refused(message: str) -> Resync:
    return Resync(message, hint="ask for a fresh result")


def _merged(old: Fields | None, change: RowChange) -> Fields:
    """`new` may hold only the columns that changed."""
    new = dict(change.new or {})
    return {**old, **new} if old is not None else new


def _swap(rows: list[Fields], hashes: list[str], swap: Swap) -> None:
    for a, b in swap.pairs:
        if not (0 <= a < len(rows) and 0 <= b < len(rows)):
            raise _refused(f"expected rows {a} and {b}, found {len(rows)} rows")
        rows[a], rows[b] = rows[b], rows[a]
        hashes[a], hashes[b] = hashes[b], hashes[a]
