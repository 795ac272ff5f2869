"""The durable part of what a PostgreSQL source keeps: captured tables in their shapes and the runs of their rows, as
files of one directory, at one position.

Files are never altered. A manifest names those that count, with the digest of each, and is replaced in one piece; the
others are removed. Damage raises `Corrupt`: an old row that is wrong would make wrong rows of every change to it. It
knows nothing of what is not settled yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from headwater.fs.atomic_write import read_checked, write_checked
from headwater.fs.permissions import make_directory
from headwater.fs.sync import sync_now
from headwater.model.errors import SourceError
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.row_cache import run_files
from headwater.sources.postgres.row_cache.run_files import RowRunFile
from headwater.sources.postgres.row_cache.runs import RowKeys, RowRun, concatenated, merged, run_of

DIRECTORY = "postgres"
SEED_ROWS_MAX = 1 << 18  # of a table that is being read, in memory; then they go into a file
_OLDER = "postgres.db"  # what earlier versions kept
_VERSION = 2
_MANIFEST = "manifest"
_FANOUT = 2  # a run is left alone while it is so many times larger than all newer ones together

Files = Mapping[int, Sequence[RowRunFile]]  # oldest first, by the oid of their table


class _Manifest(msgspec.Struct, frozen=True):
    version: int = _VERSION
    position: int = 0
    files: int = 0  # that were ever named
    numbers: dict[str, int] = msgspec.field(default_factory=dict)
    captures: dict[int, CapturedTable] = msgspec.field(default_factory=dict)
    runs: dict[int, list[tuple[str, str]]] = msgspec.field(default_factory=dict)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Manifest).decode


class DurableRows:
    """Every method may be called from any thread."""

    def __init__(self, directory: Path) -> None:
        if (directory / _OLDER).exists():
            raise _of_another_version(f"{_OLDER} of an older version")
        self._directory = directory / DIRECTORY
        make_directory(self._directory)
        self._manifest = self._read()
        self.files: Files = {
            oid: [run_files.read(self._directory / name, digest) for name, digest in named]
            for oid, named in self._manifest.runs.items()
        }
        self._named = self._manifest.files
        self._seeded: dict[int, list[RowRunFile]] = {}
        self._lock, self._tidying = threading.RLock(), threading.Lock()
        self._sweep()

    @property
    def position(self) -> int:
        """The rows are those of all that happened up to here."""
        return self._manifest.position

    @property
    def captures(self) -> dict[int, CapturedTable]:
        return dict(self._manifest.captures)

    def number(self, name: str) -> int:
        return self._manifest.numbers.get(name, 0)

    def note(self, name: str, value: int) -> None:
        with self._lock:
            self._commit(self.files, numbers=self._manifest.numbers | {name: value})

    def seed(self, capture: CapturedTable, batches: Iterable[pa.RecordBatch]) -> None:
        """The rows of a table that is no captured one yet."""
        keyed = RowKeys(capture)
        parts: list[RowRunFile] = []
        try:
            for run in _seeds(keyed, batches):
                parts.append(self._write(keyed, [run], is_whole=True))
            whole = self._write(keyed, [one.run for one in parts], is_whole=True, adds=True) if len(parts) > 1 else None
        except BaseException:
            self._remove(one.name for one in parts)
            raise
        if whole is not None:
            self._remove(one.name for one in parts)
            parts = [whole]
        self._remove(one.name for one in self._seeded.get(capture.oid, ()))  # of an attempt that went no further
        self._seeded[capture.oid] = parts

    def begin(self, capture: CapturedTable) -> None:
        """A table is captured from here on; its rows were seeded."""
        with self._lock:
            files = {**self.files, capture.oid: self._seeded.pop(capture.oid, [])}
            self._commit(files, captures=self._manifest.captures | {capture.oid: capture})

    def purge(self, oid: int) -> None:
        """As if the table had never been captured."""
        with self._lock:
            if oid in self._manifest.captures or oid in self.files:
                self._commit(_without(self.files, oid), captures=_without(self._manifest.captures, oid))

    def settle(
        self,
        position: int,
        captures: Mapping[int, CapturedTable],
        fresh: Mapping[int, Sequence[RowRun]],
        rewritten: Iterable[int],
    ) -> None:
        """The tables as they are at `position`, with these runs on top of those that are there; but of the tables that
        were rewritten nothing older counts."""
        with self._lock:
            kept = {oid: files for oid, files in self.files.items() if oid in captures and oid not in set(rewritten)}
            for oid, runs in fresh.items():
                older = kept.get(oid, [])
                if oid in captures and any(run.size for run in runs):
                    kept[oid] = [*older, self._write(RowKeys(captures[oid]), runs, is_whole=not older)]
            self._commit(kept, position=position, captures=dict(captures))

    def tidy(self) -> None:
        """Merges runs where they became many. Others go on meanwhile."""
        if self._tidying.acquire(blocking=False):
            try:
                for oid in list(self.files):
                    self._tidy(oid)
            finally:
                self._tidying.release()

    def _tidy(self, oid: int) -> None:
        with self._lock:
            files, capture = self.files.get(oid, ()), self._manifest.captures.get(oid)
        start = worth_merging([one.run.size for one in files])
        if capture is None or start == len(files):
            return
        new = self._write(RowKeys(capture), [one.run for one in files[start:]], is_whole=start == 0)
        with self._lock:
            now = self.files.get(oid, ())
            if [*now[: len(files)]] == [*files]:
                self._commit({**self.files, oid: [*files[:start], new, *now[len(files) :]]})
            else:  # the table ended meanwhile, or was captured anew
                self._remove([new.name])

    def _write(self, keyed: RowKeys, runs: Sequence[RowRun], *, is_whole: bool, adds: bool = False) -> RowRunFile:
        with self._lock:
            self._named += 1
            path = self._directory / f"{self._named:08d}.arrow"
        try:
            return run_files.write(path, keyed.capture.table, merged(runs, keyed, is_whole=is_whole, adds=adds))
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _commit(self, files: Files, **changed: Any) -> None:
        """From here on these files count, on disk first. Called with the lock."""
        gone = _names(self.files) - _names(files)
        runs = {oid: [(one.name, one.digest) for one in some] for oid, some in files.items()}
        manifest = msgspec.structs.replace(self._manifest, runs=runs, files=self._named, **changed)
        sync_now(self._directory)
        write_checked(self._directory / _MANIFEST, _encode(manifest))
        self._manifest, self.files = manifest, files
        self._remove(gone)

    def _read(self) -> _Manifest:
        try:
            manifest = _decode(read_checked(self._directory / _MANIFEST))
        except FileNotFoundError:
            return _Manifest()
        if manifest.version != _VERSION:
            raise _of_another_version(f"version {manifest.version}")
        return manifest

    def _sweep(self) -> None:
        """What was being written when somebody was killed."""
        named = _names(self.files)
        self._remove(path.name for path in self._directory.glob("*.arrow") if path.name not in named)

    def _remove(self, names: Iterable[str]) -> None:
        """Who looks at one just now has it mapped, and keeps it."""
        for name in names:
            (self._directory / name).unlink(missing_ok=True)


def worth_merging(sizes: Sequence[int]) -> int:
    """The first of the runs, oldest first, that should become one with all newer ones; the end where none should."""
    start = len(sizes) - 1
    total = sizes[-1] if sizes else 0
    while start > 0 and sizes[start - 1] < _FANOUT * total:
        start -= 1
        total += sizes[start]
    return start if start < len(sizes) - 1 else len(sizes)


def _of_another_version(found: str) -> SourceError:
    return SourceError(
        f"the cached rows in the data directory were written by another version: found {found}",
        hint="start again with a fresh data directory",
    )


def _names(files: Files) -> set[str]:
    return {one.name for some in files.values() for one in some}


def _without(given: Mapping[int, Any], oid: int) -> dict[int, Any]:
    return {key: value for key, value in given.items() if key != oid}


def _seeds(keyed: RowKeys, batches: Iterable[pa.RecordBatch]) -> Iterator[RowRun]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= SEED_ROWS_MAX:
            yield _seed(keyed, waiting)
            waiting = []
    if waiting:
        yield _seed(keyed, waiting)


def _seed(keyed: RowKeys, batches: Sequence[pa.RecordBatch]) -> RowRun:
    """Rows of a table without a key may be equal: they are counted together."""
    rows = concatenated(keyed, batches)
    one = run_of(keyed, rows, np.ones(rows.num_rows, np.int32))
    return one if keyed.capture.table.key else RowRun.of(merged([one], keyed, is_whole=True, adds=True))
