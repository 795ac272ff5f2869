"""What a subscriber receives, and `apply`: the one definition of what it means.

`seq` orders the emissions of a subscription; `prev` is the seq before it; `gen` rises when seqs stop being comparable.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    if isinstance(emission, Result):
        return _replace(state, emission)
    if emission.gen == state.gen and emission.seq <= state.seq:
        return state
    if emission.gen != state.gen or emission.prev != state.seq:
        raise Resync(
            f"expected an emission after seq {state.seq} of generation {state.gen}, "
            f"found one after seq {emission.prev} of generation {emission.gen}",
            hint="ask for a fresh result",
        )
    match emission:
        case Diff():
            rows, hashes = _changed(state, emission)
        case Swap():
            rows, hashes = _swapped(state, emission)
        case _:
            assert_never(emission)
    return replace(state, rows=rows, hashes=hashes, seq=emission.seq, position=emission.position)


def _replace(state: State, result: Result) -> State:
    if result.gen == state.gen and result.seq < state.seq:
        return state
    return State(list(result.rows), list(result.hashes), result.columns, result.seq, result.gen, result.position)


def _changed(state: State, diff: Diff) -> tuple[list[Fields], list[str]]:
    rows, hashes = list(state.rows), list(state.hashes)
    if any(change.index is not None or change.old_index is not None for change in diff.changes):
        _change_ordered(rows, hashes, diff)
    else:
        _change_unordered(rows, hashes, diff)
    return rows, hashes


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


def _change_unordered(rows: list[Fields], hashes: list[str], diff: Diff) -> None:
    """A hash leads to one row: each is taken once, and none comes that is still there."""
    places = {hash: place for place, hash in enumerate(hashes)}
    gone: list[int] = []
    for change in diff.changes:
        place = None if change.old_hash is None else places.pop(change.old_hash, None)
        if place is None:
            if change.old_hash is not None:
                raise _refused(f"expected row {change.old_hash} in the result")
            rows.append(_merged(None, change))
            hashes.append(change.new_hash or "")
        elif change.new_hash is None:
            gone.append(place)
        else:
            rows[place] = _merged(rows[place], change)
            hashes[place] = change.new_hash
    _check_fresh(diff, places)
    for place in sorted(gone, reverse=True):
        del rows[place], hashes[place]


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


def _swapped(state: State, swap: Swap) -> tuple[list[Fields], list[str]]:
    rows, hashes = list(state.rows), list(state.hashes)
    for a, b in swap.pairs:
        if not (0 <= a < len(rows) and 0 <= b < len(rows)):
            raise _refused(f"expected rows {a} and {b}, found {len(rows)} rows")
        rows[a], rows[b] = rows[b], rows[a]
        hashes[a], hashes[b] = hashes[b], hashes[a]
    return rows, hashes
