"""Hydration: the rows of a table at one source position, written to files, and the changes logged since.

A batch may carry a `diff` column: −1 removes a row of an earlier batch. This module appends nothing to the log.
"""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.engine.rows.conform import conform
from headwater.fs.atomic_write import digest_of_file
from headwater.fs.permissions import open_to_write
from headwater.fs.sync import sync
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader
from headwater.model.errors import Corrupt
from headwater.model.schema import Table
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, FetchRecord, Hydration
from headwater.pipeline.records.frame import decode_frame
from headwater.runtime.switch_interval import yielding
from headwater.sources.source import Snapshot, Source

Progress = Callable[[str, int], None]
_log = logging.getLogger("headwater.pipeline")


def say_progress(table: str, rows: int) -> None:
    _log.debug("%s: %d rows read", table, rows)


def hydrate(source: Source, table: str, directory: Path, since: int, progress: Progress) -> Hydration:
    """Reads the table at one position of the source into one Arrow file; `since` is where the log stood before."""
    hydration = hydrate_few(source, table, directory, since, progress, sys.maxsize)
    assert hydration is not None
    return hydration


def hydrate_few(
    source: Source, table: str, directory: Path, since: int, progress: Progress, bytes_max: int
) -> Hydration | None:
    """The same, for a table of no more bytes than that. None, and no file, for a larger one."""
    path = directory / f"{secrets.token_hex(8)}.arrow"
    with yielding(), source.snapshot(table) as snapshot:
        rows = _write(path, snapshot, progress, bytes_max)
        if rows is None:
            path.unlink()
            return None
        digest = digest_of_file(path) or ""
        return Hydration(snapshot.table, (path.name,), (digest,), snapshot.position, since, rows)


def _write(path: Path, snapshot: Snapshot, progress: Progress, bytes_max: int) -> int | None:
    """How many rows; None where they are too many bytes."""
    rows = 0
    with open_to_write(path) as file:
        with pa.ipc.new_stream(file, snapshot.table.arrow) as writer:
            for batch in snapshot:
                writer.write_batch(batch)
                if file.tell() > bytes_max:
                    return None
                rows += batch.num_rows
                progress(snapshot.table.name, rows)
    sync(path)
    sync(path.parent)
    return rows


def read_rows(directory: Path, hydration: Hydration, table: Table) -> list[pa.RecordBatch]:
    """The batches of the record's files, in the table's present schema; a file that is not as it was is refused."""
    check_rows(directory, hydration)
    batches: list[pa.RecordBatch] = []
    for file in hydration.files:
        with pa.memory_map(str(directory / file)) as mapped, pa.ipc.open_stream(mapped) as reader:
            batches.extend(conform(batch, table) for batch in reader)
    return batches


def check_rows(directory: Path, hydration: Hydration) -> None:
    for file, digest in zip(hydration.files, hydration.digests, strict=True):
        if digest_of_file(directory / file) != digest:
            raise Corrupt(
                f"the hydration file {file} is missing or damaged",
                hint="start with a fresh data directory",
            )


def fetched_rows(fetched: FetchRecord, table: Table) -> Iterator[pa.RecordBatch]:
    """In the table's present schema."""
    with pa.ipc.open_stream(pa.py_buffer(fetched.rows)) as reader:
        for batch in reader:
            yield conform(batch, table)


def rows_at(
    layout: Layout, activate: Activate, tables: Mapping[str, Table], here: int
) -> dict[str, list[pa.RecordBatch]]:
    """The tables as they are just before log offset `here`: what was read, and what was logged since."""
    return {one.table.name: _rows(layout, one, tables[one.table.name], here) for one in activate.tables}


def _rows(layout: Layout, hydration: Hydration, table: Table, here: int) -> list[pa.RecordBatch]:
    read = read_rows(layout.hydration, hydration, table)
    return [*read, *logged_since(layout.log, table, hydration, here)]


def logged_since(log: Path, table: Table, hydration: Hydration, here: int) -> Iterator[pa.RecordBatch]:
    """The table's changes that are in the log past the snapshot and before `here`, as rows with `diff`."""
    if hydration.since >= here:
        return
    reader = SegmentReader(log, hydration.since)
    try:
        while reader.offset < here:
            for record in reader.poll(here - reader.offset):
                if record.kind is Kind.FRAME:
                    yield from _past(record.payload, table, hydration.position)
    finally:
        reader.close()


def _past(payload: bytes, table: Table, position: int) -> Iterable[pa.RecordBatch]:
    frame = decode_frame(payload, tables=(table.name,))
    late = np.flatnonzero(np.asarray(frame.positions) > position)
    for section in frame.sections:
        keep = np.isin(section.batch.column("tx").to_numpy(), late)
        if keep.any():
            batch = section.batch.filter(pa.array(keep))
            rows = conform(batch.drop_columns(["tx", "diff"]), table)
            yield rows.append_column("diff", batch.column("diff"))
