"""OrderedKeys: keys in order within parts, each with its count; it iterates over the keys behind a given one.

A key is stored behind the name of its part, so that one order serves all parts. There are sorted runs, newest last; the
count of a key is the sum of its weights over the runs. New keys wait in dictionaries until there are enough for a run.
Runs of similar size are merged, and may be on disk alone. It never knows what a key means.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.rows.arrays import Int64s, Ints
from headwater.engine.rows.work import Work
from headwater.engine.state.lsm import push
from headwater.engine.state.run_file import held
from headwater.model.encoding.keys import Uint64s

Key = bytes
Times = tuple[Key, int]  # a key, and how often it is there
_RECENT_MAX = 4096  # more of them become a run
_READ_AT_ONCE = 64
_NAME_BYTES = 8
_LOAD_BYTES = 4


@dataclass(slots=True)
class OrderedKeysRun:
    """A run: `weight[i]` belongs to `keys[i]`, which has the name of its part in front. `file` is set once it is on
    disk; `mapped`: it is there alone."""

    keys: pa.LargeBinaryArray
    weight: Int64s
    file: str | None = None
    mapped: bool = False
    _ends: Int64s = field(init=False)
    _data: memoryview = field(init=False)

    def __post_init__(self) -> None:
        _, ends, data = self.keys.buffers()
        self._ends = np.frombuffer(ends, np.int64)[self.keys.offset :]
        self._data = memoryview(data if data is not None else b"")

    def __len__(self) -> int:
        return len(self.weight)

    def __getitem__(self, place: int) -> Key:
        return bytes(self._data[self._ends[place] : self._ends[place + 1]])

    def names(self) -> Uint64s:
        """Of parts whose names are eight bytes."""
        at = self._ends[: len(self), None] + np.arange(_NAME_BYTES)
        return np.ascontiguousarray(np.frombuffer(self._data, np.uint8)[at]).view(">u8").ravel()

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return 0 if self.mapped else held(self.weight) + int(self.keys.get_total_buffer_size())

    def behind(self, part: Key, key: Key) -> Iterator[Times]:
        """Of one part the keys past this one."""
        at, past = bisect_right(self, part + key), _past(part)
        end = len(self) if past is None else bisect_left(self, past, at)
        while at < end:
            until = min(at + _READ_AT_ONCE, end)
            weights = self.weight[at:until].tolist()
            yield from ((self[at + n][len(part) :], weight) for n, weight in enumerate(weights))
            at = until


@dataclass(slots=True)
class OrderedKeys:
    work: Work
    runs: list[OrderedKeysRun] = field(default_factory=list)
    _recent: dict[bytes, dict[bytes, int]] = field(default_factory=dict)
    _waiting: int = 0

    def __len__(self) -> int:
        """How many there are, at most."""
        return sum(map(len, self.runs)) + self._waiting

    def add(self, part: bytes, key: bytes, weight: int) -> None:
        keys = self._recent.get(part)
        if keys is None:
            keys = self._recent[part] = {}
        had = keys.get(key)
        if had is None:
            self._waiting += 1
            keys[key] = weight
        else:
            keys[key] = had + weight
        if self._waiting > _RECENT_MAX:
            self.settle()

    def fill(self, keys: pa.LargeBinaryArray, weight: Int64s) -> OrderedKeysRun:
        """Many at once, each behind the name of its part; they are in order in the run."""
        run = _sorted(keys, weight)
        self._push(run)
        return run

    def settle(self) -> None:
        """What came last becomes a run."""
        entries = sorted((part + key, weight) for part, keys in self._recent.items() for key, weight in keys.items())
        self._recent, self._waiting = {}, 0
        there = [(key, weight) for key, weight in entries if weight]
        if there:
            keys, weights = zip(*there, strict=True)
            self._push(OrderedKeysRun(pa.array(keys, pa.large_binary()), np.array(weights, np.int64)))

    def _push(self, run: OrderedKeysRun) -> None:
        push(self.runs, run, _merged, self.work)

    def behind(self, part: bytes, key: bytes = b"") -> Iterator[Times]:
        """Of one part the keys past this one that are there, in order. Nothing may be added meanwhile."""
        recent = sorted(each for each in self._recent.get(part, {}).items() if each[0] > key)
        for place, same in groupby(merge(recent, *(run.behind(part, key) for run in self.runs)), itemgetter(0)):
            self.work.gathered += 1
            times = sum(weight for _, weight in same)
            if times:
                yield place, times


class OrderedKeysPart(NamedTuple):
    """One part of all places."""

    places: OrderedKeys
    name: Key

    def add(self, key: Key, weight: int) -> None:
        self.places.add(self.name, key, weight)

    def behind(self, key: Key = b"") -> Iterator[Times]:
        return self.places.behind(self.name, key)


def bearing(key: Key, load: bytes) -> Key:
    """A key that carries something behind it."""
    return key + load + len(load).to_bytes(_LOAD_BYTES, "big")


def borne(key: Key) -> bytes:
    """What a key carries."""
    size = int.from_bytes(key[-_LOAD_BYTES:], "big")
    return key[-_LOAD_BYTES - size : -_LOAD_BYTES]


def _past(part: bytes) -> bytes | None:
    """What comes after all keys of a part; None for the end."""
    whole = part.rstrip(b"\xff")
    return whole[:-1] + bytes([whole[-1] + 1]) if whole else None


def _merged(runs: Sequence[OrderedKeysRun]) -> OrderedKeysRun:
    return _sorted(pa.concat_arrays([run.keys for run in runs]), np.concatenate([run.weight for run in runs]))


def _sorted(keys: pa.LargeBinaryArray, weight: Int64s) -> OrderedKeysRun:
    """Each key once, with what its weights come to; without those that come to nothing."""
    order = _order(keys)
    keys, weight = keys.take(pa.array(order)), weight[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = np.asarray(pc.not_equal(keys.slice(1), keys.slice(0, max(len(keys) - 1, 0))))
    if not new.all():
        first = np.flatnonzero(new)
        keys, weight = keys.take(pa.array(first)), np.add.reduceat(weight, first)
    kept = weight != 0
    return OrderedKeysRun(keys, weight) if kept.all() else OrderedKeysRun(keys.filter(pa.array(kept)), weight[kept])


def _order(keys: pa.LargeBinaryArray) -> Ints:
    """Keys of one length are sorted in numpy, which is faster where much is in order already."""
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    widths = np.diff(ends)
    if not len(widths) or not widths[0] or not (widths == widths[0]).all():
        return np.asarray(pc.sort_indices(keys)).astype(np.intp)
    plain = np.frombuffer(data, f"S{widths[0]}", len(keys), ends[0])
    return np.argsort(plain, kind="stable")
