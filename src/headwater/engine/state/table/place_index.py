"""PlaceIndex: the places of a table's rows by a hash. It holds no rows, and never compares values: a hash finds
candidates.

Immutable runs of (hash, place), sorted by hash, newest last; recent entries are in a dictionary until there are enough
for a run. Entries of rows that are gone stay until a merge or a vacuum leaves them out: whoever looks up asks the heap
which of the places live.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headwater.engine.rows.arrays import Bools, Ints
from headwater.engine.rows.work import Work
from headwater.engine.state.lsm import due
from headwater.engine.state.run_file import held
from headwater.engine.state.sort_hashes import rising
from headwater.engine.state.spans import spans
from headwater.model.budget import Budget
from headwater.model.encoding.keys import Uint64s

Places = npt.NDArray[np.uint32]  # of rows in a heap


@dataclass(slots=True)
class PlaceRun:
    """`file` is set once the run is on disk; `mapped`: it is nowhere else."""

    hash: Uint64s
    place: Places
    file: str | None = None
    mapped: bool = False

    def __len__(self) -> int:
        return len(self.hash)

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return 0 if self.mapped else held(self.hash, self.place)


@dataclass(slots=True)
class PlaceIndex:
    work: Work
    run_rows_min: int
    runs: list[PlaceRun] = field(default_factory=list)
    recent: dict[int, list[int]] = field(default_factory=dict)
    recent_rows: int = 0

    def add(self, hash: int, place: int) -> None:
        """One row that came. The owner settles the index when there are many."""
        self.recent.setdefault(hash, []).append(place)
        self.recent_rows += 1

    def extend(self, hash: Uint64s, place: Ints, live: Bools) -> None:
        """Many rows that came. `live` tells of all places which are not gone."""
        if not len(hash):
            return
        if len(hash) + self.recent_rows < self.run_rows_min:
            for each, at in zip(hash.tolist(), place.tolist(), strict=True):
                self.add(each, at)
            return
        self.settle(live)
        self._push(_run(hash, place), live)

    def remove(self, hash: Uint64s, place: Ints) -> None:
        """The entries of some rows, as far as they are here."""
        for each, at in zip(hash.tolist(), place.tolist(), strict=True) if self.recent_rows else ():
            places = self.recent.get(each, [])
            if at in places:
                places.remove(at)
                self.recent_rows -= 1
                if not places:
                    del self.recent[each]
        self.runs = [left for run in self.runs if len(left := _without(run, hash, place))]

    def living(self, live: Bools) -> Ints:
        """The places of all rows that are not gone."""
        found = np.concatenate([self._recent_entries()[1], *(run.place.astype(np.intp) for run in self.runs)])
        there: Ints = found[live[found]]
        return there

    def settle(self, live: Bools) -> None:
        """The recent entries become a run."""
        if not self.recent_rows:
            return
        hash, place = self._recent_entries()
        self.recent, self.recent_rows = {}, 0
        there = live[place]
        if there.any():
            self._push(_run(hash[there], place[there]), live)

    @property
    def full(self) -> bool:
        """Whether there are enough recent entries for a run."""
        return self.recent_rows >= self.run_rows_min

    def _recent_entries(self) -> tuple[Uint64s, Ints]:
        hash = np.array([each for each, places in self.recent.items() for _ in places], np.uint64)
        return hash, np.array([at for places in self.recent.values() for at in places], np.int64)

    def _push(self, run: PlaceRun, live: Bools) -> None:
        self.runs.append(run)
        if (count := due(self.runs)) > 1:
            newest = self.runs[-count:]
            self.work.reindexed += sum(map(len, newest))
            one = _merged(newest, live)
            self.runs[-count:] = [one] if len(one) else []

    def places(self, hash: int) -> Ints:
        """The places under one hash, perhaps of rows that are gone."""
        wanted = np.uint64(hash)
        found = [np.array(self.recent.get(hash, ()), np.intp)]
        for run in self.runs:
            start = int(run.hash.searchsorted(wanted))
            if start < len(run.hash) and run.hash[start] == wanted:
                found.append(run.place[start : int(run.hash.searchsorted(wanted, "right"))].astype(np.intp))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def place(self, hash: int, live: Bools) -> int | None:
        """A place under this hash whose row is there."""
        for place in self.recent.get(hash, ()):
            if live[place]:
                return place
        wanted = np.uint64(hash)
        for run in self.runs:
            at = int(run.hash.searchsorted(wanted))
            while at < len(run.hash) and run.hash[at] == wanted:
                if live[run.place[at]]:
                    return int(run.place[at])
                at += 1
        return None

    def probe(self, wanted: Uint64s, order: Ints | None = None, budget: Budget | None = None) -> tuple[Ints, Ints]:
        """For each hit the number of the wanted hash, and the place, perhaps of a row that is gone. `order` sorts what
        is wanted, where that is known. The hits in runs are charged to the budget before they are made."""
        hits: list[tuple[Ints, Ints]] = []
        for run in self.runs:
            query, at = spans(run.hash, wanted, order, budget)
            hits.append((query, run.place[at].astype(np.intp)))
        if self.recent_rows:
            hits.append(self._recent_hits(wanted))
        if len(hits) == 1:
            return hits[0]
        none = np.zeros(0, np.intp)
        return np.concatenate([none, *(each for each, _ in hits)]), np.concatenate([none, *(at for _, at in hits)])

    def _recent_hits(self, wanted: Uint64s) -> tuple[Ints, Ints]:
        if len(wanted) > len(self.recent):
            recent = _run(*self._recent_entries())
            query, at = spans(recent.hash, wanted)
            return query, recent.place[at].astype(np.intp)
        found = [(n, at) for n, hash in enumerate(wanted.tolist()) for at in self.recent.get(hash, ())]
        table = np.array(found, np.intp).reshape(len(found), 2)
        return table[:, 0], table[:, 1]

    def remap(self, live: Bools, target: Ints) -> None:
        """Every row that lives has moved to `target`; the others are forgotten."""
        hash, place = self._recent_entries()
        self.recent, self.recent_rows = {}, 0
        for each, at in zip(hash.tolist(), place.tolist(), strict=True):
            if live[at]:
                self.add(each, int(target[at]))
        moved = [(run, live[run.place]) for run in self.runs]
        self.runs = [
            PlaceRun(run.hash[kept], target[run.place[kept]].astype(np.uint32)) for run, kept in moved if kept.any()
        ]


def _run(hash: Uint64s, place: Ints) -> PlaceRun:
    order = rising(hash)
    return PlaceRun(hash[order], place[order].astype(np.uint32))


def _without(run: PlaceRun, hash: Uint64s, place: Ints) -> PlaceRun:
    query, at = spans(run.hash, hash)
    gone = at[run.place[at] == place[query]]
    return PlaceRun(np.delete(run.hash, gone), np.delete(run.place, gone)) if len(gone) else run


def _merged(runs: Sequence[PlaceRun], live: Bools) -> PlaceRun:
    """Those of rows that live."""
    hash = np.concatenate([run.hash for run in runs])
    place = np.concatenate([run.place for run in runs])
    kept = live[place]
    if not kept.all():
        hash, place = hash[kept], place[kept]
    order = rising(hash)
    return PlaceRun(hash[order], place[order])
