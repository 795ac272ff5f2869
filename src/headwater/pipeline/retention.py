"""Deletes what is no longer needed: log segments that every cell is past, hydration files, changes kept by the source.

It never deletes what a manifest, an activation in progress or a resuming client may need.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.log.segment import SegmentWriter
from headwater.model.errors import HeadwaterError
from headwater.pipeline.cell.manifest import oldest_manifest
from headwater.pipeline.data_dir.layout import Layout
from headwater.runtime.vital_thread import VitalThread
from headwater.sources.source import Source

_EVERY_S = 5.0
_SEGMENT_BYTES_MIN = 64 << 10  # of the log's last segment: it is ended, so that it can go when all cells are past it
_log = logging.getLogger("headwater.retention")


@dataclass(frozen=True, slots=True)
class Kept:
    """What an activation at log offset `offset` reads: hydration files, and the log from `since` on."""

    offset: int
    since: int
    files: tuple[str, ...]


class Retention:
    """`floor` says from which log offset an activation under way still reads; `settled` is told before segments go.
    `release` lets go of the templates that nobody needs any more; `watch` looks at what the source keeps for us."""

    def __init__(
        self,
        layout: Layout,
        cells: int,
        log: SegmentWriter,
        source: Source,
        position: Callable[[], int],
        floor: Callable[[], int | None],
        settled: Callable[[], None],
        release: Callable[[], None],
        watch: Callable[[], None],
    ) -> None:
        self._layout, self._cells, self._writer, self._source = layout, cells, log, source
        self._position, self._floor, self._settled = position, floor, settled
        self._release, self._watch = release, watch
        self._kept = [Kept(log.next_offset, log.first_offset, tuple(path.name for path in layout.hydration.iterdir()))]
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.thread = VitalThread("headwater-retention", self._run)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.release()
        self._stop.set()
        if self.thread.is_alive():
            self.thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            try:
                self._release()
                self.sweep()
                self._watch()
            except (HeadwaterError, OSError) as error:
                _log.warning("could not remove old data; retrying later: %s", error)
            except Exception:
                _log.exception("could not remove old data; retrying later")

    def activated(self, offset: int, since: int, files: Iterable[str]) -> None:
        """These files, and the log from `since` on, are needed until every cell is past the activation at `offset`."""
        with self._lock:
            self._kept.append(Kept(offset, since, tuple(files)))

    def sweep(self) -> None:
        """Both manifests of a cell must be able to replay, so the older one says what may go."""
        manifests = [oldest_manifest(self._layout.cell(cell)) for cell in range(self._cells)]
        offsets = [manifest.offset for manifest in manifests if manifest is not None]
        self._source.forget(self._position())  # also what was fetched before these offsets, whose records may go
        if len(offsets) < self._cells:
            return
        under_way = self._floor()  # asked for first: what ends after this is in `_kept` by then
        with self._lock:
            passed = [one for one in self._kept if one.offset <= min(offsets)]
            self._kept = [one for one in self._kept if one.offset > min(offsets)]
            floors = [one.since for one in self._kept] + ([] if under_way is None else [under_way])
        self._settled()
        self._writer.truncate(min([*offsets, *floors]))
        self._writer.end_segment(_SEGMENT_BYTES_MIN)
        for file in (file for one in passed for file in one.files):
            _remove(self._layout.hydration / file)


def _remove(path: Path) -> None:
    """A file of rows, or a directory of what was built of them."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
