"""Which Arrow files are compressed: small ones. A large one is mapped into memory and read where it is, which a
compressed one cannot be."""

from __future__ import annotations

import pyarrow as pa

_SMALL_BYTES_MAX = 1 << 20
_PLAIN, _COMPRESSED = pa.ipc.IpcWriteOptions(), pa.ipc.IpcWriteOptions(compression="zstd")


def options_for(size: int) -> pa.ipc.IpcWriteOptions:
    """To write so many bytes with, in memory."""
    return _COMPRESSED if size <= _SMALL_BYTES_MAX else _PLAIN
