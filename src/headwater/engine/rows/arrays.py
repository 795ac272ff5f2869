"""The arrays that the engine computes with: their types, and columns of one number.

A column in which every row has the same number takes no memory: all its places are one place. It never sees a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headwater.model.size import SMALL

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]
Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]


def same(number: int, count: int) -> Int64s:
    """One number, so many times; many of them take no room."""
    if count <= SMALL.equal_numbers:
        return np.full(count, number, np.int64)
    return np.broadcast_to(np.int64(number), count)


def picked(numbers: Int64s, places: Ints) -> Int64s:
    """The numbers at these places."""
    return numbers[places] if _each_its_own(numbers) else same(int(numbers[0]), len(places))


def latest(a: Int64s, b: Int64s) -> Int64s:
    return np.maximum(a, b) if _each_its_own(a, b) else same(max(int(a[0]), int(b[0])), len(a))


def product(a: Int64s, b: Int64s) -> Int64s:
    return a * b if _each_its_own(a, b) else same(int(a[0]) * int(b[0]), len(a))


def _each_its_own(*numbers: Int64s) -> bool:
    """False where each is one number, so many times, as `same` makes it."""
    return any(each.strides[0] for each in numbers)


def at_once(*times: Int64s) -> bool:
    """Whether everything happens in one transaction."""
    moments = {int(tx[0]) for tx in times if len(tx)}
    return len(moments) < 2 and all(bool((tx == tx[:1]).all()) for tx in times)


def firsts(keys: Sequence[npt.NDArray[np.generic]]) -> Ints:
    """Where a new value begins, in arrays that are sorted by these keys."""
    new = np.zeros(len(keys[0]), np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)
