"""A run on disk: one immutable Arrow file named by the digest of its content, and memory-mapped to be read.

An intact file of that name already holds what would be written. It never deletes: the owner removes files that no
document names any more.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.fs.atomic_write import digest_of, digest_of_file
from headwater.fs.compression import options_for
from headwater.fs.permissions import open_to_write
from headwater.fs.sync import sync
from headwater.model.errors import Corrupt

_HINT = "start the cell from an older manifest, or with a fresh data directory"


def write(batch: pa.RecordBatch, directory: Path) -> str:
    """The name of its file, durable once the directory is synced. The name is the digest: until then, who reads it
    would notice."""
    return _written(batch, directory, None)


def write_compressed(batch: pa.RecordBatch, directory: Path) -> str:
    """As `write`; where it is small, it is compressed: then it is read into memory, and cannot leave it again."""
    return _written(batch, directory, options_for(batch.nbytes))


def _written(batch: pa.RecordBatch, directory: Path, options: pa.ipc.IpcWriteOptions | None) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    content = memoryview(sink.getvalue())
    name = f"{digest_of(content)}.arrow"
    if not is_whole(directory / name):
        unfinished = directory / f"{name}.{os.getpid()}"
        with open_to_write(unfinished) as file:
            file.write(content)
        unfinished.replace(directory / name)
        sync(directory / name)
    return name


def is_whole(path: Path) -> bool:
    """The file is there, and as it was written."""
    return digest_of_file(path) == path.stem


def read(path: Path) -> pa.RecordBatch:
    """Mapped, not copied. The name is the digest: a file that is not as it was is refused."""
    try:
        mapped = pa.memory_map(str(path)).read_buffer()
    except OSError as error:
        raise Corrupt(f"the state file {path.name} cannot be read: {error}", hint=_HINT) from None
    if digest_of(memoryview(mapped)) != path.stem:
        raise Corrupt(f"the state file {path.name} is damaged", hint=_HINT)
    return pa.ipc.open_file(mapped).get_batch(0)


def held(*parts: npt.NDArray[Any] | pa.RecordBatch | None) -> int:
    """The bytes that these take in memory; one value said to be many takes none."""
    return sum(_bytes(part) for part in parts if part is not None)


def _bytes(part: npt.NDArray[Any] | pa.RecordBatch) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes if all(part.strides) else part.itemsize
    return int(part.get_total_buffer_size())
