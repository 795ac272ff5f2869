"""Changelog: small values by key, kept on disk in runs; a save writes only what changed since the last one.

The owner holds the current values: it says which keys changed, and packs their values when they are saved. Runs are
merged, so that there are few, and a value is rewritten about log n times. It never deletes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from headwater.engine.rows.work import Work
from headwater.engine.state import persistence
from headwater.engine.state.object_cache import GONE, ObjectRun, filed, settled
from headwater.fs.sync import sync

Pack = Callable[[int], bytes | None]


class Changelog:
    """A value that is None when it is packed is gone."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._runs: list[ObjectRun] = []
        self._changed: set[int] = set()

    def note(self, *keys: int) -> None:
        self._changed.update(keys)

    def save(self, pack: Pack, directory: Path) -> list[str]:
        """The names of all its files, oldest first, each durable."""
        if self._changed:
            keys = np.sort(np.fromiter(self._changed, np.uint64, len(self._changed)))
            self._runs = settled([*self._runs, filed(keys, [pack(key) or GONE for key in keys.tolist()])], self._work)
            self._work.saved += len(keys)
            self._changed = set()
        unsaved = any(run.file is None for run in self._runs)
        self._runs, names = persistence.save_filed(self._runs, directory)
        if unsaved:
            sync(directory)
        return names

    def load(self, directory: Path, files: Iterable[str]) -> Iterator[tuple[int, bytes]]:
        """Every key that is there, with its value."""
        self._runs = persistence.filed_runs(directory, files)
        known: dict[int, bytes] = {}
        for run in self._runs:
            known.update(zip(run.key.tolist(), run.packed.to_pylist(), strict=True))
        return ((key, value) for key, value in known.items() if value != GONE)
