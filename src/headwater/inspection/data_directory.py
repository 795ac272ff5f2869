"""A data directory as it is on disk: format, catalog, log, cells, sizes, and what is damaged.

It never writes and takes no lock: it may look while a server runs. What changes meanwhile is told as it was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from headwater.fs.atomic_write import digest_of, read_checked
from headwater.inspection.cells import CellReport, cell_report
from headwater.inspection.damage import Damage, DamageList
from headwater.inspection.log_segments import LogReport, RecordRange, log_report
from headwater.inspection.table_rows import damaged_rows
from headwater.model.errors import HeadwaterError
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.data_dir.layout import Layout

_OURS = ("format", "catalog", "log", "cells", "hydration", "postgres", "spark")


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """An active template: the table or relation it is arranged from, the tables it reads, its output names."""

    id: str
    table: str
    tables: list[str]
    names: list[str]


@dataclass(frozen=True, slots=True)
class CatalogReport:
    source: str
    cells: int
    gen: int
    boot: int
    position: int | None
    tables: list[str]
    templates: list[TemplateReport]


@dataclass(slots=True)
class DirectoryReport:
    """`sizes` are bytes on disk, by entry of the directory."""

    root: str
    format: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    catalog: CatalogReport | None = None
    log: LogReport = field(default_factory=LogReport)
    cells: list[CellReport] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)


def directory_report(root: Path, records: RecordRange) -> DirectoryReport:
    """Raises where there is no data directory."""
    if not any((root / name).exists() for name in ("format", "catalog", "log")):
        raise HeadwaterError(
            f"expected a data directory, found {'nothing of one' if root.exists() else 'no directory'} at {root}",
            hint="give the directory that `headwater serve --data-dir` was given",
        )
    layout, damage = Layout(root), DamageList(root)
    report = DirectoryReport(str(root), _format(root / "format", damage), _sizes(root))
    report.catalog = _catalog(layout.catalog, damage)
    report.log = log_report(layout.log, records, damage)
    rows = damaged_rows(layout)
    report.cells = [cell_report(layout, number, damage) for number in _cell_numbers(layout)]
    applied = min((one.manifests[0].offset if one.manifests else 0 for one in report.cells), default=0)
    for one in rows:
        if one.is_there or one.offset > applied:  # a file that every cell is past may be removed at any time
            damage.add(layout.hydration / one.file, one.problem)
    report.damage = damage.found
    return report


def _format(path: Path, damage: DamageList) -> str | None:
    """Before format 4 it had no checksum."""
    with damage.of(path):
        form, _, digest = path.read_text().strip().partition(" ")
        if digest and digest != digest_of(form.encode()):
            damage.add(path, f"expected the checksum {digest_of(form.encode())}, found {digest}")
        return form
    return None


def _sizes(root: Path) -> dict[str, int]:
    found = {name: _bytes(root / name) for name in _OURS if (root / name).exists()}
    return {**found, "total": sum(found.values())}


def _bytes(path: Path) -> int:
    """What a running server removes meanwhile counts as nothing."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(_file_bytes(file) for file in files)


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _catalog(path: Path, damage: DamageList) -> CatalogReport | None:
    with damage.of(path):
        read = msgspec.msgpack.decode(read_checked(path), type=Catalog)
        templates = [
            TemplateReport(id, known.table, sorted(known.tables), list(known.names))
            for id, known in sorted(read.templates.items())
        ]
        return CatalogReport(
            read.source, read.cells, read.gen, read.boot, read.position, sorted(read.tables), templates
        )
    return None


def _cell_numbers(layout: Layout) -> list[int]:
    return sorted(int(path.name) for path in layout.cells.glob("*") if path.name.isdigit())
