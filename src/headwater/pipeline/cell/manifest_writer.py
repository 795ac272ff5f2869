"""Writes a cell's manifests, in a thread of its own where the cell wants to go on meanwhile.

The cell puts its state into files; this waits for the disk: for the diffs, for these files, then for the manifest that
makes them count. It never looks into a state.
"""

from __future__ import annotations

import threading
from pathlib import Path

from headwater.fs.sync import PendingSyncs
from headwater.log.segment import SegmentWriter
from headwater.pipeline.cell.manifest import Manifest, write_manifest


class ManifestWriter:
    """Belongs to the cell's thread; one manifest at a time is under way."""

    def __init__(self, directory: Path, diffs: SegmentWriter, history_bytes_max: int) -> None:
        self._directory, self._diffs, self._history_bytes_max = directory, diffs, history_bytes_max
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def busy(self) -> bool:
        """The last manifest is not in place yet. Raises what it failed at."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()
        return self._thread is not None

    def begin(self, manifest: Manifest, files: PendingSyncs) -> None:
        """In a thread of its own; `wait` returns when it is in place."""
        self.wait()
        present = frozenset(path.name for path in (self._directory / "state").iterdir())
        self._thread = threading.Thread(target=self._try, args=(manifest, files, present), name="headwater-manifest")
        self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _try(self, manifest: Manifest, files: PendingSyncs, present: frozenset[str]) -> None:
        try:
            self._diffs.sync()
            files.wait()
            write_manifest(self._directory, manifest, self._diffs.fence(), present)
            self._diffs.truncate(self._diffs.newest(self._history_bytes_max))
        except BaseException as error:
            self._failure = error
