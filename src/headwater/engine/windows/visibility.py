"""Visibility: whether a transaction changes anything that the subscribers of a window see (law 5).

Where the identity of rows is not wholly shown, rows may leave and come, take other keys or change places, and the
result looks as before. Then nothing is emitted, and rows are shown under the names they had (`shown_hashes.py`). It
never decides by a hash alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from headwater.engine.rows.arrays import Int64s
from headwater.model.encoding.keys import Uint64s, hash_columns
from headwater.model.value import Type

T = TypeVar("T")
Look = tuple[object, ...]  # a row as it is shown
Told = tuple[Look | None, int, Look | None, int]  # what was shown and under which name, what is and its identity


def may_look_as_before(
    pool: pa.RecordBatch, types: Sequence[Type], emission: Sequence[Int64s], sides: tuple[Int64s, Int64s], alike: Int64s
) -> bool:
    """Whether some emission of a step may leave its windows as they look; where it says no, none does.

    `emission` are the columns that tell edits of one emission; `sides` the places of each edit in the pool before and
    after, −1 for no row; `alike` the edits whose row looks the same on both sides.
    """
    was, now = sides
    if len(was) == 1:
        return bool(len(alike))
    number, count = _numbered(emission)
    balance = np.bincount(number, (now >= 0).astype(np.int64) - (was >= 0))
    doubtful = (balance == 0) & (count > 1)
    doubtful[number[alike]] |= balance[number[alike]] == 0
    kept = doubtful[number]
    if not kept.any():
        return False
    weight = np.zeros(len(count), np.uint64)
    gone, came = kept & (was >= 0), kept & (now >= 0)
    np.add.at(weight, number[came], _hashes(pool, types, now[came]))
    np.subtract.at(weight, number[gone], _hashes(pool, types, was[gone]))
    return bool((weight[doubtful] == 0).any())


def _numbered(emission: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """Of each edit the number of its emission, and how many edits each has."""
    order = np.lexsort(emission)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in emission])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(fresh) - 1
    return number, np.bincount(number)


def _hashes(pool: pa.RecordBatch, types: Sequence[Type], places: Int64s) -> Uint64s:
    """Equal where rows look the same."""
    if not types:
        return np.ones(len(places), np.uint64)
    return hash_columns(pool.take(pa.array(places)).columns, types, ["BINARY"] * len(types))


def same_bag(told: Sequence[Told]) -> dict[int, int] | None:
    """Of the edits of an unordered window, under which names rows are shown from now on, by identity, where it looks as
    before; else None."""
    names = {id: name for was, name, now, id in told if was is not None and was == now}
    rest = [each for each in told if each[0] is None or each[0] != each[2]]
    free: dict[Look, list[int]] = defaultdict(list)
    for was, name, _, _ in sorted(rest, key=lambda one: one[1], reverse=True):
        if was is not None:
            free[was].append(name)
    for now, id in sorted(((now, id) for _, _, now, id in rest if now is not None), key=lambda one: one[1]):
        if not free[now]:
            return None
        names[id] = free[now].pop()
    return None if any(free.values()) else names


def before(gone: Mapping[int, T], came: Collection[int], now: Callable[[int], T]) -> Iterator[tuple[int, T]]:
    """What stood at each place between the first and the last edit of a list: `gone` is what was taken out of where,
    `came` are the places of what was put in, as many, and `now` tells what stands at a place."""
    first, last = min((*gone, *came)), max((*gone, *came))
    at = first
    for place in range(first, last + 1):
        if place in gone:
            yield place, gone[place]
            continue
        while at in came:
            at += 1
        yield place, now(at)
        at += 1


class Lazily(Generic[T]):
    """A list that is read from its source as far as it is asked for, in ever larger parts."""

    def __init__(self, read: Callable[[int, int], Sequence[T]], first: int) -> None:
        self._read, self._first = read, first
        self._known: list[T] = []

    def __call__(self, place: int) -> T:
        while place - self._first >= len(self._known):
            start = self._first + len(self._known)
            self._known.extend(self._read(start, start + max(8, len(self._known))))
        return self._known[place - self._first]
