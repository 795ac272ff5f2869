"""Runs on disk: an Arrow file each, a batch for every chunk, read by mapping it into memory; small ones are compressed.

Who keeps its name keeps its digest too: a file that is not as it was is refused. It never deletes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from headwater.fs.atomic_write import digest_of
from headwater.fs.compression import options_for
from headwater.fs.permissions import open_to_write
from headwater.model.errors import Corrupt
from headwater.model.schema import Table
from headwater.sources.postgres.row_cache.runs import RowRun, RunChunk

_HASH, _COUNT = pa.field("hash", pa.uint64()), pa.field("count", pa.int32())


@dataclass(frozen=True, slots=True)
class RowRunFile:
    """A run, and the name and digest of its file."""

    name: str
    digest: str
    run: RowRun


def write(path: Path, table: Table, chunks: Iterable[RunChunk]) -> RowRunFile:
    """Durable once the directory is synced."""
    schema = pa.schema([_HASH, _COUNT, *table.arrow])
    with open_to_write(path) as file:
        first, rest = _first(chunks)
        with pa.ipc.new_file(file, schema, options=options_for(_size(first))) as writer:
            for chunk in chain(first, rest):
                arrays = [pa.array(chunk.hash), pa.array(chunk.count), *chunk.rows.columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        file.flush()
        os.fsync(file.fileno())
    return _filed(path)


def _first(chunks: Iterable[RunChunk]) -> tuple[list[RunChunk], Iterator[RunChunk]]:
    """Two of them, as far as there are: where there is only one, its size is that of the run."""
    rest = iter(chunks)
    return list(islice(rest, 2)), rest


def _size(first: Sequence[RunChunk]) -> int:
    return sum(chunk.rows.nbytes for chunk in first)


def read(path: Path, digest: str) -> RowRunFile:
    """The run as it was written."""
    try:
        filed = _filed(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from None
    if filed.digest != digest:
        raise _damaged(path, "its checksum does not match")
    return filed


def _filed(path: Path) -> RowRunFile:
    mapped = pa.memory_map(str(path)).read_buffer()
    digest = digest_of(memoryview(mapped))
    reader = pa.ipc.open_file(mapped)
    batches = [reader.get_batch(n) for n in range(reader.num_record_batches)]
    return RowRunFile(path.name, digest, RowRun.of(map(_chunk, batches)))


def _damaged(path: Path, found: str) -> Corrupt:
    return Corrupt(
        f"the rows of a captured table cannot be read from {path.name}: {found}",
        hint="start again with a fresh data directory",
    )


def _chunk(batch: pa.RecordBatch) -> RunChunk:
    rows = pa.RecordBatch.from_arrays(batch.columns[2:], schema=pa.schema([*batch.schema][2:]))
    return RunChunk(batch.column(0).to_numpy(), batch.column(1).to_numpy(), None, rows)
