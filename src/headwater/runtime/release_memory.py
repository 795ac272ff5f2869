"""Gives memory that was freed back to the system: allocators keep it for the next time, which may never come."""

from __future__ import annotations

import ctypes
from functools import cache

import pyarrow as pa


def trim_memory() -> None:
    """Takes milliseconds: for after much was released. It frees nothing that is in use."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    """Of glibc; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
