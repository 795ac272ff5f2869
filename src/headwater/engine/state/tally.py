"""Tally: a few numbers per key, kept as sums.

Runs of sorted keys, merged as they grow. A key whose numbers are all zero is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.engine.rows.arrays import Int64s, firsts
from headwater.engine.rows.work import Work
from headwater.engine.state.lsm import push
from headwater.engine.state.run_file import held
from headwater.engine.state.sort_hashes import rising
from headwater.model.encoding.keys import Uint64s


@dataclass(slots=True)
class TallyRun:
    """A run: `values[i]` are the numbers of `key[i]`. `file` is set once it is on disk; `mapped`: it is there alone."""

    key: Uint64s
    values: Int64s
    file: str | None = None
    mapped: bool = False

    def __len__(self) -> int:
        return len(self.key)

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return 0 if self.mapped else held(self.key, self.values)


@dataclass(slots=True)
class Tally:
    width: int
    work: Work
    runs: list[TallyRun] = field(default_factory=list)

    def get(self, keys: Uint64s) -> Int64s:
        total = np.zeros((len(keys), self.width), np.int64)
        for run in self.runs:
            place = np.minimum(run.key.searchsorted(keys), len(run) - 1)
            hit = run.key[place] == keys
            total[hit] += run.values[place[hit]]
        return total

    def add(self, keys: Uint64s, values: Int64s) -> None:
        run = _summed(keys, values)
        if not len(run):
            return
        push(self.runs, run, _merged, self.work)

    def all(self) -> TallyRun:
        return (
            _merged(self.runs) if self.runs else TallyRun(np.zeros(0, np.uint64), np.zeros((0, self.width), np.int64))
        )


def _summed(key: Uint64s, values: Int64s) -> TallyRun:
    order = rising(key)
    key = key[order]
    first = firsts((key,))
    values = np.add.reduceat(values[order], first, axis=0) if len(first) else values
    kept = values.any(axis=1)
    return TallyRun(key[first][kept], values[kept])


def _merged(runs: Sequence[TallyRun]) -> TallyRun:
    return _summed(np.concatenate([run.key for run in runs]), np.concatenate([run.values for run in runs]))
