"""`headwater inspect`: prints what is in a data directory, and what is damaged."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table as RichTable
from rich.text import Text

from headwater.inspection.cells import CellReport
from headwater.inspection.data_directory import CatalogReport, DirectoryReport, directory_report
from headwater.inspection.log_segments import LogReport, RecordRange

_Row = tuple[object, ...]
_ROWS_MAX = 40  # of a table; --json tells all


def run(args: argparse.Namespace) -> int:
    report = directory_report(args.directory, RecordRange(args.records, args.start))
    if args.json:
        print(json.dumps(asdict(report), default=str))
    else:
        console = Console(highlight=False)
        for table in _tables(report):
            console.print(table)
    return 1 if report.damage else 0


def _tables(report: DirectoryReport) -> Iterator[RichTable]:
    yield _table("data directory", ("", ""), _overview(report))
    if report.catalog is not None:
        yield from _catalog_tables(report.catalog)
    yield from _log_tables(report.log)
    yield _table(
        "cells", ("cell", "manifests", "log offset", "position", "state", "windows", "emitted"), _cells(report)
    )
    for cell in report.cells:
        yield from _cell_tables(cell)
    if report.damage:
        yield _table("damaged", ("file", "problem"), ((one.file, one.problem) for one in report.damage), "bold red")


def _overview(report: DirectoryReport) -> Iterator[_Row]:
    yield "directory", report.root
    yield "format", report.format or "unknown"
    yield from ((f"{name} on disk", decimal(size)) for name, size in report.sizes.items())


def _catalog_tables(catalog: CatalogReport) -> Iterator[RichTable]:
    yield _table(
        "catalog",
        ("", ""),
        (
            ("source", catalog.source),
            ("cells", catalog.cells),
            ("boot", catalog.boot),
            ("generation", catalog.gen),
            ("position", catalog.position),
            ("captured tables", ", ".join(catalog.tables)),
        ),
    )
    rows = ((one.id[:8], ", ".join(one.tables), ", ".join(one.names)) for one in catalog.templates)
    yield _table(f"templates ({len(catalog.templates)})", ("id", "tables", "columns"), rows)


def _log_tables(log: LogReport) -> Iterator[RichTable]:
    rows = ((one.file, one.first_offset, one.records, decimal(one.bytes)) for one in log.segments)
    yield _table(f"log, next offset {log.next_offset}", ("segment", "first offset", "records", "size"), rows)
    yield _table("records by kind", ("kind", "records"), sorted(log.kinds.items()))
    if log.records:
        told = ((r.offset, r.kind, r.tx, r.position, decimal(r.bytes), r.says) for r in log.records)
        yield _table("records", ("offset", "kind", "tx", "position", "size", "says"), told, rows_max=len(log.records))


def _cells(report: DirectoryReport) -> Iterator[_Row]:
    for cell in report.cells:
        newest = cell.manifests[0] if cell.manifests else None
        windows = f"{len(cell.windows)} + {cell.answered} answered" if cell.answered else len(cell.windows)
        state = "" if newest is None else f"{newest.files} files, {decimal(newest.bytes)}"
        numbers = ", ".join(str(one.number) for one in cell.manifests)
        yield cell.number, numbers, newest and newest.offset, newest and newest.position, state, windows, cell.emitted


def _cell_tables(cell: CellReport) -> Iterator[RichTable]:
    if cell.templates:
        yield _table(f"cell {cell.number}: templates", ("query",), ((sql,) for sql in cell.templates))
    if cell.windows:
        rows = ((w.instance, w.template[:8], repr(w.values), w.limit, w.offset, w.seq) for w in cell.windows)
        yield _table(f"cell {cell.number}: windows", ("window", "template", "values", "limit", "offset", "seq"), rows)
    if cell.failure is not None:
        yield _table(f"cell {cell.number}: failure", ("",), ((cell.failure,),))


def _table(
    title: str, columns: Sequence[str], rows: Iterable[_Row], style: str = "", rows_max: int = _ROWS_MAX
) -> RichTable:
    table = RichTable(title=title, title_justify="left", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold", style=style)
    every = list(rows)
    for row in every[:rows_max]:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    if len(every) > rows_max:
        table.caption = f"… and {len(every) - rows_max} more: --json tells all"
    return table
