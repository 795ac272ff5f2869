"""ObjectCache: Python objects by key that an operator keeps as its state; only those in use are in memory.

A save packs the objects that changed since the last one and writes them as a run sorted by key; the newest run of a key
counts. So a save costs what has changed, and a saved object need not be in memory: it is unpacked again when its key is
touched. The number of objects in memory is bounded: at the limit all are saved and dropped. Which objects are in memory
never shows in a result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.rows.arrays import firsts
from headwater.engine.rows.work import Work
from headwater.engine.state.lsm import due
from headwater.engine.state.spill import Inside
from headwater.model.encoding.keys import Uint64s

M = TypeVar("M")
GONE = b""
_PIECE_BYTES = 1024  # of a piece in memory, about, and for each byte that it takes packed
_BYTES_PER_PACKED = 12


@dataclass(slots=True)
class ObjectRun:
    """A run: `packed[i]` is the piece of `key[i]`, or empty: it is gone. `file` is set once it is on disk, and then the
    run is there alone."""

    key: Uint64s
    packed: pa.LargeBinaryArray
    file: str | None = None

    def __len__(self) -> int:
        return len(self.key)


class ObjectCache(Generic[M]):
    def __init__(self, pack: Callable[[M], bytes], unpack: Callable[[bytes], M], work: Work, max: int) -> None:
        """`max`: so many pieces, and those fetched at once, are in memory."""
        self.runs: list[ObjectRun] = []
        self._max = max
        self._pack, self._unpack, self._work = pack, unpack, work
        self._here: dict[int, M] = {}
        self._changed: set[int] = set()  # since the last save
        self._recent: frozenset[int] = frozenset()  # changed between the last two
        self._away = False  # whether some are filed and not here

    def fetch(self, keys: Collection[int]) -> None:
        """Whatever there is of these keys is here from now on; others may be no longer."""
        if len(self._here) + len(keys) > self._max and self._here:
            self.settle()
            self._here, self._away = {}, True
        missing = [key for key in keys if key not in self._here and key not in self._changed] if self._away else []
        wanted = np.array(missing, np.uint64)
        for run in reversed(self.runs):
            place = np.minimum(run.key.searchsorted(wanted), len(run) - 1)
            hit = run.key[place] == wanted
            pieces = run.packed.take(pa.array(place[hit])).to_pylist()
            for key, packed in zip(wanted[hit].tolist(), pieces, strict=True):
                if packed != GONE:
                    self._here[key] = self._unpack(packed)
            self._work.gathered += len(pieces)
            wanted = wanted[~hit]

    def get(self, key: int) -> M | None:
        """Of a key that was fetched. Whoever has it may change it."""
        self._changed.add(key)
        return self._here.get(key)

    def put(self, key: int, piece: M) -> None:
        self._changed.add(key)
        self._here[key] = piece

    def drop(self, key: int) -> None:
        self._changed.add(key)
        del self._here[key]

    def __len__(self) -> int:
        """How many there are, at least: of what is away it knows only how often it was filed."""
        return len(self._here) if not self._away else sum(map(len, self.runs))

    def settle(self) -> None:
        """What has changed becomes a run."""
        self._recent = frozenset(self._changed)
        if self._changed:
            self.runs = settled([*self.runs, self._packed()], self._work)
            self._changed = set()

    def _packed(self) -> ObjectRun:
        keys = np.sort(np.fromiter(self._changed, np.uint64, len(self._changed)))
        pieces = [self._here.get(key) for key in keys.tolist()]
        return filed(keys, [GONE if piece is None else self._pack(piece) for piece in pieces])

    def restore(self, runs: list[ObjectRun]) -> None:
        """Into memos that were just made."""
        self.runs, self._away = runs, bool(runs)

    def inside(self) -> Iterator[Inside]:
        """What is here, was saved, and nobody has touched between the last two saves: a piece in use stays."""
        idle = sum(1 for key in self._here if self._is_idle(key))
        if idle:
            yield Inside(idle * (_PIECE_BYTES + _BYTES_PER_PACKED * self._mean_bytes()), self._let_go)

    def _is_idle(self, key: int) -> bool:
        return key not in self._changed and key not in self._recent

    def _mean_bytes(self) -> int:
        """Of a piece, packed."""
        filed = sum(map(len, self.runs))
        return sum(int(run.packed.nbytes) for run in self.runs) // filed if filed else 0

    def _let_go(self) -> None:
        self._away = True
        self._here = {key: piece for key, piece in self._here.items() if not self._is_idle(key)}


def filed(keys: Uint64s, packed: list[bytes]) -> ObjectRun:
    """A run of these; `keys` rise."""
    return ObjectRun(keys, pa.array(packed, pa.large_binary()))


def settled(runs: list[ObjectRun], work: Work) -> list[ObjectRun]:
    """The same, the newest of them merged where that is due."""
    count = due(runs)
    work.rewritten += sum(map(len, runs[-count:])) if count > 1 else 0
    merged = _merged(runs[-count:], oldest=count == len(runs))
    return [*runs[:-count], merged] if len(merged) else runs[:-count]


def _merged(runs: Sequence[ObjectRun], *, oldest: bool) -> ObjectRun:
    """Of each key the newest. Behind the oldest run nothing is left of what is gone."""
    if len(runs) == 1 and not oldest:
        return runs[0]
    key = np.concatenate([run.key for run in runs])
    packed = pa.chunked_array([run.packed for run in runs])
    age = np.repeat(np.arange(len(runs), 0, -1), [len(run) for run in runs])
    order = np.lexsort((age, key))
    newest = order[firsts((key[order],))]
    pieces = packed.take(pa.array(newest)).combine_chunks()
    kept = (
        np.asarray(pc.not_equal(pieces, pa.scalar(GONE, pa.large_binary()))) if oldest else np.ones(len(newest), bool)
    )
    return ObjectRun(key[newest][kept], pieces.filter(pa.array(kept)))
