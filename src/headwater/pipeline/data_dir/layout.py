"""The paths in a data directory, and the lock that keeps a second server out. It opens no other file.

Everything in it can be rebuilt from the rows of the source, so it may be cleared.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from headwater.fs.permissions import make_directory, tighten
from headwater.log.ownership import fence
from headwater.model.errors import HeadwaterError

_OURS = frozenset({"lock", "format", "catalog", "log", "hydration", "spark", "cells", "postgres"})


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def catalog(self) -> Path:
        return self.root / "catalog"

    @property
    def hydration(self) -> Path:
        return self.root / "hydration"

    @property
    def spark(self) -> Path:
        return self.root / "spark"

    @property
    def cells(self) -> Path:
        return self.root / "cells"

    @property
    def kept(self) -> Path:
        """What a source keeps of its database."""
        return self.root / "postgres"

    def cell(self, number: int) -> Path:
        return self.cells / str(number)

    def diffs(self, number: int) -> Path:
        return self.cell(number) / "diffs"

    def state(self, number: int) -> Path:
        return self.cell(number) / "state"

    def failure(self, number: int) -> Path:
        """Where a cell that fails says why: its standard error belongs to Spark."""
        return self.cell(number) / "failure"

    def poison(self, number: int) -> Path:
        """Where is counted how often a cell failed at one place."""
        return self.cell(number) / "poison"

    def make(self, cells: int) -> None:
        for path in (self.log, self.hydration, self.spark, *(self.state(n) for n in range(cells))):
            make_directory(path)

    def tighten(self) -> None:
        """For its owner alone, also where an earlier version made it."""
        tighten(self.root, _OURS)

    def set_aside_diffs(self, cell: int) -> None:
        """Diffs that do not read any more: the cell, which must not run yet, begins anew with those after its state."""
        damaged = self.diffs(cell)
        beside = damaged.with_name(f"{damaged.name}-damaged")
        shutil.rmtree(beside, ignore_errors=True)
        damaged.rename(beside)

    def clear(self) -> None:
        """As it was before the first start, but for its lock, its mark and what is not ours."""
        self.catalog.unlink(missing_ok=True)
        for diffs in self.cells.glob("*/diffs"):
            fence(diffs)  # a worker of a killed server may live for a moment
        for path in (self.log, self.hydration, self.spark, self.cells, self.kept):
            if path.exists():
                shutil.rmtree(path)


class DirectoryLock:
    """Held while a server owns a data directory; goes with the process, however that ends."""

    def __init__(self, root: Path) -> None:
        try:
            make_directory(root)
            self._fd = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HeadwaterError(
                f"cannot use {root} as the data directory: {error.strerror}",
                hint="choose a --data-dir that can be created and written to",
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._fd, 32, 0).decode(errors="replace") or "unknown"
            os.close(self._fd)
            raise HeadwaterError(
                f"the data directory {root} is in use by process {owner}",
                hint="connect to that server with ws://, or choose another --data-dir",
            ) from None
        os.truncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._fd)
