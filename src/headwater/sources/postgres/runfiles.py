"""Runs on disk: one Arrow file each, a batch for every chunk, read by mapping it into memory. It never deletes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headwater.model.errors import Corrupt
from headwater.model.schema import Table
from headwater.sources.postgres.runs import Chunk, Run

_HASH, _COUNT = pa.field("hash", pa.uint64()), pa.field("count", pa.int32())


@dataclass(frozen=True, slots=True)
class Filed:
    """A run, and the name of its file."""

    name: str
    run: Run


def write(path: Path, table: Table, chunks: Iterable[Chunk]) -> Filed:
    """Durable once the directory is synced."""
    schema = pa.schema([_HASH, _COUNT, *table.arrow])
    with path.open("wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for chunk in chunks:
                arrays = [pa.array(chunk.hash), pa.array(chunk.count), *chunk.rows.columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        file.flush()
        os.fsync(file.fileno())
    return read(path)


def read(path: Path) -> Filed:
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = [reader.get_batch(n) for n in range(reader.num_record_batches)]
    except (OSError, pa.ArrowException) as error:
        raise Corrupt(
            f"the rows of a captured table cannot be read from {path.name}: {error}",
            hint="start again with a fresh data directory",
        ) from None
    return Filed(path.name, Run.of(map(_chunk, batches)))


def _chunk(batch: pa.RecordBatch) -> Chunk:
    rows = pa.RecordBatch.from_arrays(batch.columns[2:], schema=pa.schema([*batch.schema][2:]))
    return Chunk(batch.column(0).to_numpy(), batch.column(1).to_numpy(), None, rows)
