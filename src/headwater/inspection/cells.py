"""The cells of a data directory: their manifests, the templates and windows of the newest one, and their diffs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from headwater.engine.checkpoint_document import CheckpointContents, read_document, unpack_window
from headwater.engine.rows.work import Work
from headwater.engine.state.changelog import Changelog
from headwater.engine.state.run_file import is_whole
from headwater.fs.atomic_write import read_checked
from headwater.inspection.damage import DamageList
from headwater.inspection.log_segments import LogReport, RecordRange, log_report
from headwater.log.segment import SegmentReader
from headwater.pipeline.cell.manifest import Manifest
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.diff_record import decode_report


@dataclass(frozen=True, slots=True)
class ManifestReport:
    """All records of the log up to `offset` are in its files."""

    number: int
    offset: int
    position: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WindowReport:
    """A window whose rows the cell keeps; those that the source answers are only counted."""

    instance: int
    template: str
    values: tuple[Any, ...] = ()
    limit: int | None = None
    offset: int = 0
    seq: int = 0


@dataclass(slots=True)
class CellReport:
    """`emitted` is the last log offset whose diffs were appended; `failure` is why its last attempt failed."""

    number: int
    manifests: list[ManifestReport] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    windows: list[WindowReport] = field(default_factory=list)
    answered: int = 0
    diffs: LogReport = field(default_factory=LogReport)
    emitted: int | None = None
    epoch: int | None = None
    failure: str | None = None


def cell_report(layout: Layout, number: int, damage: DamageList) -> CellReport:
    report = CellReport(number)
    manifests = [one for one in (_manifest(path, damage) for path in _manifest_paths(layout.cell(number))) if one]
    for manifest in manifests:
        report.manifests.append(_manifest_report(manifest, layout.state(number), damage))
    if manifests:
        _read_state(report, manifests[0], layout.state(number), damage)
    report.diffs = log_report(layout.diffs(number), RecordRange(), damage)
    _read_progress(report, layout.diffs(number), damage)
    if layout.failure(number).exists():
        report.failure = layout.failure(number).read_text(errors="replace").strip()
    return report


def _manifest_paths(directory: Path) -> list[Path]:
    """The newest first."""
    paths = [path for path in directory.glob("manifest-*") if path.name.rpartition("-")[2].isdigit()]
    return sorted(paths, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)


def _manifest(path: Path, damage: DamageList) -> Manifest | None:
    with damage.of(path):
        return msgspec.msgpack.decode(read_checked(path), type=Manifest)
    return None


def _manifest_report(manifest: Manifest, state: Path, damage: DamageList) -> ManifestReport:
    """A file that is missing may have been removed with its manifest, by a running server: it is told only where the
    manifest is still there."""
    paths = [state / name for name in manifest.files]
    for path in paths:
        if not is_whole(path) and (state.parent / f"manifest-{manifest.number}").exists():
            damage.add(path, "expected the state file as it was written, found it missing or changed")
    size = sum(path.stat().st_size for path in paths if path.exists())
    return ManifestReport(manifest.number, manifest.offset, manifest.position, len(paths), size)


def _read_state(report: CellReport, manifest: Manifest, state: Path, damage: DamageList) -> None:
    with damage.of(state.parent / f"manifest-{manifest.number}"):
        document: CheckpointContents = read_document(manifest.state)
        report.tables = sorted(table.name for table in document.tables)
        report.templates = [sql for _, sql, _ in document.templates]
        report.windows = [_window(packed) for packed in _values(state, document.windows)]
        report.answered = len(_values(state, document.answers))


def _values(state: Path, files: Iterable[str]) -> list[bytes]:
    return [packed for _, packed in Changelog(Work()).load(state, files)]


def _window(packed: bytes) -> WindowReport:
    saved = unpack_window(packed)
    one = saved.instance
    return WindowReport(one.id, one.template, one.values, one.limit, one.offset, saved.seq)


def _read_progress(report: CellReport, diffs: Path, damage: DamageList) -> None:
    with damage.of(diffs), SegmentReader(diffs) as reader:
        last = reader.tail()
        if last is not None:
            progress = decode_report(last.payload)
            report.emitted, report.epoch = progress.to, progress.epoch
